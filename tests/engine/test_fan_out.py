"""A fan-out of 2,000 rows to four queues, of which one is missing, with five rows too long."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession

from spark_azqueue.options.account import read_account
from spark_azqueue.service.messages import QueueRef
from spark_azqueue.service.queues.calls import Count, Dequeue
from spark_azqueue.service.queues.client import QueueClient

ROWS, LONG = 2_000, range(8, 2_000, 400)


class Queues:
    """Three queues on Azurite, the name of a fourth that does not exist, and one for the rest."""

    def __init__(self, connection_string: str, base: str) -> None:
        self.options = {"secret.connectionString": connection_string}
        account = read_account(self.options, {})
        self.client = QueueClient(account)
        self.refs = [QueueRef(account.name, f"{base}-{place}") for place in range(4)]
        self.rest = QueueRef(account.name, f"{base}-rest")
        for ref in (*self.refs[:3], self.rest):
            self.client.create(ref)

    def counts(self) -> list[int]:
        return [self.client.now(Count(ref)) for ref in (*self.refs[:3], self.rest)]

    def texts(self, ref: QueueRef) -> Iterator[str]:
        while page := self.client.now(Dequeue(ref, 32, 3_600)).received:
            yield from (message.text for message, _ in page)

    def frame(self, spark: SparkSession) -> DataFrame:
        names = ", ".join(f"'{ref.name}'" for ref in self.refs)
        return spark.range(0, ROWS, 1, 2).selectExpr(
            "IF(id % 400 = 8, repeat('x', 70000), concat('m', id)) AS body",
            f"array({names})[id % 4] AS queue",
        )


@pytest.fixture
def queues(azurite_connection_string: str, queue: str) -> Iterator[Queues]:
    made = Queues(azurite_connection_string, queue)
    yield made
    made.client.close()


def save(frame: DataFrame, queues: Queues, **options: Any) -> None:
    write = frame.write.format("azqueue").mode("append").options(**queues.options, **options)
    write.save()


def test_the_rest_arrives_and_what_cannot_stands_in_a_queue_with_its_reason(
    spark: SparkSession, queues: Queues
) -> None:
    save(queues.frame(spark), queues, onRowError="queue", rowErrorQueue=queues.rest.name)

    assert queues.counts() == [495, 500, 500, 505]
    arrived = {text for ref in queues.refs[:3] for text in queues.texts(ref)}
    assert arrived == {f"m{n}" for n in range(ROWS) if n % 4 != 3 and n not in LONG}
    reports = [json.loads(text) for text in queues.texts(queues.rest)]
    assert Counter((each["error"], each["queue"]) for each in reports) == {
        ("QueueNotFound", queues.refs[3].name): 500,
        ("InvalidRow", queues.refs[0].name): 5,
    }
    missing, long = (
        [each for each in reports if each["error"] == error]
        for error in ("QueueNotFound", "InvalidRow")
    )
    assert {each["body"] for each in missing} == {f"m{n}" for n in range(3, ROWS, 4)}
    assert all("HTTP 404 QueueNotFound" in each["reason"] for each in missing)
    assert {(each["body_bytes"], each["complete"]) for each in long} == {(70_000, False)}
    assert all("the body takes 70,000 bytes as stored" in each["reason"] for each in long)


def test_with_fail_nothing_is_sent_and_the_error_names_the_first(
    spark: SparkSession, queues: Queues
) -> None:
    with pytest.raises(PythonException, match="row 8 of this task cannot be sent: the body takes"):
        save(queues.frame(spark).coalesce(1), queues)
    assert queues.counts() == [0, 0, 0, 0]

    short = queues.frame(spark).coalesce(1).where("length(body) < 100")
    with pytest.raises(PythonException, match="row 3 of this task was not accepted") as caught:
        save(short, queues, parallelism="1")
    assert f"queue '{queues.refs[3].name}'" in str(caught.value)
    acknowledged = sum(queues.counts())
    assert f"Rows of this task that were acknowledged: {acknowledged} " in str(caught.value)
