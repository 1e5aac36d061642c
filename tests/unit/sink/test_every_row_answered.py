"""A task succeeds only if every row of it was answered; what is under way stays within bounds."""

import asyncio
import logging

import pytest
from doubles import OneByOne

from spark_azqueue.errors import AzQueueError, Outcome, QueueNotFound, ServiceError, StaleReceipt
from spark_azqueue.options.choices import OnStaleReceipt, Operation
from spark_azqueue.options.sink_config import sink_config
from spark_azqueue.service.blobs.references import Large
from spark_azqueue.service.messages import Lease
from spark_azqueue.service.queues import calls
from spark_azqueue.sink import large_bodies as performing
from spark_azqueue.sink import sender as sending
from spark_azqueue.sink.columns import SinkColumns
from spark_azqueue.sink.large_bodies import call_of, outcome_of
from spark_azqueue.sink.requests import Delete, Enqueue, requests
from spark_azqueue.sink.sender import Sender
from spark_azqueue.sink.tally import Sent, Tally
from spark_azqueue.testing import Fault

QUEUE = "orders"
BODY = SinkColumns(body=0)
BLOBS = {
    "largeBody": "blob",
    "blobContainer": "bodies",
    "blobAccountUrl": "http://127.0.0.1:9/blobs",
}


def sender(connection_string, **options):
    given = {"secret.connectionString": connection_string, "queue": QUEUE, **options}
    return Sender(sink_config(given, {}))


def send(made, rows):
    return made.send(requests(rows, BODY, made._config))


class SignsSome:
    """A credential that works for so many requests, and then raises this."""

    def __init__(self, authority, works, error):
        self._authority = authority
        self._works = works
        self._error = error

    def sign(self, queue, url, headers):
        self._works -= 1
        if self._works < 0:
            raise self._error
        return self._authority.sign(queue, url, headers)

    def refresh(self):
        return False


def break_credential(made, works, error):
    transport = made._service._transport
    transport.authority = SignsSome(transport.authority, works, error)


@pytest.mark.parametrize("works", [0, 1, 9])
@pytest.mark.parametrize("parallelism", ["1", "4", "64"])
def test_an_error_of_the_credential_fails_the_task(fake, works, parallelism):
    fake.create_queue(QUEUE)
    made = sender(fake.connection_string, sendParallelism=parallelism)
    break_credential(made, works, RuntimeError("the vault is closed"))

    with pytest.raises(RuntimeError, match="the vault is closed"):
        send(made, [(str(n),) for n in range(10)])

    assert fake.count(QUEUE) <= works


class FailingBlobs:
    """Blobs of an account whose credential raises this."""

    error: BaseException = Exception()

    def __init__(self, *place, **options):
        pass

    def put(self, body):
        raise self.error

    def close(self):
        pass


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("the vault is closed"),
        AzQueueError("in words"),
        asyncio.CancelledError("a credential's own loop was closed"),
        SystemExit("a credential's own idea"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_whatever_a_large_body_met_fails_the_task(fake, monkeypatch, error):
    # Given a row whose body is to be stored in a blob, and a credential that raises
    fake.create_queue(QUEUE)
    monkeypatch.setattr(performing, "BlobStore", FailingBlobs)
    monkeypatch.setattr(FailingBlobs, "error", error)
    made = sender(fake.connection_string, **BLOBS)

    # Then nothing is sent, and nobody is told that it was
    with pytest.raises(type(error)) as caught:
        send(made, [("x" * 70_000,)])
    assert caught.value is error
    assert fake.count(QUEUE) == 0


def test_an_error_while_a_queue_is_created_fails_the_task(fake, monkeypatch):
    def create_queue(account, name):
        raise RuntimeError("the vault is closed")

    monkeypatch.setattr(sending, "create_queue", create_queue)

    with pytest.raises(RuntimeError, match="the vault is closed"):
        send(sender(fake.connection_string, createQueue="true"), [("a",)])


def test_a_queue_that_is_missing_though_it_was_created_fails_the_task(fake, monkeypatch):
    asked = []
    monkeypatch.setattr(sending, "create_queue", lambda account, name: asked.append(name))

    with pytest.raises(QueueNotFound, match="row 0 of this task"):
        send(sender(fake.connection_string, createQueue="true"), [("a",)])

    assert asked == [QUEUE]
    assert fake.requests["put"] == 2


class Broken:
    """Calls under way, of which some results never come."""

    def __init__(self, flight, lost):
        self._flight = flight
        self._lost = lost

    def __len__(self):
        return len(self._flight)

    def begin(self, tag, call, retry=None):
        self._flight.begin(tag, call, retry)

    def ended(self, timeout_s=None):
        results = self._flight.ended(timeout_s)
        return [each for each in results if each[0].row not in self._lost]

    def close(self):
        self._flight.close()


def test_a_row_whose_answer_was_lost_on_the_way_fails_the_task(fake):
    fake.create_queue(QUEUE)
    made = sender(fake.connection_string, sendParallelism="4")
    made._flight = Broken(made._flight, lost={3, 7})

    with pytest.raises(AzQueueError, match="10 rows of this task were sent, and 8 answers were"):
        send(made, [(str(n),) for n in range(10)])


@pytest.mark.parametrize(
    "result",
    [
        RuntimeError(),
        Outcome.RETRY,
        Outcome.FATAL,
        (Outcome.RETRY, None),
        (None, None),
        "done",
        True,
        0,
    ],
)
def test_what_is_not_understood_does_not_count_as_done(result):
    with pytest.raises(TypeError, match="neither done nor refused"):
        outcome_of(result)


@pytest.mark.parametrize(
    ("result", "outcome"),
    [
        (None, Outcome.OK),
        (Outcome.OK, Outcome.OK),
        (Outcome.GONE, Outcome.GONE),
        (Outcome.LOST, Outcome.LOST),
        ((Outcome.OK, Lease(QUEUE, "id", "receipt")), Outcome.OK),
        ((Outcome.LOST, None), Outcome.LOST),
    ],
)
def test_what_is_understood(result, outcome):
    assert outcome_of(result) is outcome


@pytest.mark.parametrize(
    ("request_", "call"),
    [
        (Enqueue(0, QUEUE, "text", 5, 60), calls.Put(QUEUE, "text", 5, 60)),
        (Enqueue(0, QUEUE, "text", 0, None), calls.Put(QUEUE, "text", 0, None)),
        (Enqueue(0, QUEUE, Large(b"text", True), 5, 60), None),
    ],
)
def test_a_row_is_put_as_it_says(request_, call):
    assert call_of(request_) == call


# ── what an error tells ───────────────────────────────────────────────────────────────────────────


class Queue:
    """A queue that refuses some texts."""

    def __init__(self, refused):
        self.refused = refused
        self.texts = []

    def put(self, text, delay_s, ttl_s):
        if text in self.refused:
            raise ServiceError(f"{text} is refused", status=400, code="Refused")
        self.texts.append(text)


def test_rows_that_were_answered_together_with_a_failure_are_counted(monkeypatch):
    queue = Queue({"2"})
    monkeypatch.setattr(sending, "AzureQueueClient", lambda account: OneByOne(lambda name: queue))
    made = sender("AccountName=acc;AccountKey=a2V5", sendParallelism="64")

    with pytest.raises(ServiceError, match=r"row 2 of.*2 is refused.*acknowledged: 9") as caught:
        send(made, [(str(n),) for n in range(10)])

    assert (caught.value.status, caught.value.code) == (400, "Refused")


def test_rows_that_are_answered_after_a_failure_are_counted(fake):
    # Given a bad row that is answered first, and others that are under way then
    fake.create_queue(QUEUE)
    fake.faults.add(Fault("put", "forbidden", nth=1))
    fake.faults.add(*(Fault("put", "slow", nth=n, seconds=0.2) for n in (2, 3, 4)))
    made = sender(fake.connection_string, sendParallelism="4")

    with pytest.raises(ServiceError) as caught:
        send(made, [(str(n),) for n in range(4)])

    assert f"acknowledged: {fake.count(QUEUE)} (a retry" in str(caught.value)
    assert fake.count(QUEUE) == 3


# ── the count itself ──────────────────────────────────────────────────────────────────────────────

ROW = Enqueue(0, QUEUE, "text", 0, None)
LEASED = Delete(0, Lease(QUEUE, "an-id", "receipt"))


def tally(on_stale=OnStaleReceipt.IGNORE):
    return Tally(Operation.DELETE, on_stale)


def test_no_rows_are_a_success():
    assert tally().total() == Sent()


@pytest.mark.parametrize("outcomes", [[], [Outcome.OK], [Outcome.GONE], [Outcome.OK] * 3])
def test_every_row_is_answered_once(outcomes):
    count = tally()
    for _ in range(2):
        count.begun()
    for outcome in outcomes:
        count.answered(LEASED, outcome)

    with pytest.raises(AzQueueError, match=f"2 rows .* and {len(outcomes)} answers"):
        count.total()


def test_done_and_stale_are_told_apart(caplog):
    count = tally()
    for outcome in (Outcome.OK, Outcome.GONE, Outcome.LOST, Outcome.OK, Outcome.GONE):
        count.begun()
        count.answered(LEASED, outcome)

    with caplog.at_level(logging.WARNING):
        assert count.total() == Sent(done=2, stale=3)
    assert "3 of 5 rows" in caplog.text


def test_only_some_of_many_stale_receipts_are_named(caplog):
    count = tally()
    for row in range(7):
        count.begun()
        count.answered(Delete(row, Lease(QUEUE, f"id-{row}", "receipt")), Outcome.GONE)

    assert count.total() == Sent(stale=7)
    assert "id-0, id-1, id-2, id-3, id-4:" in caplog.text


def test_a_stale_receipt_is_no_acknowledged_row():
    count = tally(OnStaleReceipt.FAIL)
    count.begun()

    with pytest.raises(StaleReceipt, match="an-id") as caught:
        count.answered(LEASED, Outcome.LOST)

    assert str(count.with_count(caught.value)).endswith("acknowledged: 0.")


# ── bounds ────────────────────────────────────────────────────────────────────────────────────────


class Watched:
    """Calls under way, answered one at a time; notes how many bytes were under way at most."""

    def __init__(self, answer):
        self._answer = answer
        self._under_way = []
        self.most = 0

    def __len__(self):
        return len(self._under_way)

    def begin(self, request, call, retry=None):
        self._under_way.append(request)
        self.most = max(self.most, sum(each.size for each in self._under_way))

    def ended(self, timeout_s=None):
        request = self._under_way.pop(0)
        return [(request, self._answer(request))]

    def close(self):
        pass


def test_bytes_count_again_when_a_row_is_sent_again_to_a_queue_that_was_created(monkeypatch):
    # Given rows of which so many are under way at most, all to queues that are to be created
    monkeypatch.setattr(sending, "LOOK_AHEAD_BYTES", 1_000)
    monkeypatch.setattr(sending, "create_queue", lambda account, name: True)
    answered = set()

    def answer(request):
        if request.row in answered:
            return None
        answered.add(request.row)
        return QueueNotFound("it is missing", status=404)

    made = sender("AccountName=acc;AccountKey=a2V5", createQueue="true", sendParallelism="64")
    watched = made._flight = Watched(answer)

    # When each is sent twice
    assert send(made, [("x" * 200,) for _ in range(100)]) == Sent(done=100)

    # Then never more than one row beyond the bound was under way, and in the end nothing is
    assert 1_000 < watched.most <= 1_200
    assert made._bytes_under_way == 0


def test_rows_under_way_are_bounded_by_number_too(monkeypatch):
    made = sender("AccountName=acc;AccountKey=a2V5", sendParallelism="3")
    watched = made._flight = Watched(lambda request: None)

    assert send(made, [("x",) for _ in range(20)]) == Sent(done=20)

    assert watched.most == 3
