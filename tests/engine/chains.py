"""A chain of two queues on the tests' Spark: the second one is written by transactions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lines import read_all
from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery

from spark_azqueue.testing import FakeQueueService

if TYPE_CHECKING:
    from .conftest import Streams

SENT = [f"m{number}" for number in range(60)]


class Chain:
    """A stream from one queue, with a write-ahead log, into another by transactions."""

    def __init__(self, streams: Streams, fake: FakeQueueService, queue: str, folder: Path) -> None:
        self.streams = streams
        self.spark = streams.spark
        self.fake = fake
        self.queue = queue
        self.target = f"{queue[:50]}-out"
        self.folder = folder
        self.log = f"file:{folder}/txn"
        for name in (queue, self.target):
            fake.create_queue(name)

    @property
    def account(self) -> dict[str, str]:
        return {"secret.connectionString": self.fake.connection_string}

    def sink(self, **options: str) -> dict[str, str]:
        return self.account | {"queue": self.target, "transactionLog": self.log} | options

    def source(self) -> DataFrame:
        """The queue, with a write-ahead log."""
        wal = {"writeAheadLog": f"file:{self.folder}/wal", "maxMessagesPerTrigger": "20"}
        return self.streams.read(self.fake.connection_string, self.queue, **wal)

    def run(self, frame: DataFrame | None = None, **options: str) -> None:
        """Read all that is there, 20 messages a batch, until the queue is empty. Raises."""
        writer = (
            (self.source().select("body") if frame is None else frame)
            .writeStream.format("azqueue")
            .options(**self.sink(**options))
            .option("checkpointLocation", str(self.streams.checkpoint))
        )

        def start() -> StreamingQuery:
            query = writer.trigger(availableNow=True).start()
            self.streams.queries.append(query)
            return query

        read_all(start)

    def send(self, bodies: list[str] = SENT) -> None:
        self.fake.put_many(self.queue, bodies)

    def write(self, bodies: list[str], version: int, tasks: int = 3, **options: str) -> None:
        rows = self.spark.createDataFrame([(body,) for body in bodies], "body string")
        given = {"txnAppId": "loader", "txnVersion": str(version)}
        rows.repartition(tasks).write.format("azqueue").mode("append").options(
            **self.sink(**(given | options))
        ).save()

    def visible(self, queue: str = "") -> list[str]:
        """The bodies that a consumer could have now."""
        now = self.fake.clock.now()
        messages = self.fake.messages(queue or self.target)
        return sorted(each.text for each in messages if each.next_visible <= now)

    @property
    def hidden(self) -> int:
        return self.fake.count(self.target) - len(self.visible())

    def objects(self) -> list[str]:
        return sorted(path.name for path in (self.folder / "txn" / "txn").iterdir())
