"""A chain of two hops by transactions, killed at the worst points and at random ones.

Each message is in the last table exactly once. Without transactions the same kill gives doubles.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import wait_for
from pyspark.sql import SparkSession

from spark_azqueue.testing import FakeQueueService
from spark_azqueue.testing.faults import Fault

from .test_crashes import Job

KILLS = int(os.environ.get("AZQUEUE_TEST_KILLS", "2"))
MESSAGES = int(os.environ.get("AZQUEUE_TEST_MESSAGES", "600"))
BATCH = 100


class Chain(Job):
    """`chain_job.py`, with what it was sent."""

    script = Path(__file__).with_name("chain_job.py")

    def __init__(self, folder: Path, fake: FakeQueueService, queue: str) -> None:
        super().__init__(folder, fake, queue)
        self.middle = f"{queue}-mid"
        self.sent: list[str] = []
        self.paths = [Path(__file__).with_name("committing")]
        self.write_by(transactionLog=f"file:{folder}/transactions")
        for name in (queue, self.middle):
            fake.create_queue(name)

    def write_by(self, **options: str) -> None:
        """The options of the sink in the middle."""
        self.environment["SINK"] = json.dumps(options)

    def send(self, count: int = BATCH) -> None:
        bodies = [f"m{len(self.sent) + number}" for number in range(count)]
        self.sent += bodies
        self.fake.put_many(self.queue, bodies)

    def hold_at(self, point: str) -> None:
        (self.folder / "held").unlink(missing_ok=True)
        (self.folder / f"hold-{point}").touch()

    def wait_until_held(self) -> None:
        wait_for((self.folder / "held").exists, "a commit to be held", self.patience_s)

    def let_go(self, point: str) -> None:
        (self.folder / f"hold-{point}").unlink()

    @property
    def requests(self) -> int:
        """That put a message, or showed or renewed one."""
        return self.fake.requests["put"] + self.fake.requests["update"]

    def check_runs(self) -> None:
        assert self.process
        if self.process.poll() is not None:
            raise AssertionError((self.folder / "log").read_text()[-3000:])

    def wait_until_at(self, requests: int) -> None:
        def is_there() -> bool:
            self.check_runs()
            return self.requests >= requests or self.fake.count(self.queue) == 0

        wait_for(is_there, "some requests", self.patience_s)

    def is_settled(self) -> bool:
        self.check_runs()
        is_read = self.fake.count(self.queue) == 0 and self._visible() == 0
        return is_read and self._is_committed()

    def wait_until_settled(self) -> None:
        wait_for(self.is_settled, "all messages to be in the table", self.patience_s)

    def _visible(self) -> int:
        now = self.fake.clock.now()
        week = 6 * 24 * 3600  # abandoned copies are hidden for longer than any lease
        return sum(each.next_visible < now + week for each in self.fake.messages(self.middle))

    def _is_committed(self) -> bool:
        for hop in ("checkpoint-1", "checkpoint-2"):
            started, committed = (
                {path.name for path in (self.folder / hop / log).glob("[0-9]*")}
                for log in ("offsets", "commits")
            )
            if not started or started != committed:
                return False
        return True

    def table(self, spark: SparkSession) -> Counter[str]:
        rows = spark.read.parquet(str(self.folder / "output")).collect()
        return Counter(row.body for row in rows)


@pytest.fixture
def chain(tmp_path: Path, fake: FakeQueueService, queue: str) -> Iterator[Chain]:
    made = Chain(tmp_path, fake, queue[:50])
    yield made
    made.destroy()


@pytest.mark.core
def test_kills_at_the_worst_points(chain: Chain, spark: SparkSession) -> None:
    fake = chain.fake
    chain.send()
    chain.hold_at("recorded")  # recorded, and nothing is shown
    chain.start()
    chain.wait_until_held()
    assert fake.visible(chain.middle) == 0
    chain.destroy()
    chain.let_go("recorded")

    chain.start()
    chain.wait_until_settled()
    slow = Fault("update", "slow", queue=chain.middle, seconds=3)
    fake.faults.add(slow)  # in the middle of showing: updates take effect, their answers are late
    chain.send()
    wait_for(lambda: fake.visible(chain.middle) > 0, "some to be shown", chain.patience_s)
    chain.destroy()
    fake.faults.clear()

    chain.hold_at("shown")  # all are shown, and Spark has not committed
    chain.send()
    chain.start()
    chain.wait_until_held()
    chain.destroy()
    chain.let_go("shown")

    chain.start()
    chain.wait_until_settled()
    chain.end()
    assert chain.table(spark) == Counter(chain.sent)


def test_an_orderly_stop_while_a_commit_runs_is_a_replay_too(
    chain: Chain, spark: SparkSession
) -> None:
    chain.hold_at("recorded")
    chain.send()
    chain.start()
    chain.wait_until_held()
    (chain.folder / "stop").touch()
    wait_for((chain.folder / "stopping").exists, "the job to stop its queries", chain.patience_s)
    chain.let_go("recorded")
    chain.end()
    (chain.folder / "stop").unlink()

    chain.start()
    chain.wait_until_settled()
    chain.end()
    assert chain.table(spark) == Counter(chain.sent)


@pytest.mark.long
def test_kills_at_any_time(chain: Chain, spark: SparkSession) -> None:
    seed = int(os.environ.get("AZQUEUE_TEST_SEED", random.randrange(10**6)))
    print("AZQUEUE_TEST_SEED", seed)
    chance = random.Random(seed)
    for _ in range(KILLS):
        chain.send(MESSAGES // KILLS)
        before = chain.requests
        chain.start()
        chain.wait_until_at(before + chance.randrange(50, 3 * MESSAGES // KILLS))
        time.sleep(chance.random())
        chain.destroy()
    chain.start()
    chain.wait_until_settled()
    chain.end()
    assert chain.table(spark) == Counter(chain.sent)


@pytest.mark.long
def test_without_transactions_a_kill_gives_doubles(chain: Chain, spark: SparkSession) -> None:
    chain.write_by()
    chain.send()
    chain.fake.faults.add(Fault("put", "slow", nth=BATCH, queue=chain.middle, seconds=600))
    chain.start()
    middle = chain.middle
    wait_for(lambda: chain.fake.count(middle) >= BATCH - 1, "puts", chain.patience_s)
    chain.destroy()
    chain.fake.faults.clear()
    chain.start()
    chain.wait_until_settled()
    chain.end()
    found = chain.table(spark)
    assert set(found) == set(chain.sent)
    assert sum(found.values()) > len(chain.sent)
