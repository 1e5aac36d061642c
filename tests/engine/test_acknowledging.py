"""operation=update and operation=delete on real Spark: acknowledging by hand."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import PATIENCE_S, wait_for
from pyspark.errors import PythonException
from pyspark.sql import DataFrame
from pyspark.sql.functions import col, lit

from spark_azqueue import Retry, settle
from spark_azqueue.errors import InvalidOption
from spark_azqueue.testing import FakeQueueService, Fault

from .conftest import Streams
from .test_crashes import Job


def change(frame: DataFrame, connection_string: str, queue: str, **options: str) -> None:
    frame.write.format("azqueue").mode("append").options(
        **{"secret.connectionString": connection_string, "queue": queue}, **options
    ).save()


@pytest.mark.core
def test_rows_are_deleted_retried_later_and_updated_by_hand(
    streams: Streams, connection_string: str, queue: str
) -> None:
    frame = streams.spark.createDataFrame([(f"m{n}",) for n in range(30)], "body string")
    change(frame, connection_string, queue, createQueue="true")
    seen: list[str] = []

    def work(batch: DataFrame, number: int) -> None:
        rows = batch.withColumn("n", batch.body.substr(2, 2).cast("int"))
        seen.extend(row.body for row in batch.collect())
        done = rows.where("body LIKE 'm%' AND n < 10 OR body LIKE 'M%'")
        leased = ("message_id", "pop_receipt")
        change(done.select(*leased, "queue"), connection_string, queue, operation="delete")
        later = rows.where("body LIKE 'm%' AND n BETWEEN 10 AND 19")
        later = later.selectExpr(*leased, "3600 AS visibility_delay")
        change(later, connection_string, queue, operation="update")
        progress = rows.where("body LIKE 'm%' AND n >= 20")
        progress = progress.selectExpr(*leased, "upper(body) AS body")
        change(progress, connection_string, queue, operation="update", visibilityDelay="0")

    # Two runs, since one reads a message that it gave out only once; no clock moves between them.
    for _ in range(2):
        run = streams.read(connection_string, queue, deleteOnCommit="false")
        streams.read_all(run, work)

    expected = [f"m{n}" for n in range(30)] + [f"M{n}" for n in range(20, 30)]
    assert Counter(seen) == Counter(expected)


def test_leases_are_renewed_while_the_batch_runs_and_nothing_is_deleted(
    streams: Streams, fake: FakeQueueService, queue: str
) -> None:
    fake.create_queue(queue)
    fake.put_many(queue, ["a", "b"])

    def long_work(batch: DataFrame, number: int) -> None:
        if not batch.isEmpty():
            fake.wait_until(lambda: fake.requests["update"] >= 1 + 2 * 5, PATIENCE_S)

    options = {"deleteOnCommit": "false", "visibilityTimeout": "3"}
    streams.collect(streams.read(fake.connection_string, queue, **options), long_work)
    fake.wait_until(lambda: fake.requests["update"] >= 1 + 2 * 5, PATIENCE_S)
    fake.wait_until(lambda: len(streams.rows) >= 2, PATIENCE_S)

    # Not acknowledged by anybody, they come again.
    fake.wait_until(lambda: len(streams.rows) >= 4, PATIENCE_S)
    assert fake.requests["delete"] == 0
    assert fake.count(queue) == 2


def test_a_receipt_that_a_renewal_replaced_is_stale_ignored_and_comes_again(
    streams: Streams, fake: FakeQueueService, queue: str
) -> None:
    fake.create_queue(queue)
    fake.put(queue, "a")
    renewed_first = [True]

    def work(batch: DataFrame, number: int) -> None:
        if batch.isEmpty():
            return
        if renewed_first.pop() if renewed_first else False:
            before = fake.requests["update"]
            fake.wait_until(lambda: fake.requests["update"] > before, PATIENCE_S)
        leased = batch.select("message_id", "pop_receipt")
        change(leased, fake.connection_string, queue, operation="delete")

    options = {"deleteOnCommit": "false", "visibilityTimeout": "20"}
    streams.collect(streams.read(fake.connection_string, queue, **options), work)
    fake.wait_until(lambda: ("delete", 404) in fake.statuses, PATIENCE_S)
    assert fake.count(queue) == 1, "the delete was refused, and the write went on"
    fake.wait_until(lambda: len(streams.rows) == 1, PATIENCE_S)
    # Forgotten after the commit: it comes again when its lease ends, and goes then.
    looks = fake.requests["dequeue"]
    fake.wait_until(lambda: fake.requests["dequeue"] > looks, PATIENCE_S)
    fake.clock.advance(21)
    fake.wait_until(lambda: fake.count(queue) == 0, PATIENCE_S)


MODES = {
    "no log": {},
    "log": {"writeAheadLog": "file:{log}"},
    "deletes after log": {"writeAheadLog": "file:{log}", "deleteAfter": "log"},
    "executors": {"writeAheadLog": "file:{log}", "leaseOn": "executors", "deleteAfter": "log"},
}


@pytest.mark.parametrize("mode", MODES)
def test_rows_of_a_source_that_deletes_cannot_be_changed(
    streams: Streams, fake: FakeQueueService, queue: str, tmp_path: Path, mode: str
) -> None:
    # Given a stream without deleteOnCommit=false
    fake.create_queue(queue)
    fake.put_many(queue, ["a", "b", "c"])
    options = {name: value.format(log=tmp_path / "log") for name, value in MODES[mode].items()}
    azure = {"secret.connectionString": fake.connection_string}
    refused: list[str] = []

    def work(batch: DataFrame, number: int) -> None:
        leased = batch.select("message_id", "pop_receipt", "queue")
        for operation in ("update", "delete"):
            with pytest.raises(PythonException) as caught:
                change(leased, fake.connection_string, queue, operation=operation)
            refused.append(str(caught.value))
        with pytest.raises(InvalidOption) as settled:
            settle(batch, azure, done=col("body") == "a", retry=Retry(lit(True)))
        refused.append(str(settled.value))

    # When a batch tries to show its messages later, or to delete them
    before = fake.requests["update"]
    frame = streams.read(fake.connection_string, queue, **options)
    streams.read_all(frame, work)

    # Then each way is refused, which names the option, and nothing is lost in silence
    assert len(refused) == 3
    assert all("[AZQUEUE_DELETED_ON_COMMIT]" in text for text in refused)
    assert all("set deleteOnCommit=false at the stream" in text for text in refused)
    assert fake.requests["update"] <= before + 1  # the source's own check of its rights
    assert sorted(streams.bodies()) == ["a", "b", "c"]


@pytest.fixture
def job(tmp_path: Path, fake: FakeQueueService, queue: str) -> Iterator[Job]:
    fake.create_queue(queue)
    made = Job(tmp_path, fake, queue)
    yield made
    made.destroy()


@pytest.mark.core
def test_a_workflow_whose_worker_is_killed_in_stage_2_goes_on_with_stage_2(
    job: Job, fake: FakeQueueService, queue: str
) -> None:
    orders = [f"order-{n}" for n in range(20)]
    fake.put_many(queue, [json.dumps({"order": order, "stage": 1}) for order in orders])
    job.script = Path(__file__).with_name("staged_job.py")
    job.hold()
    job.start()
    job.wait_until_held()
    assert Counter(job.rows()) == Counter(f"{order} stage 1" for order in orders)
    job.destroy()  # kill -9 of everything, in the middle of stage 2
    assert {json.loads(view.text)["stage"] for view in fake.messages(queue)} == {2}

    job.release()
    job.start()
    job.wait_until_settled()  # nobody moved the clock
    job.end()
    assert Counter(job.rows()) == Counter(f"{o} stage {stage}" for o in orders for stage in (1, 2))


@pytest.mark.core
def test_a_writing_task_killed_half_way_loses_nothing_and_repeats_only_what_it_had_sent(
    job: Job, fake: FakeQueueService, queue: str
) -> None:
    job.script = Path(__file__).with_name("writing_job.py")
    fake.faults.add(Fault("put", "slow", every=4, seconds=0.05))
    job.start()
    fake.wait_until(lambda: fake.count(queue) >= 200, PATIENCE_S)
    job.kill(job.mine("pyspark.daemon"))
    assert job.process
    assert job.process.wait(PATIENCE_S) == 0, (job.folder / "log").read_text()[-3000:]
    wait_for(lambda: not job.mine(), "every process to end")

    sent: dict[str, list[str]] = {}
    for view in fake.messages(queue):
        row, attempt = view.text.split(":")
        sent.setdefault(attempt, []).append(row)
    *killed, last = sorted(sent)  # Spark may need more than one try to get new workers
    assert killed[0] == "0"
    assert 200 <= len(sent["0"]) < 600
    assert all(len(set(rows)) == len(rows) for rows in sent.values()), "each attempt, each row once"
    assert set(sent[last]) == {str(n) for n in range(600)}, "nothing is missing"
