"""What examples/any_day.py does in many days, in simulated time: python many_days.py FOLDER DAYS

The job is killed on every third day: before a task's rows, between rows and commit, or amid the
commit. It runs again the next day. A consumer looks every hour.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from spark_azqueue.testing import FakeClock, FakeQueueService, Fault

DAYS = int(sys.argv[2])
BEGIN = datetime.now(timezone.utc).toordinal() - DAYS - 2  # so no signature is of the past
CLOCK = FakeClock((BEGIN - date(1970, 1, 1).toordinal()) * 86_400.0, frozen=True)
time.time = CLOCK.now  # before anything takes it as a default

import pyarrow as pa  # noqa: E402
from azure.storage.queue import QueueClient  # noqa: E402
from pyspark.sql.types import StringType, StructField, StructType, TimestampType  # noqa: E402

from spark_azqueue import AzQueueDataSource, AzQueueError  # noqa: E402

SCHEMA = StructType([StructField("body", StringType()), StructField("visible_at", TimestampType())])


class Killed(BaseException):
    """The job's process is gone."""


def due_on(day: int) -> list[tuple[str, datetime]]:
    """Three messages for a day, at any second."""
    chance = random.Random(day)
    start = datetime.fromordinal(day).replace(tzinfo=timezone.utc)
    return [(f"{day} {n}", start + timedelta(seconds=chance.randrange(86_400))) for n in range(3)]


def send(options: dict[str, str], day: int, dies: str) -> None:
    """One write, as Spark makes it."""
    made = AzQueueDataSource(options | {"txnVersion": str(day)})
    writer: Any = made.writer(SCHEMA, overwrite=False)
    bodies, moments = zip(*due_on(day), strict=True)
    batch = pa.RecordBatch.from_pydict(
        {"body": [*bodies], "visible_at": pa.array(moments, pa.timestamp("us", "UTC"))}
    )

    def rows() -> Iterator[pa.RecordBatch]:
        if dies == "before":
            raise Killed
        yield batch

    said = writer.write(rows())
    if dies == "between":
        raise Killed
    writer.commit([said])


def main(folder: Path) -> None:
    seen: list[str] = []
    early = kills = 0
    chance = random.Random(1)
    with FakeQueueService(CLOCK, credential_time=CLOCK.now) as fake:
        fake.create_queue("reminders")
        client = QueueClient.from_connection_string(fake.connection_string, "reminders")
        options = {
            "secret.connectionString": fake.connection_string,
            "queue": "reminders",
            "transactionLog": f"file:{folder}/log",
            "txnAppId": "reminders",
        }
        dues = {body: due for n in range(DAYS + 2) for body, due in due_on(BEGIN + n)}
        for today in range(BEGIN, BEGIN + DAYS):
            dies = chance.choice(("before", "between", "amid")) if chance.random() < 1 / 3 else ""
            try:
                for day in range(max(BEGIN, today - 3), today + 2):
                    if dies == "amid" and day == today + 1:
                        fake.faults.add(Fault("update", "error_500", nth=2, times=200))
                    send(options, day, dies if day == today + 1 else "")
            except (Killed, AzQueueError):
                kills += 1
            fake.faults.clear()
            for _ in range(24):
                CLOCK.advance(3_600)
                for message in client.receive_messages(messages_per_page=32):
                    seen.append(message.content)
                    early += dues[message.content].timestamp() > CLOCK.now()
                    client.delete_message(message)
    wanted = [body for n in range(DAYS) for body, _ in due_on(BEGIN + n)]
    twice = len(seen) - len({*seen})
    found = len({*seen} & {*wanted})
    print(f"{DAYS} days: {found:,} of {len(wanted):,} messages, {twice} twice, {early} early")
    print(f"{kills} kills")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
