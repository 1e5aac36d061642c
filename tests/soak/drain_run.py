"""A fault run of `drain`: it is killed again and again, and what it says must be so.

    python soak/drain_run.py --messages 2000 --kills 20
    .matrix/4.0/bin/python soak/drain_run.py --messages 2000 --kills 20 --log none
    python soak/drain_run.py --messages 50000 --overhead 3

It runs on the Spark of the Python that starts it. A sender sends while it runs. Each time that a
drain says that it has finished, no message that was put before its call may be unread or still in
the queue. With a write-ahead log no row may come twice. With --overhead nothing is killed: so many
pairs of a drain and one availableNow run are timed, in a Spark that has run a query before.
Exit status: 0 if all of that holds, and the last drain has finished; 1 if not.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

_HERE = Path(__file__).resolve().parent
_REPOSITORY = _HERE.parents[1]
sys.path[:0] = [str(_REPOSITORY), str(_HERE)]

from processes import KILLS, STOP, Processes  # noqa: E402

from spark_azqueue.testing import FakeQueueService, Fault  # noqa: E402

_PATIENCE_S = 600.0
_WARM_UP = "warm-up"
_QUEUE = "backlog"
_IN_A_ROW = 5
"""After so many kills a drain is left to end."""

_OF_ALL = ("everything", "driver")
"""Kills that end the program; after the others its drain has to go on."""


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--messages", type=int, default=2_000)
    parser.add_argument("--sent", type=int, default=2_000, help="so many more while it runs")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--kinds", default="", help="of kills, by comma: " + ", ".join(KILLS))
    parser.add_argument("--per-batch", type=int, default=200, help="maxMessagesPerTrigger")
    parser.add_argument("--lease", default="10", help="visibilityTimeout")
    parser.add_argument("--page-s", type=float, default=0.1, help="how long a dequeue takes")
    parser.add_argument("--log", choices=("file", "none"), default="file")
    parser.add_argument("--executors", action="store_true", help="leaseOn=executors")
    parser.add_argument("--overhead", type=int, default=0, help="so many pairs, without kills")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    return parser.parse_args()


class Sender:
    """Puts messages while the program runs, and knows when each was there."""

    def __init__(self, fake: FakeQueueService) -> None:
        self._fake = fake
        self._put: dict[str, float] = {}
        self._enough = threading.Event()
        self._thread: threading.Thread | None = None

    def send(self, count: int) -> None:
        """Put so many now."""
        first = len(self._put)
        bodies = [f"message {number:06}" for number in range(first, first + count)]
        self._fake.put_many(_QUEUE, bodies)
        self._put |= dict.fromkeys(bodies, time.time())

    def keep_sending(self, count: int) -> None:
        """Put so many, ten a second twice, in a thread."""

        def run() -> None:
            for _ in range(count // 10):
                if self._enough.wait(0.5):
                    return
                self.send(10)

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """No more."""
        self._enough.set()
        if self._thread:
            self._thread.join()

    def before(self, at: float) -> set[str]:
        """What was there then."""
        return {body for body, put in [*self._put.items()] if put < at}


class Run:
    """One queue, its messages, and the lives of the program that drains it."""

    def __init__(self, given: argparse.Namespace, folder: Path) -> None:
        self.given, self.folder = given, folder
        self.sink = folder / "sink"
        self.sink.mkdir(parents=True)
        self._result = folder / "result.json"
        self._lives = 0

    def live(self, fake: FakeQueueService, *, plain: bool = False) -> Processes:
        """Start the program."""
        self._lives += 1
        options = {
            "secret.connectionString": fake.connection_string,
            "queue": _QUEUE,
            "maxMessagesPerTrigger": str(self.given.per_batch),
        }
        if not self.given.overhead:
            options |= {"visibilityTimeout": self.given.lease, "parallelism": "1"}
        if self.given.log == "file":
            options["writeAheadLog"] = f"file:{self.folder}/log"
        if self.given.executors:
            options |= {"leaseOn": "executors", "deleteAfter": "log"}
        settings = {
            "life": self._lives,
            "options": options,
            "sink": str(self.sink),
            "checkpoint": str(self.folder / "checkpoint"),
            "result": str(self._result),
            "pause_s": 0.0 if self.given.overhead else 0.5,
            "limits": {"restarts": 100, "first_wait": 0.2, "longest_wait": 1.0},
            "plain": plain,
            "warm_up": _WARM_UP if self.given.overhead else "",
        }
        environment = {"PYTHONPATH": f"{_REPOSITORY}:{_HERE}"}
        script = _HERE / "drain_job.py"
        return Processes(self.folder / f"life-{self._lives}", script, settings, environment)

    def rows(self) -> Counter[str]:
        """How often each body came."""
        files = [json.loads(path.read_text()) for path in self.sink.glob("*.json")]
        return Counter(body for file in files for _, body, *_ in file["rows"])

    def result(self) -> dict[str, Any] | None:
        """What a drain that has ended says. None while it runs."""
        if not self._result.exists():
            return None
        found: dict[str, Any] = json.loads(self._result.read_text(encoding="utf-8"))
        return found

    def next_call(self) -> None:
        """Let the program drain once more."""
        self._result.unlink()


class Campaign:
    """Kills, and what each drain says."""

    def __init__(self, given: argparse.Namespace, folder: Path) -> None:
        self._given, self._chance = given, random.Random(given.seed)
        self._fake = FakeQueueService(seed=given.seed).start()
        self._fake.create_queue(_QUEUE)
        self._fake.faults.add(Fault("dequeue", "slow", seconds=given.page_s))
        self._sender = Sender(self._fake)
        self._run = Run(given, folder)
        kinds = "everything,driver,source,source,source,source" + ",workers" * 4 * given.executors
        self._kinds = (given.kinds or kinds).split(",")
        self.kills: Counter[str] = Counter()
        self.said: Counter[str] = Counter()
        self.bad = 0

    def run(self) -> bool:
        """True if all is well."""
        self._sender.send(self._given.messages)
        self._sender.keep_sending(self._given.sent)
        life, due, seen_at = self._run.live(self._fake), 0.0, time.monotonic()
        is_over = killed = False
        kind = self._chance.choice(self._kinds)
        while not is_over:
            time.sleep(0.02)
            now = time.monotonic()
            if said := self._run.result():
                is_over = self._is_over(said)
                seen_at = now
            elif killed:
                life, killed = self._run.live(self._fake), False
            elif life.status is not None:
                raise SystemExit("the program ended by itself: see its driver.log")
            elif not life.starting:
                due = now + self._chance.uniform(0.5, 8)
            elif now >= due and self._kills_on() and life.end(kind):
                self.kills[kind] += 1
                due = now + self._chance.uniform(0.5, 8)
                if killed := kind in _OF_ALL:
                    life.kill()
                kind = self._chance.choice(self._kinds)
            if now - seen_at > _PATIENCE_S:
                self.bad += 1
                print(f"  a drain did not end within {_PATIENCE_S} s")
                is_over = True
        life.end(STOP)
        life.over_within(30)
        life.kill()
        self._fake.stop()
        rows = self._run.rows()
        twice = sum(count - 1 for count in rows.values())
        print(f"  {dict(self.kills)}, {dict(self.said)}, {len(rows)} messages, {twice} rows twice")
        return not self.bad and (self._given.log == "none" or not twice)

    def _kills_on(self) -> bool:
        """False if all kills are done, or a drain is to end first."""
        most: int = min(self._given.kills, _IN_A_ROW * (self.said.total() + 1))
        return self.kills.total() < most

    def _is_over(self, said: dict[str, Any]) -> bool:
        """Audit what a drain says; call the next one if kills are left, or if it did not finish."""
        before = self._sender.before(said["called"])
        unread = before - self._run.rows().keys()
        in_queue = before & {each.text for each in self._fake.messages(_QUEUE)}
        finished = said["finished"]
        print(
            f"  finished={finished} after {said['took_s']:.0f} s, {said['restarts']} restarts:"
            f" {len(unread)} of {len(before)} unread, {len(in_queue)} in the queue; says read"
            f" {said['read']}, left {said['left_visible']} + {said['left_hidden']}, others"
            f" {said['others']} {said['reason']} {'' if finished else said['error']}",
            flush=True,
        )
        self.said[f"finished={finished}"] += 1
        self.bad += finished and bool(unread or in_queue)
        if finished and self.kills.total() >= self._given.kills:
            return True
        if self.kills.total() < self._given.kills:
            self._sender.send(self._given.messages // 4)
        self._run.next_call()
        return False


def last(run: Run, fake: FakeQueueService, *, plain: bool) -> dict[str, Any]:
    """A life without kills; what it says, and what the queue held when it returned."""
    life = run.live(fake, plain=plain)
    while (said := run.result()) is None and life.status is None:
        time.sleep(0.02)
    in_queue = fake.count(_QUEUE)
    life.kill()
    return (said or {}) | {"in_queue": in_queue}


def filled(given: argparse.Namespace) -> FakeQueueService:
    """A service with the messages."""
    fake = FakeQueueService().start()
    fake.create_queue(_QUEUE)
    fake.create_queue(_WARM_UP)
    fake.put_many(_WARM_UP, ["warm"] * 100)
    for first in range(0, given.messages, 1_000):
        some = range(first, min(first + 1_000, given.messages))
        fake.put_many(_QUEUE, [f"message {number:06}" for number in some])
    return fake


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
    well = compared(given, folder) if given.overhead else Campaign(given, folder).run()
    if well:
        shutil.rmtree(folder)
    print("well" if well else f"NOT WELL: see {folder}")
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
