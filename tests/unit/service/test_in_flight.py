"""Many calls under way in one thread: retries, pauses, proofs renewed, breaking off, proxies."""

import base64
import contextlib
import socket
import threading

import pytest
from refs import ORDERS

from spark_azqueue.errors import AccessDenied, Outcome, ServiceError, ServiceUnavailable
from spark_azqueue.options.account import read_account
from spark_azqueue.service.account import Account
from spark_azqueue.service.incoming import NoAnswer
from spark_azqueue.service.queues.calls import Dequeue, Peek, Put
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.service.queues.http import Wire
from spark_azqueue.service.retry import RetryPolicy
from spark_azqueue.testing import Fault

SOON = 10.0


@pytest.fixture
def flight(client):
    made = client.in_flight()
    yield made
    made.close()


def test_a_slow_one_keeps_nobody_waiting(fake, flight):
    fake.faults.add(Fault("dequeue", "slow", seconds=5.0))

    flight.begin("slow", Dequeue(ORDERS, 1, 60))
    flight.begin("quick", Put(ORDERS, "a"))

    assert flight.ended() == [("quick", None)]
    assert len(flight) == 1


def test_waiting_ends_when_the_time_is_up(fake, flight):
    fake.faults.add(Fault("dequeue", "slow", seconds=5.0))
    flight.begin("slow", Dequeue(ORDERS, 1, 60))

    assert flight.ended(0.05) == []
    assert len(flight) == 1


def test_one_that_pauses_before_its_retry_keeps_nobody_waiting(fake, flight):
    # Given a call whose answer asks for a pause
    fake.faults.add(Fault("put", "busy_503", times=1, seconds=2))
    flight.begin("busy", Put(ORDERS, "a"), RetryPolicy(30.0))
    while not fake.requests["put"]:
        assert flight.ended(0.05) == []

    # When another one begins meanwhile
    flight.begin("other", Put(ORDERS, "b"), RetryPolicy(30.0))

    # Then it ends first, and the pausing one succeeds after it
    assert flight.ended() == [("other", None)]
    assert len(flight) == 1
    assert flight.ended() == [("busy", None)]


def test_retries_that_are_used_up_give_the_last_error(fake, flight):
    fake.faults.add(Fault("put", "busy_503", seconds=0))

    flight.begin("a", Put(ORDERS, "a"), RetryPolicy(0.3))
    ((_, error),) = flight.ended()

    assert isinstance(error, ServiceUnavailable)
    assert fake.requests["put"] >= 2


def test_what_no_retry_helps_is_told_at_once(fake, flight):
    fake.permissions = "rup"

    flight.begin("a", Put(ORDERS, "a"), RetryPolicy(30.0))
    ((_, error),) = flight.ended()

    assert isinstance(error, AccessDenied)
    assert fake.requests["put"] == 1


def test_a_proof_that_was_not_believed_is_renewed_once(fake, flight):
    fake.faults.add(Fault("put", "unauthorized", times=1))

    flight.begin("a", Put(ORDERS, "a"))

    assert flight.ended() == [("a", None)]
    fake.faults.add(Fault("put", "unauthorized", times=2))
    flight.begin("b", Put(ORDERS, "b"))
    ((_, error),) = flight.ended()
    assert isinstance(error, AccessDenied)


def test_what_is_broken_off_is_forgotten_and_the_connections_serve_others(fake, client):
    fake.faults.add(Fault("dequeue", "slow", seconds=5.0))
    first = client.in_flight()
    first.begin("slow", Dequeue(ORDERS, 1, 60))
    first.ended(0.05)
    first.close()

    assert len(first) == 0
    second = client.in_flight()
    second.begin("a", Put(ORDERS, "a"))
    assert second.ended() == [("a", None)]
    second.close()


# ── where there is no service ─────────────────────────────────────────────────────────────────────


@pytest.fixture
def proxy(monkeypatch):
    """A proxy that answers by itself; its address in the environment, requests in `seen`."""
    listener = socket.create_server(("127.0.0.1", 0))
    seen = []

    def answer():
        connection, _ = listener.accept()
        with connection:
            seen.append(connection.recv(65_536).decode())
            body = b"<QueueMessagesList/>"
            head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n"
            connection.sendall(head.encode() + body)

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    address = f"http://me:pass%20word@127.0.0.1:{listener.getsockname()[1]}"
    monkeypatch.setenv("http_proxy", address)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    yield seen
    with contextlib.suppress(OSError):  # the thread may still wait for somebody
        socket.create_connection(listener.getsockname(), timeout=1).close()
    thread.join(SOON)
    listener.close()


def test_a_proxy_is_taken_from_the_environment(proxy):
    client = QueueClient(
        read_account({"accountUrl": "http://acc.example", "sasToken": "sig=x"}, {})
    )

    assert client.queue(ORDERS).peek(1) == ()

    assert proxy[0].startswith("GET http://acc.example/orders/messages?")
    login = base64.b64encode(b"me:pass word").decode()
    assert f"Proxy-Authorization: Basic {login}" in proxy[0]
    client.close()


def test_an_untrusted_certificate_is_told_with_what_to_do_and_not_retried(monkeypatch):
    transport = QueueClient(Account("acc", "https://acc.example", key="a2V5"))
    answers = [NoAnswer("self-signed certificate", untrusted=True)]
    monkeypatch.setattr(Wire, "begin", lambda self, tag, *rest: self._busy.update({tag.tag: tag}))
    monkeypatch.setattr(
        Wire, "ended", lambda self, s: [(self._busy.pop("a"), answers.pop())] if answers else []
    )
    with transport.in_flight() as flight:
        flight.begin("a", Peek(ORDERS, 1), RetryPolicy(30.0))
        ((_, error),) = flight.ended()

    assert type(error) is ServiceError
    assert error.outcome is Outcome.FATAL
    assert "REQUESTS_CA_BUNDLE" in str(error)
