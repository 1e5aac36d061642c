"""onFailure=retract: a write that fails deletes what it had put, as far as nobody has it."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from doubles import OneByOne
from refs import ORDERS

from spark_azqueue.errors import (
    AccessDenied,
    InvalidOption,
    InvalidRow,
    Outcome,
    ServiceError,
    ServiceUnavailable,
)
from spark_azqueue.options.account import read_account
from spark_azqueue.options.parse import sink_config
from spark_azqueue.options.sink_config import SinkConfig
from spark_azqueue.service.blobs.references import Reference
from spark_azqueue.service.messages import Lease
from spark_azqueue.service.queues import flow
from spark_azqueue.service.queues.calls import Dequeue
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.service.queues.xml import read_placed
from spark_azqueue.service.retry import RetryPolicy
from spark_azqueue.sink import large_bodies, retraction, sender
from spark_azqueue.sink.columns import SinkColumns
from spark_azqueue.sink.retraction import Receipts, Retracted, retract
from spark_azqueue.sink.row_errors import requests
from spark_azqueue.sink.sender import Sender
from spark_azqueue.sink.tally import Sent, Traffic
from spark_azqueue.sink.writers import Acknowledged, AzQueueWriter, RowStreamWriter
from spark_azqueue.testing import FakeQueueService, Fault

QUEUE = "orders"
COLUMNS = SinkColumns(body=0, queue=1)


def config(fake: FakeQueueService, **options: str) -> SinkConfig:
    given = {"secret.connectionString": fake.connection_string, "queue": QUEUE, **options}
    return sink_config({"onFailure": "retract", "sendParallelism": "1", **given}, {})


def rows(count: int, queue: str | None = None) -> list[tuple[str, str | None]]:
    return [(f"m{number}", queue) for number in range(count)]


def send(made: SinkConfig, given: Any) -> Sender:
    sender = Sender(made)
    sender.send(requests(given, COLUMNS, made))
    return sender


def batches(given: list[tuple[str, str | None]]) -> Iterator[pa.RecordBatch]:
    """The same rows, as Spark passes them."""
    body, queue = (list(column) for column in zip(*given, strict=True))
    yield pa.RecordBatch.from_pydict({"body": body, "queue": pa.array(queue, pa.string())})


def client(fake: FakeQueueService) -> QueueClient:
    return QueueClient(read_account({"secret.connectionString": fake.connection_string}, {}))


def test_a_task_that_fails_deletes_what_it_put(fake: FakeQueueService) -> None:
    for name in (QUEUE, "other"):
        fake.create_queue(name)
    fake.put(QUEUE, "of somebody else")
    fake.faults.add(Fault("put", "forbidden", nth=6))

    with pytest.raises(AccessDenied, match="row 5 of this task was not accepted") as caught:
        send(config(fake), [*rows(3), *rows(4, "other")])

    assert "acknowledged: 5. Messages that were put: 5 deleted again, 0 deq" in str(caught.value)
    assert [view.text for view in fake.messages(QUEUE)] == ["of somebody else"]
    assert fake.count("other") == 0


@pytest.mark.parametrize("lost", [(1,), (2,), (2, 4)])
def test_a_put_that_is_repeated_after_a_lost_answer_may_have_left_a_message(
    fake: FakeQueueService, lost: tuple[int, ...]
) -> None:
    fake.create_queue(QUEUE)
    fake.faults.add(*(Fault("put", "reply_lost", nth=n) for n in lost))
    fake.faults.add(Fault("put", "forbidden", nth=len(lost) + 4))

    with pytest.raises(AccessDenied) as caught:
        send(config(fake), rows(5))

    assert fake.count(QUEUE) == len(lost)
    assert (
        "Messages that were put: 3 deleted again, 0 dequeued by a consumer before, 0 left"
        f" (onFailure=retract). Up to {len(lost)} more may be in the queues: so many requests had"
        " no answer."
    ) in str(caught.value)


def test_a_put_that_never_had_an_answer_may_have_left_a_message(
    fake: FakeQueueService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "SEND", RetryPolicy(0.0))
    fake.create_queue(QUEUE)
    fake.faults.add(*(Fault("put", "reply_lost", nth=n) for n in range(3, 9)))

    with pytest.raises(ServiceUnavailable) as caught:
        send(config(fake), rows(5))

    left = fake.count(QUEUE)  # libcurl itself may have sent it twice
    assert left in (1, 2)
    assert "2 deleted again, 0 dequeued by a consumer before, 0 left" in str(caught.value)
    assert f"Up to {left} more may be in the queues" in str(caught.value)


def test_a_delete_that_was_refused_after_a_lost_answer_may_have_left_a_message(
    fake: FakeQueueService,
) -> None:
    fake.create_queue(QUEUE)
    fake.faults.add(Fault("put", "forbidden", nth=4), Fault("delete", "reply_lost", nth=2))

    with pytest.raises(AccessDenied, match=r"3 deleted again.* Up to 1 more may be in the queues"):
        send(config(fake), rows(5))

    assert fake.count(QUEUE) == 0, "or a consumer has it: the service says the same"


def test_what_is_still_under_way_when_the_task_ends_may_leave_a_message(
    fake: FakeQueueService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "_LAST_ANSWERS_S", 0.0)
    fake.create_queue(QUEUE)
    fake.faults.add(Fault("put", "forbidden", nth=1))
    fake.faults.add(*(Fault("put", "slow", nth=n, seconds=0.5) for n in (2, 3)))

    with pytest.raises(AccessDenied, match=r"0 left .*\. Up to 2 more may be in the queues"):
        send(config(fake, sendParallelism="3"), rows(3))


def test_the_driver_tells_what_finished_tasks_do_not_know(
    fake: FakeQueueService, caplog: pytest.LogCaptureFixture
) -> None:
    fake.create_queue(QUEUE)
    fake.faults.add(Fault("put", "reply_lost", nth=2))
    writer = AzQueueWriter(config(fake), COLUMNS, None)
    sent = pickle.loads(pickle.dumps([writer.write(batches(rows(3)))]))

    writer.abort(sent)

    assert fake.count(QUEUE) == 1
    assert "3 deleted again" in caplog.messages[-1]
    assert "Up to 1 more may be in the queues" in caplog.messages[-1]


def test_without_it_they_stay(fake: FakeQueueService) -> None:
    fake.create_queue(QUEUE)
    fake.faults.add(Fault("put", "forbidden", nth=4))

    with pytest.raises(AccessDenied, match=r"acknowledged: 3 \(a retry of the task sends them ag"):
        send(config(fake, onFailure="keep"), rows(5))

    assert fake.count(QUEUE) == 3
    assert fake.requests["delete"] == 0


def test_what_answers_after_the_failure_is_deleted_too(fake: FakeQueueService) -> None:
    fake.create_queue(QUEUE)
    fake.faults.add(Fault("put", "forbidden", nth=1))
    fake.faults.add(*(Fault("put", "slow", nth=n, seconds=0.2) for n in (2, 3, 4)))

    with pytest.raises(AccessDenied, match=r"acknowledged: 3. Messages that were put: 3 deleted"):
        send(config(fake, sendParallelism="4"), rows(4))

    assert fake.count(QUEUE) == 0


class Interrupt(BaseException):
    pass


@pytest.mark.parametrize("error", [RuntimeError("of the user's function"), Interrupt()])
def test_whatever_ended_the_task(
    fake: FakeQueueService,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: BaseException,
) -> None:
    monkeypatch.setattr("spark_azqueue.sink.sender.BUFFER_BYTES", 0)
    fake.create_queue(QUEUE)

    def given() -> Iterator[tuple[str, None]]:
        yield from [("a", None), ("b", None)]
        raise error

    with pytest.raises(type(error)):
        send(config(fake), given())

    assert fake.count(QUEUE) == 0
    (told,) = caplog.messages
    assert told.startswith("the task failed. Messages that were put: 2 deleted again")


def test_what_a_consumer_has_is_left_to_it(
    fake: FakeQueueService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_azqueue.sink.sender.BUFFER_BYTES", 0)
    fake.create_queue(QUEUE)

    def given() -> Iterator[tuple[str | None, None]]:
        yield from rows(3)
        assert fake.count(QUEUE) == 2, "the third is under way"
        consumer.now(Dequeue(ORDERS, 1, 60))
        yield (None, None)

    consumer = client(fake)
    with pytest.raises(InvalidRow, match="2 deleted again, 1 dequeued by a consumer before, 0 le"):
        send(config(fake), given())
    consumer.close()

    assert [view.text for view in fake.messages(QUEUE)] == ["m0"]


def test_with_a_delay_no_consumer_ever_sees_them(
    fake: FakeQueueService, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.create_queue(QUEUE)
    fake.faults.add(Fault("put", "forbidden", nth=4))
    seen = []

    def watched(*arguments: Any) -> Retracted:
        seen.append((fake.count(QUEUE), fake.visible(QUEUE)))
        return retract(*arguments)

    monkeypatch.setattr(sender, "retract", watched)
    with pytest.raises(AccessDenied):
        send(config(fake, visibilityDelay="600"), rows(5))

    assert seen == [(3, 0)]
    assert fake.count(QUEUE) == 0


def test_if_deletes_are_not_allowed_the_error_of_the_write_is_the_one_to_see(
    fake: FakeQueueService, caplog: pytest.LogCaptureFixture
) -> None:
    fake.create_queue(QUEUE)
    fake.faults.add(Fault("put", "busy_503", nth=31))  # counted, and no end of the write
    fake.faults.add(Fault("put", "unauthorized", nth=42), Fault("put", "unauthorized", nth=43))
    fake.faults.add(Fault("delete", "forbidden"))

    with pytest.raises(ServiceError, match=r"row 40 of.* 0 deleted again.* 40 left"):
        send(config(fake), rows(50))

    assert fake.count(QUEUE) == 40
    (told,) = caplog.messages
    assert told.startswith(
        "a message that a failed write had put could not be deleted again:"
        " [AZQUEUE_PERMISSION_MISSING] cou"
    )
    assert fake.requests["delete"] == 1, "the others would fare alike"


def test_it_ends_in_time(fake: FakeQueueService, monkeypatch: pytest.MonkeyPatch) -> None:
    fake.create_queue(QUEUE)
    made = send(config(fake), rows(4))
    assert made.receipts is not None

    assert retract(client(fake), [made.receipts], 2, within_s=0.0) == Retracted(left=4)
    monkeypatch.setattr(flow, "results_of", lambda *_, **__: 1 / 0)
    assert retract(client(fake), [made.receipts], 2) == Retracted(left=4)

    assert fake.count(QUEUE) == 4


def test_receipts_are_kept_up_to_a_bound(
    fake: FakeQueueService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retraction, "RECEIPTS_AT_MOST", 3)
    fake.create_queue(QUEUE)
    fake.faults.add(Fault("put", "forbidden", nth=6))

    with pytest.raises(AccessDenied, match=r"acknowledged: 5.* 3 deleted again, 0 .* 2 left"):
        send(config(fake), rows(6))

    assert fake.count(QUEUE) == 2


def test_rows_that_were_set_aside_are_taken_back_too(fake: FakeQueueService) -> None:
    for name in (QUEUE, "rejects"):
        fake.create_queue(name)
    fake.faults.add(Fault("put", "forbidden", nth=3))
    made = config(fake, onRowError="queue", rowErrorQueue="rejects")

    with pytest.raises(AccessDenied, match=r"acknowledged: 1. Messages that were put: 2 deleted"):
        send(made, [("a", None), (None, None), ("b", None)])

    assert (fake.count(QUEUE), fake.count("rejects")) == (0, 0)


class Blobs:
    """Blobs that are stored nowhere."""

    def __init__(self, *place: object, **options: object) -> None:
        pass

    def put(self, body: Any) -> Reference:
        return Reference("bodies", "0" * 32, len(body.data))

    def close(self) -> None:
        pass


def test_large_bodies(fake: FakeQueueService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_bodies, "BlobStore", Blobs)
    fake.create_queue(QUEUE)
    blobs = {
        "largeBody": "blob",
        "blobContainer": "bodies",
        "blobAccountUrl": "http://127.0.0.1:9/b",
    }
    made = config(fake, **blobs)

    sender = send(made, [("x" * 70_000, None), ("a", None)])

    assert sender.receipts is not None
    assert retract(client(fake), [sender.receipts], 2) == Retracted(deleted=2)
    assert sender.traffic == Traffic(bytes=70_001)


def test_the_driver_deletes_what_finished_tasks_put(
    fake: FakeQueueService, caplog: pytest.LogCaptureFixture
) -> None:
    for name in (QUEUE, "other"):
        fake.create_queue(name)
    made = config(fake)
    writer = AzQueueWriter(made, COLUMNS, None)
    messages: list[Any] = [
        writer.write(batches(rows(3))),
        None,
        writer.write(batches(rows(2, "other"))),
    ]
    sent = pickle.loads(pickle.dumps(messages))  # as they come to the driver

    writer.abort(sent)

    assert (fake.count(QUEUE), fake.count("other")) == (0, 0)
    assert caplog.messages[1].startswith("the write failed. Of 2 tasks that had finished: Messages")
    assert "5 deleted again, 0 dequeued by a consumer before, 0 left" in caplog.messages[1]
    RowStreamWriter(made, COLUMNS, None).abort(sent, 7)
    assert "0 deleted again, 5 dequeued by a consumer before" in caplog.messages[-1]


def test_the_driver_leaves_them_without_it(fake: FakeQueueService) -> None:
    fake.create_queue(QUEUE)
    writer = AzQueueWriter(config(fake, onFailure="keep"), COLUMNS, None)

    sent = writer.write(batches(rows(3)))
    writer.abort([sent])

    assert fake.count(QUEUE) == 3
    assert isinstance(sent, Acknowledged)
    assert sent.receipts is None, "nothing travels that nobody needs"


def test_a_commit_message_stays_small() -> None:
    kept = Receipts()
    for number in range(10_000):
        uuid = f"{number:08x}-0000-4000-8000-000000000000"
        kept.add(Lease(ORDERS, uuid, f"AgAAAAMAAAAAAAAA{number:011d}="))
    message = pickle.dumps(Acknowledged(Sent(10_000), Traffic(), kept))

    assert len(message) < 10_000 * 80
    assert list(pickle.loads(message).receipts.leases())[9_999].pop_receipt.endswith("9999=")


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"<html/>",
        b"<QueueMessagesList/>",
        b"<QueueMessagesList><QueueMessage><MessageId>a</MessageId></QueueMessage>"
        b"</QueueMessagesList>",
    ],
)
def test_an_answer_without_a_lease_is_no_error(document: bytes) -> None:
    assert read_placed(ORDERS, document) is None


def test_a_put_without_a_lease_counts_as_left() -> None:
    class Queue:
        def put(self, text: str, delay_s: int, ttl_s: int | None) -> None:
            if text == "m2":
                raise ServiceError("refused", status=400, outcome=Outcome.FATAL)

    made = sink_config(
        {
            "secret.connectionString": "AccountName=acc;AccountKey=a2V5",
            "queue": QUEUE,
            "onFailure": "retract",
        },
        {},
    )
    sender = Sender(made, OneByOne(lambda _: Queue()))
    with pytest.raises(ServiceError, match=r"acknowledged: 2. .* 0 deleted again, .* 2 left"):
        sender.send(requests(rows(3), COLUMNS, made))


@pytest.mark.parametrize("operation", ["update", "delete"])
def test_updates_and_deletes_cannot_be_taken_back(operation: str) -> None:
    with pytest.raises(InvalidOption, match="onFailure=retract goes with operation=enqueue, not"):
        sink_config(
            {
                "secret.connectionString": "AccountName=acc;AccountKey=a2V5",
                "onFailure": "retract",
                "operation": operation,
            },
            {},
        )
