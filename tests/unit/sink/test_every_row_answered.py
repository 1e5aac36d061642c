"""A task succeeds only if every row of it was answered; an error tells how many were."""

import asyncio

import pytest
from doubles import OneByOne
from refs import ORDERS
from senders import QUEUE, client_of, send, task

from spark_azqueue.errors import AzQueueError, QueueNotFound, ServiceError
from spark_azqueue.service.wire import http as session_module
from spark_azqueue.sink import large_bodies as performing
from spark_azqueue.testing import Fault

BLOBS = {
    "largeBody": "blob",
    "blobContainer": "bodies",
    "blobAccountUrl": "http://127.0.0.1:9/blobs",
}


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


@pytest.mark.parametrize("works", [0, 1, 9])
@pytest.mark.parametrize("parallelism", ["1", "4", "64"])
def test_an_error_of_the_credential_fails_the_task(fake, monkeypatch, works, parallelism):
    fake.create_queue(QUEUE)
    authority_for, error = session_module.authority_for, RuntimeError("the vault is closed")
    monkeypatch.setattr(
        session_module, "authority_for", lambda a, *_: SignsSome(authority_for(a), works, error)
    )
    made = task(fake.connection_string, parallelism=parallelism)

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
    made = task(fake.connection_string, **BLOBS)

    # Then nothing is sent, and nobody is told that it was
    with pytest.raises(type(error)) as caught:
        send(made, [("x" * 70_000,)])
    assert caught.value is error
    assert fake.count(QUEUE) == 0


def test_an_error_while_a_queue_is_created_fails_the_task(fake, monkeypatch):
    def create(ref):
        raise RuntimeError("the vault is closed")

    client = client_of(fake.connection_string)
    monkeypatch.setattr(client, "create", create)
    made = task(fake.connection_string, client, createQueue="true")

    with pytest.raises(RuntimeError, match="the vault is closed"):
        send(made, [("a",)])


def test_a_queue_that_is_missing_though_it_was_created_fails_the_task(fake, monkeypatch):
    asked = []
    client = client_of(fake.connection_string)
    monkeypatch.setattr(client, "create", asked.append)
    made = task(fake.connection_string, client, createQueue="true")

    with pytest.raises(QueueNotFound, match="row 0 of this task"):
        send(made, [("a",)])

    assert asked == [ORDERS]
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


@pytest.mark.parametrize("lost", [{3, 7}, {6, 7, 8, 9}], ids=["some", "the last ones"])
def test_a_row_whose_answer_was_lost_on_the_way_fails_the_task(fake, monkeypatch, lost):
    fake.create_queue(QUEUE)
    client = client_of(fake.connection_string)
    in_flight = client.in_flight
    monkeypatch.setattr(client, "in_flight", lambda: Broken(in_flight(), lost=lost))
    made = task(fake.connection_string, client, parallelism="4")
    came = 10 - len(lost)

    with pytest.raises(AzQueueError, match=f"10 rows of this task were sent, and {came} answers"):
        send(made, [(str(n),) for n in range(10)])


class Queue:
    """A queue that refuses some texts."""

    def __init__(self, refused):
        self.refused = refused
        self.texts = []

    def put(self, text, delay_s, ttl_s):
        if text in self.refused:
            raise ServiceError(f"{text} is refused", status=400, code="Refused")
        self.texts.append(text)


def test_rows_that_were_answered_together_with_a_failure_are_counted():
    queue = Queue({"2"})
    client = OneByOne(lambda ref: queue)
    made = task("AccountName=acc;AccountKey=a2V5", client, parallelism="64")

    with pytest.raises(ServiceError, match=r"row 2 of.*2 is refused.*acknowledged: 9") as caught:
        send(made, [(str(n),) for n in range(10)])

    assert (caught.value.status, caught.value.code) == (400, "Refused")


def test_rows_that_are_answered_after_a_failure_are_counted(fake):
    # Given a bad row that is answered first, and others that are under way then
    fake.create_queue(QUEUE)
    fake.faults.add(Fault("put", "forbidden", nth=1))
    fake.faults.add(*(Fault("put", "slow", nth=n, seconds=0.2) for n in (2, 3, 4)))
    made = task(fake.connection_string, parallelism="4")

    with pytest.raises(ServiceError) as caught:
        send(made, [(str(n),) for n in range(4)])

    assert f"acknowledged: {fake.count(QUEUE)} (a retry" in str(caught.value)
    assert fake.count(QUEUE) == 3
