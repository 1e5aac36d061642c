"""What Spark 4.0 and 4.1 call of a source in Python, in each situation that the sources rely on.

`source/batches/commits.py` concludes from these calls where a query is. A release of Spark that
calls otherwise is to fail here, and not in a query.

LO=x: a `latestOffset()` and its answer; I: `initialOffset`; P: `partitions`; C: `commit`. An offset
is a number, 0 the initial one. Equal calls in a row are written once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pyspark
import pytest
from lines import LINE
from processes import wait_for
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming import StreamingQuery

PATIENCE_S = 240
ASYNCHRONOUS = {
    "asyncProgressTrackingEnabled": "true",
    "asyncProgressTrackingCheckpointIntervalMs": "3600000",
}
WRAPPER = "spark.sql.streaming.triggerAvailableNowWrapper.enabled"

pytestmark = pytest.mark.skipif(
    LINE >= (4, 2),
    reason="Spark 4.2 and later tell a source what is committed",
)


def probe() -> type[DataSource]:
    """A source that writes its calls down. Local, so that Spark pickles it with its code.

    The option `folder` has the file `head`, the newest offset there is, and `calls`.
    """

    class Reader(DataSourceStreamReader):
        def __init__(self, folder: str) -> None:
            self.folder = folder

        def _note(self, call: str) -> None:
            with open(f"{self.folder}/calls", "a") as calls:
                calls.write(call + "\n")

        def initialOffset(self) -> dict[str, int]:
            self._note("I")
            return {"at": 0}

        def latestOffset(self) -> dict[str, int]:
            with open(f"{self.folder}/head") as head:
                at = int(head.read())
            self._note(f"LO={at}")
            return {"at": at}

        def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
            self._note(f"P({start['at']},{end['at']})")
            return [InputPartition(at) for at in range(start["at"], end["at"])]

        def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
            yield (partition.value,)

        def commit(self, end: dict[str, int]) -> None:
            self._note(f"C({end['at']})")

    class Probe(DataSource):
        @classmethod
        def name(cls) -> str:
            return "calls"

        def schema(self) -> str:
            return "number int"

        def streamReader(self, schema: Any) -> Reader:
            return Reader(self.options["folder"])

    return Probe


Shape = Callable[[DataFrame], DataFrame]
Sink = Callable[[DataFrame, int], None]


class Load:
    """One load of the source, and what Spark has called of it since it was asked last."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._folder = folder
        self._seen = 0
        folder.mkdir()
        self.head(0)

    def head(self, at: int) -> None:
        """There is data up to here."""
        new = self._folder / "new"
        new.write_text(str(at))
        new.rename(self._folder / "head")

    def frame(self) -> DataFrame:
        return self._spark.readStream.format("calls").option("folder", str(self._folder)).load()

    def said(self) -> list[str]:
        calls = self._folder / "calls"
        return calls.read_text().splitlines()[self._seen :] if calls.exists() else []

    def count(self, call: str) -> int:
        return (self._folder / "calls").read_text().splitlines().count(call)

    def calls(self) -> str:
        found = self.said()
        self._seen += len(found)
        return "; ".join(call for call, _ in groupby(found))


class Query:
    """A query of loads, with its checkpoint."""

    def __init__(self, spark: SparkSession, folder: Path, loads: int = 1) -> None:
        self.loads = [Load(spark, folder / f"load-{number}") for number in range(loads)]
        self.load = self.loads[0]
        self.checkpoint = folder / "checkpoint"

    def start(
        self,
        shape: Shape | None = None,
        sink: Sink | None = None,
        *,
        is_asynchronous: bool = False,
        **trigger: Any,
    ) -> StreamingQuery:
        """shape: of the query, if not all rows of all loads. sink: of its batches."""
        frame = self.load.frame()
        for other in self.loads[1:]:
            frame = frame.unionAll(other.frame())
        writer = (shape(frame) if shape else frame).writeStream
        writer = writer.foreachBatch(sink) if sink else writer.format("noop")
        if is_asynchronous:
            writer = writer.options(**ASYNCHRONOUS)
        writer = writer.option("checkpointLocation", str(self.checkpoint))
        return (writer.trigger(**trigger) if trigger else writer).start()

    def run(
        self,
        *heads: int,
        shape: Shape | None = None,
        sink: Sink | None = None,
        other: int = 0,
        is_asynchronous: bool = False,
    ) -> str:
        """The calls of a query that becomes idle behind each of these heads, and is stopped.

        other: the head of the second load that this one begins with, moved by one for each head
        that is the one before: a batch could see one of two moves alone.
        """
        query = None
        for number, at in enumerate(heads):
            self.load.head(at)
            other += at in heads[max(0, number - 1) : number]
            if len(self.loads) > 1:
                self.loads[1].head(other)
            query = query or self.start(shape, sink, is_asynchronous=is_asynchronous)
            for load, head in zip(self.loads, (at, other), strict=False):
                self._wait_until_idle(query, load, head, is_noted=not is_asynchronous)
        assert query
        query.stop()
        return self.load.calls()

    def once(self, head: int) -> str:
        """The calls of an availableNow run."""
        self.load.head(head)
        assert self.start(availableNow=True).awaitTermination(PATIENCE_S)
        return self.load.calls()

    def lose(self, kind: str, number: int) -> None:
        """Remove an entry of Spark's `offsets` or `commits`."""
        for name in (f"{number}", f".{number}.crc"):
            (self.checkpoint / kind / name).unlink(missing_ok=True)

    def _wait_until_idle(
        self, query: StreamingQuery, load: Load, head: int, *, is_noted: bool
    ) -> None:
        """Until it asks twice without finding more. is_noted: in Spark's log of commits, too."""

        def is_idle() -> bool:
            assert query.isActive, query.exception()
            numbers = sorted(int(each.name) for each in self._entries("offsets"))
            done = {int(each.name) for each in self._entries("commits")}
            is_done = not is_noted or done.issuperset(numbers[-1:])
            return load.said()[-2:] == [f"LO={head}"] * 2 and is_done

        wait_for(is_idle, f"a batch up to {head}", PATIENCE_S)

    def _entries(self, kind: str) -> list[Path]:
        return list((self.checkpoint / kind).glob("[0-9]*"))


@pytest.fixture(scope="module")
def probed(spark: SparkSession) -> SparkSession:
    spark.dataSource.register(probe())
    return spark


@pytest.fixture
def query(probed: SparkSession, tmp_path: Path) -> Query:
    return Query(probed, tmp_path)


def test_restarts_lost_commits_and_a_rollback(query: Query) -> None:
    assert query.run(1) == "LO=1; I; P(0,1); LO=1", "a new checkpoint"
    query.lose("commits", 0)
    assert query.run(1, 3) == "P(1,1); I; P(0,1); LO=1; LO=3; C(1); P(1,3); LO=3"
    assert query.run(3, 4) == "P(3,3); LO=3; LO=4; C(3); P(3,4); LO=4", "an orderly restart"
    query.lose("commits", 2)
    assert query.run(4, 5) == "P(4,4); P(3,4); LO=4; LO=5; C(4); P(4,5); LO=5"
    query.lose("commits", 3)
    assert query.run(6) == "P(5,5); P(4,5); LO=6; C(5); P(5,6); LO=6", "with data, too"
    for kind in ("offsets", "commits"):
        query.lose(kind, 4)
    assert query.run(7) == "P(5,5); LO=7; C(5); P(5,7); LO=7", "a rollback"


def test_a_new_checkpoint_without_data(query: Query) -> None:
    assert query.run(0, 2) == "LO=0; I; P(0,0); LO=0; LO=2; C(0); P(0,2); LO=2"


def test_available_now_is_one_batch_and_no_call_behind_it(query: Query) -> None:
    assert query.once(1) == "LO=1; I; P(0,1)"
    assert query.once(1) == "P(1,1); LO=1"
    assert query.once(3) == "P(1,1); LO=3; C(1); P(1,3)"
    query.lose("commits", 1)
    assert query.once(4) == "P(3,3); P(1,3)", "nothing new is read"


def test_sparks_wrapper_for_available_now_asks_before_it_names_anything(
    query: Query, probed: SparkSession
) -> None:
    probed.conf.set(WRAPPER, "true")
    try:
        assert query.once(1) == "LO=1; I; LO=1; I; P(0,1); LO=1"
        assert query.once(3) == "LO=3; P(1,1); LO=3; C(1); P(1,3); LO=3"
        query.lose("commits", 1)
        assert query.once(4) == "LO=4; P(3,3); P(1,3); LO=4; C(3); P(3,4); LO=4"
    finally:
        probed.conf.unset(WRAPPER)


def test_another_load_has_data(probed: SparkSession, tmp_path: Path) -> None:
    query = Query(probed, tmp_path, loads=2)
    assert query.run(0, 1, 1, 1, other=1) == (
        "LO=0; I; P(0,0); LO=0; LO=1; C(0); P(0,1); LO=1; C(1); LO=1; C(1); LO=1"
    )
    assert query.run(1, other=3) == "P(1,1); LO=1"


def test_one_load_twice_in_a_query_is_one_source_that_plans_twice(query: Query) -> None:
    def twice(frame: DataFrame) -> DataFrame:
        return frame.unionAll(frame)

    calls = query.run(1, 2, shape=twice)
    assert calls == "LO=1; I; P(0,1); LO=1; LO=2; C(1); P(1,2); LO=2"
    assert query.load.count("P(1,2)") == 2
    assert query.run(2, shape=twice) == "P(2,2); LO=2"


def test_a_batch_without_data(query: Query) -> None:
    def late(frame: DataFrame) -> DataFrame:
        times = sf.timestamp_seconds(sf.col("number") * 1_000)
        return (
            frame.withColumn("time", times)
            .withWatermark("time", "1 second")
            .groupBy(sf.window("time", "1 second"))
            .count()
        )

    assert query.run(2, shape=late) == "LO=2; I; P(0,2); LO=2; C(2); LO=2"


def test_a_query_that_does_not_need_the_source(query: Query) -> None:
    assert query.run(1, 2, shape=lambda frame: frame.limit(0)) == "LO=1; I; LO=1; LO=2; C(1); LO=2"


def test_batches_of_which_little_is_read(query: Query) -> None:
    def take(batch: DataFrame, number: int) -> None:
        if number:
            batch.isEmpty()

    calls = query.run(2, 4, 6, sink=take)
    assert calls == "LO=2; I; P(0,2); LO=2; LO=4; C(2); P(2,4); LO=4; LO=6; C(4); P(4,6); LO=6"


def test_a_batch_that_fails_ends_the_run(query: Query) -> None:
    query.run(1)

    def fail(*_: Any) -> None:
        raise ValueError("the sink is down")

    query.load.head(2)
    failing = query.start(sink=fail)
    with pytest.raises(pyspark.errors.StreamingQueryException, match="the sink is down"):
        failing.awaitTermination(PATIENCE_S)
    assert query.load.calls() == "P(1,1); LO=2; C(1); P(1,2)"
    assert query.run(2) == "P(2,2); P(1,2); LO=2"


def test_asynchronous_progress_commits_nothing_and_leaves_gaps(query: Query) -> None:
    def run(*heads: int) -> str:
        return query.run(*heads, is_asynchronous=True)

    assert run(1, 2, 3) == "LO=1; I; P(0,1); LO=1; LO=2; P(1,2); LO=2; LO=3; P(2,3); LO=3"
    assert run(3) == "P(1,1); LO=3; P(1,3); LO=3", "nothing behind the first is in Spark's log"
    query.run(4, 5)
    for kind, number in (("commits", 3), ("offsets", 2), ("commits", 2)):
        query.lose(kind, number)
    assert run(5) == "P(5,5); P(3,5); LO=5", "two batches as one"
