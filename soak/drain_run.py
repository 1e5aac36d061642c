"""A fault run of `drain`: it is killed again and again, and at its return the queue is empty.

    python soak/drain_run.py --messages 50000 --kills 3
    .matrix/4.0/bin/python soak/drain_run.py --messages 50000 --kills 3 --log none
    python soak/drain_run.py --messages 50000 --overhead 3

It runs on the Spark of the Python that starts it. With a write-ahead log no row may come twice.
With --overhead nothing is killed: so many pairs of a drain and one availableNow run are timed, in a
Spark that has run a query before. Exit status: 0 if each message was read, none twice (with a log),
and the queue was empty at the return; 1 if not.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

_HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(_HERE.parent), str(_HERE)]

from processes import Processes  # noqa: E402

from spark_azqueue.testing import FakeQueueService  # noqa: E402

_PATIENCE_S = 600.0
_WARM_UP = "warm-up"


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--messages", type=int, default=50_000)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--per-batch", type=int, default=4_000, help="maxMessagesPerTrigger")
    parser.add_argument("--log", choices=("file", "none"), default="file")
    parser.add_argument("--executors", action="store_true", help="leaseOn=executors")
    parser.add_argument("--overhead", type=int, default=0, help="so many pairs, without kills")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    return parser.parse_args()


class Run:
    """One queue, its messages, and the lives of the program that drains it."""

    def __init__(self, given: argparse.Namespace, folder: Path) -> None:
        self.given, self.folder = given, folder
        self.sink = folder / "sink"
        self.sink.mkdir(parents=True)
        self._lives = 0

    def live(self, fake: FakeQueueService, *, plain: bool = False) -> Processes:
        """Start the program."""
        self._lives += 1
        options = {
            "secret.connectionString": fake.connection_string,
            "queue": "backlog",
            "maxMessagesPerTrigger": str(self.given.per_batch),
        }
        if self.given.log == "file":
            options["writeAheadLog"] = f"file:{self.folder}/log"
        if self.given.executors:
            options |= {"leaseOn": "executors", "deleteAfter": "log"}
        settings = {
            "life": self._lives,
            "options": options,
            "sink": str(self.sink),
            "checkpoint": str(self.folder / "checkpoint"),
            "result": str(self.folder / "result.json"),
            "pause_s": 0.0 if self.given.overhead else 1.0,
            "hidden_s": 120.0,
            "plain": plain,
            "warm_up": _WARM_UP if self.given.overhead else "",
        }
        environment = {"PYTHONPATH": f"{_HERE.parent}:{_HERE}"}
        script = _HERE / "drain_job.py"
        return Processes(self.folder / f"life-{self._lives}", script, settings, environment)

    def rows(self) -> Counter[str]:
        """How often each body came."""
        files = [json.loads(path.read_text()) for path in self.sink.glob("*.json")]
        return Counter(body for file in files for _, body, *_ in file["rows"])

    def result(self) -> dict[str, Any]:
        """What the last life said at its end."""
        found: dict[str, Any] = json.loads((self.folder / "result.json").read_text())
        return found


def kill(run: Run, fake: FakeQueueService, chance: random.Random) -> None:
    """One life that ends by kill -9 of all its processes, some time after its first new batch."""
    before = len([*run.sink.glob("*.json")])
    life = run.live(fake)
    deadline = time.monotonic() + _PATIENCE_S
    while len([*run.sink.glob("*.json")]) <= before and life.status is None:
        if time.monotonic() > deadline:
            raise SystemExit("no batch came")
        time.sleep(0.02)
    time.sleep(chance.uniform(0, 3))
    print(f"  killed at {len([*run.sink.glob('*.json')])} batches, {fake.count('backlog')} left")
    life.kill()


def last(run: Run, fake: FakeQueueService, *, plain: bool = False) -> dict[str, Any]:
    """A life that ends by itself; what it says, and what the queue held when it returned."""
    life = run.live(fake, plain=plain)
    while not life.over_within(0.5):
        pass
    said = run.result()
    life.kill()
    return said | {"status": life.status, "in_queue": fake.count("backlog")}


def filled(given: argparse.Namespace) -> FakeQueueService:
    """A service with the messages."""
    fake = FakeQueueService().start()
    fake.create_queue("backlog")
    fake.create_queue(_WARM_UP)
    fake.put_many(_WARM_UP, ["warm"] * 100)
    for first in range(0, given.messages, 1_000):
        some = range(first, min(first + 1_000, given.messages))
        fake.put_many("backlog", [f"message {number:06}" for number in some])
    return fake


def killed(given: argparse.Namespace, folder: Path) -> bool:
    """Kill it so many times, then let it end. True if all is well."""
    chance = random.Random(given.seed)
    fake = filled(given)
    run = Run(given, folder)
    for _ in range(given.kills):
        kill(run, fake, chance)
    said = last(run, fake)
    rows = run.rows()
    twice = sum(count - 1 for count in rows.values())
    missing = given.messages - len(rows)
    print(f"  {said}\n  {len(rows)} of {given.messages} messages, {twice} rows more than once")
    fake.stop()
    once = given.log == "none" or not twice
    return not missing and once and said["status"] == 0 and not said["in_queue"]


def compared(given: argparse.Namespace, folder: Path) -> bool:
    """Time pairs of a drain and a plain run."""
    took: dict[bool, list[float]] = {True: [], False: []}
    ratios, well = [], True
    for pair in range(given.overhead):
        for plain in (True, False) if pair % 2 else (False, True):
            fake = filled(given)
            run = Run(given, folder / f"{pair}-{'plain' if plain else 'drain'}")
            said = last(run, fake, plain=plain)
            well = well and len(run.rows()) == given.messages and not said["in_queue"]
            took[plain].append(said["took_s"])
            fake.stop()
        ratios.append(took[False][-1] / took[True][-1])
        print(f"  drain {took[False][-1]:.2f} s, plain {took[True][-1]:.2f} s: {ratios[-1]:.3f}")
    print(f"  median ratio {statistics.median(ratios):.3f}")
    return well


def main() -> int:
    """Run it in a folder of its own, which stays there after a failure."""
    import pyspark

    given = arguments()
    folder = Path(tempfile.mkdtemp(prefix="azqueue-drain-"))
    print(f"Spark {pyspark.__version__}: {vars(given)}")
    well = (compared if given.overhead else killed)(given, folder)
    if well:
        shutil.rmtree(folder)
    print("well" if well else f"NOT WELL: see {folder}")
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
