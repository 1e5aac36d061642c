"""A fault run of `read_new_files`: files arrive while its Spark program is killed again and again.

    python soak/files_run.py --files 10000 --kills 20 --picture files.png

The files land in two containers. The first tenth is there before the first start. The others arrive
over the whole run, each with an event: some twice, some late, some never; some are broken, some are
made empty and filled later, and folders are announced like files. In the middle one container is
lost for a while, and an empty folder is in its place. At the end what was read is compared with a
listing of the folders. Exit status: 0 if each good file was read exactly once, each version of a
broken one is set aside by one batch, and a batch that came again had the same files; 1 if not.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

_HERE = Path(__file__).resolve().parent
_REPOSITORY = _HERE.parents[1]
sys.path[:0] = [str(_REPOSITORY), str(_HERE), str(_HERE.parent / "support")]

from files_picture import draw  # noqa: E402
from landing import Landing  # noqa: E402
from processes import Processes  # noqa: E402
from quick_jvm import QUICK_JVM  # noqa: E402

from spark_azqueue.files.record import read_bad  # noqa: E402
from spark_azqueue.testing import FakeQueueService  # noqa: E402

_KINDS = ("everything", "java", "source", "driver")
_CONTAINERS = ("landing", "archive")
_PATIENCE_S = 900
_LIFE_AT_MOST_S = 90
_STOPS_AT_MOST = 20


class Arrivals(threading.Thread):
    """Writes the files and sends their events, in a thread of its own."""

    def __init__(
        self, fake: FakeQueueService, landings: list[Landing], given: argparse.Namespace
    ) -> None:
        super().__init__(daemon=True)
        self._fake, self._landings, self._given = fake, landings, given
        self._chance = random.Random(given.seed)
        self._rest = list(range(given.files))
        self._late: list[tuple[float, str]] = []
        self._to_fill: list[tuple[float, int]] = []
        self._filled = 0.0
        self.kinds: dict[str, list[int]] = {
            kind: [] for kind in ("there before", "late", "lost", "twice", "broken", "empty first")
        }
        self.broken: set[str] = set()
        self.times: list[float] = []
        self.outage: list[float] = []

    def write(self) -> str:
        """Write the next file, and return its event."""
        number = self._rest.pop(0)
        name = _name(number)
        broken = self._chance.random() < 0.002
        self.times.append(time.monotonic())
        if broken:
            self.broken.add(name)
            self.kinds["broken"].append(number)
        return self._landing(number).write(name, f'{{"id": {number}}}' if not broken else '{"id": ')

    def _landing(self, number: int) -> Landing:
        return self._landings[number % len(self._landings)]

    def _fill(self, now: float) -> list[str]:
        """Fill what was made empty, if it is time."""
        ready = [number for at, number in self._to_fill if at <= now]
        self._to_fill = [(at, number) for at, number in self._to_fill if at > now]
        if ready:
            self._filled = now
        return [
            self._landing(number).write(_name(number), f'{{"id": {number}}}') for number in ready
        ]

    def run(self) -> None:
        """Write all the others, as time goes by."""
        begin, files = time.monotonic(), len(self._rest)
        lost_at = begin + self._given.seconds * 0.4
        while self._rest or self._late or self._to_fill or len(self.outage) < 2:
            now = time.monotonic()
            self._lose(now, lost_at)
            due = min(files, int(files * (now - begin) / self._given.seconds))
            events = [
                each
                for each in (self._one(now) for _ in range(due - files + len(self._rest)))
                if each
            ]
            ready = [event for at, event in self._late if at <= now]
            self._late = [(at, event) for at, event in self._late if at > now]
            events = [copy for group in events for copy in group] + ready + self._fill(now)
            self._chance.shuffle(events)
            if events:
                self._fake.put_many("arrived", events)
            time.sleep(0.1)

    def is_settled(self) -> bool:
        """Whether a listing that begins now has all files."""
        return time.monotonic() > max(self.times[-1], self._filled) + 2 * self._given.backfill

    def _lose(self, now: float, at: float) -> None:
        """Lose the last container, as if it were no longer mounted, and find it again later."""
        landing = self._landings[-1]
        if not self.outage and now >= at:
            there = landing.folder
            landing.folder = there.rename(there.with_name("away"))
            there.mkdir()
            self.outage.append(now)
        elif len(self.outage) == 1 and now >= at + self._given.outage:
            there = landing.folder.with_name("archive")
            there.rmdir()
            landing.folder = landing.folder.rename(there)
            self.outage.append(now)

    def _one(self, now: float) -> list[str]:
        number = self._rest[0]
        if self._chance.random() < 0.05:
            self._rest.pop(0)
            self.times.append(now)
            self.kinds["empty first"].append(number)
            self._to_fill.append((now + self._chance.uniform(0, 20), number))
            landing, name = self._landing(number), _name(number)
            return [landing.write(name, ""), landing.event(name.partition("/")[0])]
        event, chance = self.write(), self._chance.random()
        if chance < 0.03:
            self.kinds["lost"].append(number)
            return []
        if chance < 0.13:
            self.kinds["late"].append(number)
            self._late.append((now + self._chance.uniform(1, 40), event))
            return []
        if chance < 0.33:
            self.kinds["twice"].append(number)
            if chance < 0.23:
                return [event, event]
            self._late.append((now + self._chance.uniform(1, 40), event))
        return [event]


def _name(number: int) -> str:
    return f"shop {number % 7}/{number:06}.json"


def main() -> int:
    """Run it, and say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=240.0, help="how long files arrive")
    parser.add_argument("--backfill", type=float, default=100.0, help="seconds between listings")
    parser.add_argument("--outage", type=float, default=20.0, help="seconds without a container")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=Path(".soak/files"))
    parser.add_argument("--picture", type=Path, help="draw it here")
    given = parser.parse_args()
    folder = given.folder.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    for name in (*_CONTAINERS, "output", "lives"):
        (folder / name).mkdir(parents=True)
    with FakeQueueService() as fake:
        for queue in ("arrived", "arrived-bad"):
            fake.create_queue(queue)
        told = run(fake, folder, given)
    (folder / "told.json").write_text(json.dumps(told))
    if given.picture:
        draw(told, given.picture)
    bad = [line for line in told["findings"] if line]
    for name in ("summary", "findings"):
        print(*told[name], sep="\n")
    return 1 if bad else 0


def run(fake: FakeQueueService, folder: Path, given: argparse.Namespace) -> dict[str, Any]:
    """The whole run: arrivals, kills, the last life, the comparison."""
    chance = random.Random(given.seed)
    landings = [
        Landing(folder / name, f"https://shopdata.blob.core.windows.net/{name}", name)
        for name in _CONTAINERS
    ]
    arrivals = Arrivals(fake, landings, given)
    for number in range(given.files // 10):
        arrivals.write()
        arrivals.kinds["there before"].append(number)
    began, kills, reads, kinds = time.monotonic(), [], [], Counter()
    read_at: dict[int, float] = {}
    seen: set[str] = set()
    arrivals.start()

    def look() -> int:
        now = time.monotonic() - began
        for path in finished(folder):
            if path.name not in seen:
                seen.add(path.name)
                read_at.update({row[0]: now for row in json.loads(path.read_text())})
        reads.append((now, len(read_at)))
        return len(read_at)

    while len(kills) < given.kills:
        life = start(fake, folder, given, len([*(folder / "lives").iterdir()]))
        # By its progress, not by the clock: a slow machine has the same moments.
        steps, end = progress(folder) + chance.randint(1, 4), time.monotonic() + _LIFE_AT_MOST_S
        while life.status is None and time.monotonic() < end:
            look()
            time.sleep(0.2)
            if life.starting and progress(folder) >= steps:
                break
        time.sleep(chance.uniform(0, 1.5))
        if life.status is not None:
            kinds["stopped by the outage"] += 1
            life.wait_until_gone()
            if kinds["stopped by the outage"] > _STOPS_AT_MOST:
                raise RuntimeError(f"the job stops again and again: see {folder / 'lives'}")
            continue
        kind = chance.choice(_KINDS)
        if not life.end(kind):
            kind = "everything"
            life.end(kind)
        if not life.over_within(5):
            life.kill()
        life.wait_until_gone()
        kinds[kind] += 1
        kills.append(time.monotonic() - began)
    end = time.monotonic() + _PATIENCE_S
    good = given.files
    while reads[-1][1] < good and time.monotonic() < end:
        life = start(fake, folder, given, len([*(folder / "lives").iterdir()]))
        while life.status is None and time.monotonic() < end:
            look()
            good = given.files - len(arrivals.broken)
            is_idle = not arrivals.is_alive() and fake.count("arrived") == 0
            # A start lists what had no event, if it is not too young.
            if is_idle and (reads[-1][1] >= good or arrivals.is_settled()):
                break
            time.sleep(0.3)
        life.end("stop")
        life.over_within(60)
        life.kill()
    look()
    good = given.files - len(arrivals.broken)
    letters = aside(fake)
    counts = {kind: len(numbers) for kind, numbers in arrivals.kinds.items()}
    summary = [
        f"{given.files} files in {len(landings)} containers, {counts}",
        f"{len(kills)} kills, {dict(kinds)}",
        f"{reads[-1][1]} rows of {good} good files in {len(finished(folder))} batches,"
        f" {time.monotonic() - began:.0f} s",
        f"{len(set(letters))} files set aside, in {len(letters)} letters;"
        f" queue: {fake.count('arrived')} left",
    ]
    return {
        "summary": summary,
        "findings": compare(folder, arrivals.broken, fake),
        "arrived": [max(0.0, at - began) for at in arrivals.times],
        "read_at": read_at,
        "kinds": arrivals.kinds,
        "outage": [at - began for at in arrivals.outage],
        "reads": reads,
        "kills": kills,
    }


def start(fake: FakeQueueService, folder: Path, given: argparse.Namespace, life: int) -> Processes:
    """A life of the program."""
    settings = {
        "connection": fake.connection_string,
        "containers": {f"shopdata/{name}": str(folder / name) for name in _CONTAINERS},
        "output": str(folder / "output"),
        "checkpoint": str(folder / "checkpoint"),
        "seed": given.seed * 1000 + life,
        "backfill": given.backfill,
    }
    environment = {"PYTHONPATH": str(_REPOSITORY), "SPARK_SUBMIT_OPTS": QUICK_JVM}
    return Processes(folder / "lives" / f"{life:03}", _HERE / "files_job.py", settings, environment)


def finished(folder: Path) -> list[Path]:
    """What batches wrote."""
    return sorted((folder / "output").glob("*.json"))


def progress(folder: Path) -> int:
    """How many steps the query has come: listings, lists, outputs, offsets and commits."""
    log, spark = folder / "checkpoint" / "files", folder / "checkpoint"
    folders = [log / "listing", log / "batch", log / "bad", spark / "offsets", spark / "commits"]
    names = [path.name for place in folders if place.exists() for path in place.iterdir()]
    return len([name for name in names if name.isdigit()]) + len(finished(folder))


def aside(fake: FakeQueueService) -> list[str]:
    """The paths of files that were set aside."""
    found = [json.loads(view.text) for view in fake.messages("arrived-bad")]
    return [each["path"] for each in found if "path" in each]


def aside_by_batches(folder: Path) -> Counter[tuple[str, str]]:
    """How many batches set a version of a file aside, by what the log has.

    A listing knows no etag, so a file that it announced may come once more, with its own event.
    """
    objects = (folder / "checkpoint" / "files" / "bad").glob("*")
    found = [
        (path.name[:12], each.file) for path in objects for each in read_bad(path.read_bytes())
    ]
    batches = {(batch, file.path, file.etag) for batch, file in found}
    return Counter((path, etag) for _, path, etag in batches)


def compare(folder: Path, broken: set[str], fake: FakeQueueService) -> list[str]:
    """What is not as it should be: against a listing of the folders."""
    listing = {
        path.relative_to(folder / name).as_posix()
        for name in _CONTAINERS
        for path in (folder / name).glob("*/*.json")
    }
    wanted = {int(Path(name).stem) for name in listing - broken}
    read = Counter(row[0] for path in finished(folder) for row in json.loads(path.read_text()))
    differs = [path.name for path in (folder / "output").glob("*.differs")]
    missing, twice = wanted - read.keys(), [number for number, count in read.items() if count > 1]
    letters = {*aside(fake)}
    again = [version for version, count in aside_by_batches(folder).items() if count > 1]
    return [
        f"NOT READ: {len(missing)}, such as {sorted(missing)[:5]}" if missing else "",
        f"READ TWICE: {len(twice)}, such as {twice[:5]}" if twice else "",
        f"NOT IN THE LISTING: {len(read.keys() - wanted)}" if read.keys() - wanted else "",
        f"OTHER FILES IN A REPEATED BATCH: {differs}" if differs else "",
        f"BROKEN AND NOT SET ASIDE: {len(broken - letters)}" if broken - letters else "",
        f"GOOD AND SET ASIDE: {len(letters - broken)}" if letters - broken else "",
        f"SET ASIDE BY TWO BATCHES: {again}" if again else "",
    ]


if __name__ == "__main__":
    sys.exit(main())
