"""This package's source in a running query, and what it costs."""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import harness
import spark
from cost import Cost, kill_source
from harness import Server
from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery


class Streams:
    """Starts queries in one Spark session, each with a checkpoint of its own."""

    def __init__(
        self, folder: str, source: str = "azqueue", master: str = spark.LOCAL, **settings: str
    ) -> None:
        self._folder = Path(folder)
        self._source = source
        self._number = 0
        self.spark = spark.session(folder, master, **settings)

    @contextmanager
    def running(
        self, options: dict[str, str], sink: str | Callable[..., None] = "noop"
    ) -> Iterator[StreamingQuery | Together]:
        """A query from the source into a sink's format, or into a function for each batch.

        PLACE in an option stands for the query's folder. With `queries` so many, each with a part
        of the queues, into one output.
        """
        self._number += 1
        place = self._folder / str(self._number)
        options = dict(options)
        count, queues = int(options.pop("queries", "1")), options.get("queue", "").split(",")
        with ExitStack() as stack:
            stack.callback(shutil.rmtree, place, ignore_errors=True)
            if sink == "delta":  # two queries that make the table at once fail: one has to be first
                schema = self._load(options, str(place)).schema
                self.spark.createDataFrame([], schema).write.format(sink).save(str(place / "out"))
            made = []
            for number in range(count):
                mine = options | ({"queue": ",".join(queues[number::count])} if count > 1 else {})
                where = place / str(number)
                made.append(stack.enter_context(self.run_in(where, mine, sink, place / "out")))
            yield made[0] if count == 1 else Together(made)

    def _load(self, options: dict[str, str], place: str) -> DataFrame:
        """The source; a union of several with `loads`, each with a part of the queues."""
        options = dict(options)
        schema = options.pop("schema", None)
        loads, queues = int(options.pop("loads", "1")), options.pop("queue", "").split(",")
        rows = None
        for load in range(loads):
            own = {name: text.replace("PLACE", f"{place}/{load}") for name, text in options.items()}
            own |= {"queue": mine} if (mine := ",".join(queues[load::loads])) else {}
            reader = self.spark.readStream.format(self._source).options(**own)
            one = (reader.schema(schema) if schema else reader).load()
            rows = one if rows is None else rows.union(one)
        assert rows is not None
        return rows

    @contextmanager
    def run_in(
        self,
        place: Path,
        options: dict[str, str],
        sink: str | Callable[..., None] = "noop",
        out: Path | None = None,
    ) -> Iterator[StreamingQuery]:
        """One query in a folder that stays, so that it can be started again."""
        rows = self._load(options, str(place))
        writer = rows.writeStream.option("checkpointLocation", f"{place}/c")
        if callable(sink):
            query = writer.foreachBatch(sink).start()
        else:
            query = writer.format(sink).option("path", str(out or place / "out")).start()
        try:
            yield query
        finally:
            query.stop()


class Together:
    """Several queries as if they were one."""

    def __init__(self, queries: list[StreamingQuery]) -> None:
        self._queries = queries

    def exception(self) -> Exception | None:
        """Of the first that failed."""
        return next((failed for each in self._queries if (failed := each.exception())), None)

    @property
    def recentProgress(self) -> list[Any]:
        """Of all, in the order of their batches' begin."""
        found = [progress for each in self._queries for progress in each.recentProgress]
        return sorted(found, key=lambda progress: str(progress["timestamp"]))


def account(server: Server, queues: list[str]) -> dict[str, str]:
    """The options that every query of ours needs."""
    return {"secret.connectionString": server.connection_string, "queue": ",".join(queues)}


class Consumes:
    """A round is a query that is started, warmed up, and then given messages to consume.

    queues: over how many queues they are spread.
    warm: how many are consumed before the account begins (Spark compiles what it runs often).
    held: rather than drain the queue, keep this many messages in it.
    sampled: tell the memory at each second, too.
    """

    def __init__(
        self,
        sink: str,
        folder: str,
        source: str = "azqueue",
        master: str = spark.LOCAL,
        **settings: str,
    ) -> None:
        self._sink = sink
        self.streams = Streams(folder, source, master, **settings)

    def __call__(
        self, server: Server, queue: str, count: int, kind: str = "consume", **how: Any
    ) -> dict[str, Any]:
        """kind: `consume` or `restart`."""
        return {"consume": self._consume, "restart": self._restart}[kind](
            server, queue, count, **how
        )

    def _restart(self, server: Server, queue: str, count: int, **options: str) -> dict[str, Any]:
        """Consume so many messages, then kill the source's process and start again, four times."""
        server.fill(queue, count)
        asked = account(server, [queue]) | options
        spent = []
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            place = Path(folder)
            for number in range(5):
                started = time.monotonic()
                with self.streams.run_in(place, asked) as query:
                    if number:
                        harness.wait_until(lambda: _rows(query) > 0, "rows", 300)
                        spent.append(time.monotonic() - started)
                    harness.wait_until(
                        lambda: _rows(query) >= 0 and server.left(queue) == 0, "all deletes", 1200
                    )
                    kill_source()
                server.fill(queue, 1000)
            segments = len(list(place.glob("log/seg/*")))
        server.drop(queue)
        return {"messages": count, "restarts_s": spent, "segments": segments}

    def _consume(
        self,
        server: Server,
        queue: str,
        count: int,
        queues: int = 1,
        warm: int = 4000,
        size: int = 1000,
        held: int = 0,
        sampled: bool = False,
        **options: str,
    ) -> dict[str, Any]:
        names = [queue] + [f"{queue}-{number}" for number in range(1, queues)]
        filled = 0

        def fill(messages: int) -> None:
            nonlocal filled
            for name in names:
                server.fill(name, messages // queues, size)
            filled += messages // queues * queues

        def consumed() -> int:
            messages = server.stats()["messages"]
            return filled - sum(messages[name] for name in names)

        fill(0)
        with self.streams.running(account(server, names) | options, self._sink) as query:

            def wait_for(total: int, cost: Cost | None = None) -> None:
                def reached() -> bool:
                    done = consumed()
                    if held and filled - done < held:
                        fill(held - (filled - done))
                    failed = query.exception()
                    if failed:
                        raise RuntimeError(str(failed))
                    if cost:
                        cost.note()
                    time.sleep(0.05)
                    return done >= total

                harness.wait_until(reached, f"{total} messages", 1200)

            fill(held or warm)
            wait_for(warm // queues * queues)
            batches = len(query.recentProgress)
            if not held:
                fill(count)  # before the clock starts: the server does nothing else meanwhile
            begun = consumed()
            cost = Cost(server)
            wait_for(filled if not held else begun + count, cost)
            saw = cost.so_far()
            saw["messages"] = consumed() - begun
            if sampled:
                saw["samples"] = cost.samples
            saw["batch"] = _batch(query.recentProgress[batches:])
        for name in names:
            server.drop(name)
        return saw


def _rows(query: StreamingQuery) -> int:
    failed = query.exception()
    if failed:
        raise RuntimeError(str(failed))
    return sum(each["numInputRows"] for each in query.recentProgress)


def _batch(progress: list[Any]) -> dict[str, Any]:
    """The ordinary batch: median rows, and median ms of each phase among the largest ones."""
    most = max((each["numInputRows"] for each in progress), default=0)
    full = [each for each in progress if most and each["numInputRows"] >= most * 0.9]
    phases = {phase for each in full for phase in each["durationMs"]}
    return {
        "rows": most,
        "ms": {
            phase: statistics.median(each["durationMs"].get(phase, 0) for each in full)
            for phase in sorted(phases)
        },
    }
