"""What each sink makes of a batch that comes again, with a write-ahead log.

Spark's commit log lacks the last batch, as a kill leaves it between the sink's commit and Spark's.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter

from spark_azqueue.testing import FakeQueueService

from .conftest import Streams
from .test_stream import finish

SENT = [f"m{i}" for i in range(30)]
LAST = 10
"""Messages of the last batch."""

Start = Callable[["Sink", DataFrame], DataStreamWriter]


class Sink:
    """Where the rows go: a folder, a queue, or a database."""

    def __init__(self, spark: SparkSession, service: FakeQueueService, folder: Path) -> None:
        self.spark = spark
        self.service = service
        self.folder = folder
        self.target = f"target-{folder.name.replace('_', '-').lower()[:40]}"

    def read(self, kind: str, where: str = "output") -> list[str]:
        """The bodies in a folder of files, also in folders below it."""
        reader = self.spark.read.format(kind).schema("body string")
        found = reader.option("recursiveFileLookup", where != "output").load(
            str(self.folder / where)
        )
        return sorted(row.body for row in found.collect())


def files(kind: str) -> tuple[Start, Callable[[Sink], list[str]]]:
    """One of Spark's file sinks."""

    def write(sink: Sink, frame: DataFrame) -> DataStreamWriter:
        return frame.writeStream.format(kind).option("path", str(sink.folder / "output"))

    return write, lambda sink: sink.read(kind)


def folder_of_its_batch(sink: Sink, frame: DataFrame) -> DataStreamWriter:
    def write(batch: DataFrame, number: int) -> None:
        batch.write.mode("overwrite").parquet(f"{sink.folder}/batches/{number}")

    return frame.writeStream.foreachBatch(write)


def two_writes(sink: Sink, frame: DataFrame) -> DataStreamWriter:
    def write(batch: DataFrame, number: int) -> None:
        batch.write.mode("overwrite").parquet(f"{sink.folder}/batches/{number}")
        batch.write.mode("overwrite").json(f"{sink.folder}/copies/{number}")

    return frame.writeStream.foreachBatch(write)


def rows_of_both(sink: Sink) -> list[str]:
    found = sink.read("parquet", "batches")
    assert found == sink.read("json", "copies")
    return found


def one_transaction(sink: Sink, frame: DataFrame) -> DataStreamWriter:
    """Rows and the number of the batch in one transaction: a number that is there is skipped."""

    def write(batch: DataFrame, number: int) -> None:
        rows = [(row.body,) for row in batch.collect()]
        with sqlite3.connect(sink.folder / "rows.db") as database:
            database.execute("CREATE TABLE IF NOT EXISTS batches (number INTEGER PRIMARY KEY)")
            database.execute("CREATE TABLE IF NOT EXISTS bodies (body TEXT)")
            added = database.execute("INSERT OR IGNORE INTO batches VALUES (?)", (number,))
            if added.rowcount:
                database.executemany("INSERT INTO bodies VALUES (?)", rows)
        database.close()

    return frame.writeStream.foreachBatch(write)


def rows_in_database(sink: Sink) -> list[str]:
    database = sqlite3.connect(sink.folder / "rows.db")
    found = sorted(body for (body,) in database.execute("SELECT body FROM bodies"))
    database.close()
    return found


def plain_append(sink: Sink, frame: DataFrame) -> DataStreamWriter:
    def write(batch: DataFrame, number: int) -> None:
        batch.write.mode("append").parquet(f"{sink.folder}/batches")

    return frame.writeStream.foreachBatch(write)


def jdbc_append(sink: Sink, frame: DataFrame) -> DataStreamWriter:
    def write(batch: DataFrame, number: int) -> None:
        table = batch.write.format("jdbc").option("dbtable", "bodies").mode("append")
        table.option("url", f"jdbc:derby:{sink.folder}/derby;create=true").save()

    return frame.writeStream.foreachBatch(write)


def rows_by_jdbc(sink: Sink) -> list[str]:
    table = sink.spark.read.format("jdbc").option("dbtable", "bodies")
    rows = table.option("url", f"jdbc:derby:{sink.folder}/derby").load()
    return sorted(row.body for row in rows.collect())


def another_queue(sink: Sink, frame: DataFrame) -> DataStreamWriter:
    writer = frame.writeStream.format("azqueue").option("queue", sink.target)
    return writer.option("secret.connectionString", sink.service.connection_string).option(
        "createQueue", "true"
    )


def rows_in_queue(sink: Sink) -> list[str]:
    return sorted(message.text for message in sink.service.messages(sink.target))


EXACT = {
    **{kind: files(kind) for kind in ("parquet", "json", "csv", "text", "orc")},
    "foreachBatch, a folder of its batch": (
        folder_of_its_batch,
        lambda sink: sink.read("parquet", "batches"),
    ),
    "foreachBatch, two writes": (two_writes, rows_of_both),
    "foreachBatch, one transaction": (one_transaction, rows_in_database),
}
AT_LEAST_ONCE = {
    "foreachBatch, a plain append": (plain_append, lambda sink: sink.read("parquet", "batches")),
    "foreachBatch, an append over JDBC": (jdbc_append, rows_by_jdbc),
    "azqueue": (another_queue, rows_in_queue),
}


@pytest.mark.parametrize("name", [*EXACT, *AT_LEAST_ONCE])
def test_a_batch_that_comes_again(
    name: str, streams: Streams, fake: FakeQueueService, queue: str, tmp_path: Path
) -> None:
    write, read = {**EXACT, **AT_LEAST_ONCE}[name]
    sink = Sink(streams.spark, fake, tmp_path)
    fake.create_queue(queue)
    fake.put_many(queue, SENT)

    def run() -> None:
        frame = streams.read(
            fake.connection_string,
            queue,
            writeAheadLog=f"file:{tmp_path}/wal",
            maxMessagesPerTrigger="20",
        )
        writer = write(sink, frame.select("body").coalesce(1))
        query = (
            writer.option("checkpointLocation", str(streams.checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        streams.queries.append(query)
        finish(query)

    run()
    assert read(sink) == sorted(SENT)
    commits = (streams.checkpoint / "commits").glob("[0-9]*")
    assert sorted(path.name for path in commits) == ["0", "1"]
    streams.roll_back(1, ("commits",))
    run()

    found = read(sink)
    if name in EXACT:
        assert found == sorted(SENT)
    else:
        assert sorted(set(found)) == sorted(SENT)
        assert len(found) == len(SENT) + LAST
    assert fake.count(queue) == 0
