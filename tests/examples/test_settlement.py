"""`settle`: which messages are deleted, come again or are given up."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_azqueue import DeadLetter, Retry, Settled, backoff, settle
from spark_azqueue.errors import InvalidSchema
from spark_azqueue.testing import FakeQueueService


@pytest.fixture
def leased(spark: SparkSession, fake: FakeQueueService, azure: dict[str, str], tmp_path: Path):
    """Put bodies into queues, and hand them as a batch to a function."""

    def run(use, *, queues=("aaa",), bodies=("1", "2", "3"), **options: str) -> list:
        for queue in queues:
            fake.create_queue(queue)
            fake.put_many(queue, list(bodies))
        seen: list = []

        def work(batch: DataFrame, number: int) -> None:
            seen.append(use(batch))

        messages = spark.readStream.format("azqueue").options(**azure, **options)
        query = (
            messages.option("queue", ",".join(queues))
            .option("deleteOnCommit", "false")
            .load()
            .writeStream.foreachBatch(work)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return seen

    return run


def test_the_first_condition_that_holds_counts_and_null_is_false(leased, azure, fake) -> None:
    fake.create_queue("dead")
    number = F.when(F.col("body") != "4", F.col("body").cast("int"))

    (counts,) = leased(
        lambda batch: settle(
            batch,
            azure,
            done=number <= 1,
            dead=DeadLetter(number <= 2, "dead"),
            retry=Retry(number <= 3, F.lit(100)),
        ),
        queues=("aaa", "bbb"),
        bodies=("1", "2", "3", "4"),
    )

    assert counts == Settled(done=2, retry=2, dead=2, left=2)
    for queue in ("aaa", "bbb"):
        assert sorted(view.text for view in fake.messages(queue)) == ["3", "4"]
    letters = [json.loads(view.text) for view in fake.messages("dead")]
    assert {(each["queue"], each["body"], each["reason"]) for each in letters} == {
        ("aaa", "2", "given up"),
        ("bbb", "2", "given up"),
    }
    fake.clock.advance(101)
    assert fake.visible("aaa") == 1  # the retried one; the other is still leased
    fake.clock.advance(10 * 86_400)
    assert fake.visible("dead") == 2  # it never expires


def test_a_batch_without_conditions_is_left_alone(leased, azure, fake) -> None:
    assert leased(lambda batch: settle(batch, azure)) == [Settled(left=3)]
    assert fake.count("aaa") == 3


def test_what_the_service_refuses_is_counted_as_stale(leased, azure, fake) -> None:
    fake.create_queue("dead")
    number = F.col("body").cast("int")
    conditions = {
        "done": number == 1,
        "dead": DeadLetter(number == 2, "dead"),
        "retry": Retry(number == 3),
    }
    counts = leased(
        lambda batch: (settle(batch, azure, **conditions), settle(batch, azure, **conditions))
    )

    assert counts == [(Settled(done=1, dead=1, retry=1), Settled(stale=3))]
    assert [view.text for view in fake.messages("aaa")] == ["3"]


def test_a_message_with_a_row_to_retry_is_not_deleted_for_another_that_is_done(
    leased, azure, fake
) -> None:
    # Given rows that are parts of a message
    (counts,) = leased(
        lambda batch: settle(
            batch.withColumn("part", F.explode(F.array(F.lit(1), F.lit(2)))),
            azure,
            done=(F.col("part") == 1) | (F.col("body") == "1"),
            retry=Retry(F.lit(True), 100),
        )
    )

    assert counts == Settled(done=1, retry=2)
    assert sorted(view.text for view in fake.messages("aaa")) == ["2", "3"]
    fake.clock.advance(101)
    assert fake.visible("aaa") == 2


def test_a_binary_body_is_kept_as_base64(leased, azure, fake) -> None:
    fake.create_queue("dead")
    leased(
        lambda batch: settle(batch, azure, dead=DeadLetter(F.lit(True), "dead")),
        bodies=("x",),
        bodyType="binary",
    )

    (letter,) = (json.loads(view.text) for view in fake.messages("dead"))
    assert letter["body_encoding"] == "base64"
    assert base64.b64decode(letter["body"]) == b"x"


def test_a_message_that_cannot_be_decoded_is_copied_unchanged(leased, azure, fake) -> None:
    fake.create_queue("dead")
    (counts,) = leased(
        lambda batch: settle(batch, azure, dead=DeadLetter(F.col("body").isNull(), "dead", "odd")),
        bodies=("not base64!", "b2s="),
        messageEncoding="base64",
        onUndecodable="permissive",
    )

    assert counts == Settled(dead=1, left=1)
    (letter,) = (json.loads(view.text) for view in fake.messages("dead"))
    assert (letter["body"], letter["body_encoding"]) == ("not base64!", "stored")
    assert [view.text for view in fake.messages("aaa")] == ["b2s="]


def test_without_the_text_a_message_that_cannot_be_decoded_is_left(leased, azure, fake) -> None:
    fake.create_queue("dead")
    (counts,) = leased(
        lambda batch: settle(
            batch.withColumnRenamed("_corrupt_record", "raw_text"),
            azure,
            dead=DeadLetter(F.lit(True), "dead"),
        ),
        bodies=("not base64!",),
        messageEncoding="base64",
        onUndecodable="permissive",
    )

    assert counts == Settled(left=1, not_copied=1)
    assert fake.count("aaa") == 1
    assert fake.count("dead") == 0


@pytest.mark.parametrize("more", [{}, {"onRowError": "queue", "rowErrorQueue": "rejects"}])
@pytest.mark.parametrize("kind", ["string", "binary"])
def test_a_body_of_64_kib_is_copied_whole(leased, azure, fake, more, kind) -> None:
    for queue in ("dead", "rejects"):
        fake.create_queue(queue)
    bodies = ("\t\N{EURO SIGN}" * 16_384, "x" * 65_536, "short")
    (counts,) = leased(
        lambda batch: settle(batch, {**azure, **more}, dead=DeadLetter(F.lit(True), "dead")),
        bodies=bodies,
        bodyType=kind,
    )

    assert counts == Settled(dead=3)
    assert fake.count("aaa") == fake.count("rejects") == 0
    texts = [view.text for view in fake.messages("dead")]
    assert sorted(text for text in texts if not text.startswith("{")) == sorted(bodies[:2])
    fake.clock.advance(10 * 86_400)
    assert fake.visible("dead") == 3  # they never expire


@pytest.mark.parametrize("delay", [30 * 86_400, 10**12])
def test_a_delay_is_at_most_a_week(leased, azure, fake, delay) -> None:
    """Also one that is no int: Spark's cast would raise CAST_OVERFLOW."""
    (counts,) = leased(lambda batch: settle(batch, azure, retry=Retry(F.lit(True), F.lit(delay))))

    assert counts == Settled(retry=3)
    fake.clock.advance(7 * 86_400 - 1)
    assert fake.visible("aaa") == 0


def test_options_of_new_messages_do_not_stop_the_deletes(leased, azure, fake) -> None:
    options = {**azure, "createQueue": "true", "timeToLive": "600", "visibilityDelay": "5"}
    leased(
        lambda batch: settle(
            batch,
            options,
            done=F.col("body") == "1",
            dead=DeadLetter(F.col("body") == "2", "dead", F.lit("why")),
            retry=Retry(F.lit(True), delay=0),
        )
    )

    assert [view.text for view in fake.messages("aaa")] == ["3"]
    assert fake.visible("aaa") == 1
    assert fake.visible("dead") == 0
    fake.clock.advance(601)
    assert fake.count("dead") == 0  # by the option


def test_a_dead_message_that_cannot_be_copied_is_not_deleted(leased, azure, fake) -> None:
    with pytest.raises(Exception, match="QueueNotFound"):
        leased(lambda batch: settle(batch, azure, dead=DeadLetter(F.lit(True), "missing")))

    assert fake.count("aaa") == 3
    assert fake.requests["delete"] == 0


def test_delays_double_and_end_at_the_longest(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(n,) for n in (1, 2, 3, 7, 500)], "dequeue_count int")

    delays = [row[0] for row in frame.select(backoff(30, 1000)).collect()]
    assert delays == [30, 60, 120, 1000, 1000]
    delays = [row[0] for row in frame.select(backoff(30, 10**12)).collect()]
    assert delays[-1] == 7 * 86_400, "no message is invisible for longer"


def test_a_missing_column_is_named(spark: SparkSession, azure: dict[str, str]) -> None:
    rows = spark.createDataFrame(
        [("1", "r", "q")], "message_id string, pop_receipt string, q string"
    )

    with pytest.raises(InvalidSchema, match="without the column 'queue'"):
        settle(rows, azure, done=F.lit(True))
