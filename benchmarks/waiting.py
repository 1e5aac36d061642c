"""Contender that has little to do: messages that come one by one, and none at all.

messages   put messages at random times; how long until each is a row in foreachBatch
trivial    the same with a source of one row that costs nothing: the engine's own share
idle       a minute with no message: requests, CPU; then how soon messages are picked up

python benchmarks/waiting.py waiting SERVER_URL     (a round of work for each line of JSON)
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

import harness
import ours
from cost import Cost
from harness import Server
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition


class TrivialReader(DataSourceStreamReader):
    """A row now and then, which holds the time of the `latestOffset` that brought it."""

    def __init__(self, gaps: tuple[float, float]) -> None:
        self._gaps = gaps
        self._now = {"at": 0.0}
        self._due = time.time() + 3

    def initialOffset(self) -> dict[str, Any]:
        return {"at": 0.0}

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, Any]:
        now = time.time()
        if now >= self._due:
            self._now = {"at": now}
            self._due = now + random.uniform(*self._gaps)
        return self._now

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        return [] if start == end else [InputPartition(end["at"])]

    def read(self, partition: InputPartition) -> Iterator[tuple[str]]:
        yield (str(partition.value),)

    def commit(self, end: dict[str, Any]) -> None:
        pass


class TrivialDataSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "trivial"

    def schema(self) -> str:
        return "body string"

    def streamReader(self, schema: Any) -> TrivialReader:
        return TrivialReader((float(self.options["from"]), float(self.options["to"])))


class Rows:
    """For foreachBatch: when each row came, and how old its body says it was then."""

    def __init__(self) -> None:
        self.ages_s: list[float] = []

    def __call__(self, batch: Any, number: int) -> None:
        bodies = [row.body for row in batch.select("body").collect()]
        now = time.time()
        self.ages_s += [now - float(body) for body in bodies]


def put(server: Server, queue: str) -> None:
    """A message that says when it was put."""
    document = f"<QueueMessage><MessageText>{time.time()}</MessageText></QueueMessage>"
    url = f"{server.queue_url}/{queue}/messages"
    urllib.request.urlopen(urllib.request.Request(url, document.encode(), method="POST")).close()


class Waiting:
    """All three in one Spark session."""

    def __init__(self, folder: str) -> None:
        self._azqueue = ours.Streams(folder)
        self._azqueue.spark.dataSource.register(TrivialDataSource)
        self._trivial = ours.Streams(folder + "/trivial", "trivial")

    def trivial(self, count: int, gaps: tuple[float, float]) -> dict[str, Any]:
        rows = Rows()
        options = {"from": str(gaps[0]), "to": str(gaps[1])}
        with self._trivial.running(options, rows) as query:
            # Two first, so that Spark has compiled what it compiles.
            harness.wait_until(
                lambda: bool(query.exception()) or len(rows.ages_s) >= count + 2, "rows"
            )
        return {"ages_s": rows.ages_s[2 : count + 2]}

    def messages(
        self, server: Server, queue: str, count: int, gaps: tuple[float, float], **options: str
    ) -> dict[str, Any]:
        rows = Rows()
        server.fill(queue, 0)
        given = ours.account(server, [queue]) | options
        # Spread evenly, so that each moment between two looks at the queue has its turn.
        pauses = [gaps[0] + (gaps[1] - gaps[0]) * (at + 0.5) / count for at in range(count)]
        random.shuffle(pauses)
        with self._azqueue.running(given, rows) as query:
            for done, pause in enumerate([gaps[0], gaps[0], *pauses]):
                time.sleep(pause)
                put(server, queue)
                harness.wait_until(
                    lambda done=done: bool(query.exception()) or len(rows.ages_s) > done, "a row"
                )
        server.drop(queue)
        return {"ages_s": rows.ages_s[2:]}

    def idle(self, server: Server, queue: str, seconds: float, picked_up: int) -> dict[str, Any]:
        rows = Rows()
        server.fill(queue, 0)
        with self._azqueue.running(ours.account(server, [queue]), rows):
            for done in range(2):
                put(server, queue)
                harness.wait_until(lambda done=done: len(rows.ages_s) > done, "a row")
            time.sleep(5)
            cost = Cost(server)
            for _ in range(int(seconds)):
                time.sleep(1)
                cost.note()
            saw = cost.so_far()
            saw["cpu"].pop("server")
            picks = []
            for done in range(2, 2 + picked_up):
                time.sleep(random.uniform(5, 6))  # idle long enough to be polled most seldom
                put(server, queue)
                started = time.monotonic()
                requests = server.stats()["requests"]
                harness.wait_until(
                    lambda since=requests: server.stats()["requests"] > since, "a dequeue"
                )
                picks.append(time.monotonic() - started)
                harness.wait_until(lambda done=done: len(rows.ages_s) > done, "a row")
        server.drop(queue)
        return saw | {"picked_up_s": picks, "ages_s": rows.ages_s[2:]}


def main() -> None:
    """Do the rounds that are asked for on standard input."""
    _, url = sys.argv[1:]
    server = Server(url)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        waiting = Waiting(folder)
        harness.answer({"ready": True})
        for number, work in enumerate(harness.rounds()):
            kind = work.pop("kind")
            where = () if kind == "trivial" else (server, f"waiting-{number}")
            harness.answer(getattr(waiting, kind)(*where, **work))


if __name__ == "__main__":
    main()
