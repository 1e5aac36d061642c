"""Many calls under way in one thread: retries, pauses, proofs renewed, breaking off, proxies."""

import base64
import contextlib
import os
import socket
import threading
import time

import pytest
from refs import ORDERS

from spark_azqueue.errors import AccessDenied, Outcome, ServiceError, ServiceUnavailable
from spark_azqueue.options.account import read_account
from spark_azqueue.service.account import Account
from spark_azqueue.service.incoming import NoAnswer
from spark_azqueue.service.queues.calls import Dequeue, Peek, Put
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.service.retry import RetryPolicy
from spark_azqueue.service.wire import http as session_module
from spark_azqueue.service.wire.http import Wire
from spark_azqueue.testing import Fault

SOON = 10.0


@pytest.fixture
def flight(client):
    made = client.in_flight()
    yield made
    made.close()


def everything(flight):
    results = {}
    while len(flight):
        results.update(flight.ended())
    return results


def test_each_result_comes_with_its_tag(fake, flight):
    for number in range(200):
        flight.begin(number, Put(ORDERS, str(number)))
    assert len(flight) == 200

    assert everything(flight) == dict.fromkeys(range(200))

    assert sorted(m.text for m in fake.messages("orders")) == sorted(map(str, range(200)))


def test_a_slow_one_keeps_nobody_waiting(fake, flight):
    fake.faults.add(Fault("dequeue", "slow", seconds=5.0))

    flight.begin("slow", Dequeue(ORDERS, 1, 60))
    flight.begin("quick", Put(ORDERS, "a"))

    assert flight.ended() == [("quick", None)]
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


def test_a_proof_that_was_not_believed_is_renewed_once(fake, flight):
    fake.faults.add(Fault("put", "unauthorized", times=1))

    flight.begin("a", Put(ORDERS, "a"))

    assert flight.ended() == [("a", None)]
    fake.faults.add(Fault("put", "unauthorized", times=2))
    flight.begin("b", Put(ORDERS, "b"))
    ((_, error),) = flight.ended()
    assert isinstance(error, AccessDenied)


def test_an_error_of_the_credential_is_the_calls_result(monkeypatch):
    class Broken:
        def sign(self, queue, url, headers):
            raise RuntimeError("the vault is closed")

    monkeypatch.setattr(session_module, "authority_for", lambda *_: Broken())
    made = QueueClient(Account("acc", "http://127.0.0.1:9/acc", key="a2V5"))
    with made.in_flight() as flight:
        flight.begin("a", Put(ORDERS, "a"), RetryPolicy(30.0))
        ((_, error),) = flight.ended()

    assert isinstance(error, RuntimeError)


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


def test_an_interrupted_wait_is_no_error(fake, flight):
    # A signal that Python handles ends libcurl's wait.
    import signal

    fake.faults.add(Fault("dequeue", "slow", seconds=0.5))
    before = signal.signal(signal.SIGUSR1, lambda number, frame: None)
    try:
        flight.begin("slow", Dequeue(ORDERS, 1, 60))
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        ((tag, page),) = flight.ended()
    finally:
        signal.signal(signal.SIGUSR1, before)

    assert (tag, page.received) == ("slow", ())


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


def test_an_address_that_is_excepted_goes_past_the_proxy(fake, proxy, client):
    fake.put("orders", "a")

    assert [m.text for m in client.queue(ORDERS).peek(1)] == ["a"]

    assert proxy == []


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


def test_a_request_without_an_answer_is_unavailable():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    transport = QueueClient(Account("acc", f"http://127.0.0.1:{port}/acc", key="a2V5"))
    started = time.monotonic()

    with pytest.raises(ServiceUnavailable, match="no answer"):
        transport.now(Peek(ORDERS, 1))

    assert time.monotonic() - started < SOON
