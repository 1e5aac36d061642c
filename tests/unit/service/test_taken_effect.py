"""What a refused receipt means: stale, or used up by an attempt that may have taken effect."""

import socket
import threading

import pytest
from refs import ORDERS

from spark_azqueue.errors import (
    Outcome,
    QueueNotFound,
    ServiceError,
    ServiceUnavailable,
    may_have_taken_effect,
)
from spark_azqueue.service.account import Account
from spark_azqueue.service.answers import service_error
from spark_azqueue.service.incoming import Answer, NoAnswer
from spark_azqueue.service.messages import Lease
from spark_azqueue.service.queues.calls import DatedDelete, Delete, Deleted, Peek, Show
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.service.retry import RetryPolicy
from spark_azqueue.service.wire.http import Session
from spark_azqueue.sink.requests import DeleteRow, UpdateRow
from spark_azqueue.sink.tally import outcome_of

LEASE = Lease(ORDERS, "00000000-0000-0000-0000-000000000001", "AgAAAAMAAAAAAAAAAAAAAAAAAAA=")
PATIENT = RetryPolicy(60.0)


@pytest.mark.parametrize(
    ("status", "sent", "may"),
    [
        (None, True, True),
        (None, False, False),
        (408, True, True),
        (500, True, True),
        (502, True, True),
        (504, True, True),
        (200, True, True),  # it was done, but the answer could not be read
        (204, True, True),
        (429, True, False),
        (503, True, False),
        (301, True, False),
        (400, True, False),
        (401, True, False),
        (403, True, False),
        (404, True, False),
        (409, True, False),
        (413, True, False),
    ],
)
def test_what_may_have_taken_effect(status, sent, may):
    assert may_have_taken_effect(status, sent=sent) is may
    assert service_error("put", status=status, sent=sent).may_have_taken_effect is may


def test_an_error_after_an_attempt_in_doubt_is_in_doubt():
    error = service_error("put", status=503, code="ServerBusy")
    assert not error.may_have_taken_effect

    error.unanswered = True
    assert error.may_have_taken_effect


def answer(status, code="", *, repeated=False):
    head = f"x-ms-error-code: {code}".encode() if code else b""
    return Answer(status, head, b"", 0.0, repeated)


BUSY = answer(503, "ServerBusy")
THROTTLED = answer(429)
FAILED = answer(500, "OperationTimedOut")
STALE = answer(404, "MessageNotFound")
MISMATCH = answer(400, "PopReceiptMismatch")
SILENCE = NoAnswer("nothing came", untrusted=False)
UNSENT = NoAnswer("connection refused", untrusted=False, sent=False)


class Scripted:
    """A wire that gives these answers, one after another."""

    def __init__(self, answers):
        self.answers = list(answers)
        self._busy = []

    def __len__(self):
        return len(self._busy)

    def begin(self, tag, *request):
        self._busy.append(tag)

    def ended(self, timeout_s):
        return [(self._busy.pop(), self.answers.pop(0))] if self._busy else []

    def abandon(self):
        self._busy.clear()

    def close(self):
        assert self.answers == [], "every answer was asked for"


@pytest.fixture
def answered():
    """A transport whose requests get these answers, one after another."""
    made = []

    def answers(*given):
        account = Account("acc", "http://127.0.0.1:9/acc", key="a2V5")
        session = Session(account)
        session.keep(Scripted(given))
        transport = QueueClient(account, session)
        made.append(transport)
        return transport

    yield answers
    for transport in made:
        transport.close()


@pytest.mark.parametrize(
    ("answers", "outcome"),
    [
        ([STALE], Outcome.GONE),
        ([MISMATCH], Outcome.LOST),
        ([BUSY, STALE], Outcome.GONE),
        ([BUSY, BUSY, MISMATCH], Outcome.LOST),
        ([THROTTLED, STALE], Outcome.GONE),
        ([UNSENT, STALE], Outcome.GONE),
        ([SILENCE, STALE], Outcome.OK),
        ([FAILED, MISMATCH], Outcome.OK),
        ([answer(408), STALE], Outcome.OK),
        ([answer(502), STALE], Outcome.OK),
        ([answer(504), STALE], Outcome.OK),
        # A doubt stays, whatever comes between; and libcurl's own repetition is one.
        ([SILENCE, BUSY, STALE], Outcome.OK),
        ([BUSY, SILENCE, BUSY, STALE], Outcome.OK),
        ([answer(404, "MessageNotFound", repeated=True)], Outcome.OK),
        ([answer(503, "ServerBusy", repeated=True), STALE], Outcome.OK),
    ],
)
@pytest.mark.parametrize(
    "request_",
    [DeleteRow(LEASE, row=0), UpdateRow(LEASE, 0, "text", row=0)],
    ids=["delete", "update"],
)
def test_only_an_attempt_that_may_have_taken_effect_excuses_a_refusal(
    answered, request_, answers, outcome
):
    with answered(*answers).in_flight() as flight:
        flight.begin("tag", request_, PATIENT)
        ((_, result),) = flight.ended()

    assert outcome_of(result) is outcome


def failure(transport):
    with pytest.raises(ServiceUnavailable) as caught:
        transport.now(Peek(ORDERS, 1))
    return caught.value


def transport_to(port):
    return QueueClient(Account("acc", f"http://127.0.0.1:{port}/acc", key="a2V5"))


def test_a_connection_that_was_refused_sent_nothing():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

    assert not failure(transport_to(port)).may_have_taken_effect


def test_a_request_that_was_read_and_not_answered_was_sent():
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def read_and_close():
            connection, _ = listener.accept()
            connection.recv(65_536)
            connection.close()

        reader = threading.Thread(target=read_and_close)
        reader.start()
        assert failure(transport_to(listener.getsockname()[1])).may_have_taken_effect
        reader.join()


def test_a_request_sent_on_a_kept_connection_was_sent_though_the_next_one_was_refused():
    # Given a connection that is open, and a server that reads one more request and is gone
    with socket.create_server(("127.0.0.1", 0)) as listener:
        transport = transport_to(listener.getsockname()[1])

        def answer_once_and_leave():
            connection, _ = listener.accept()
            connection.recv(65_536)
            connection.sendall(b"HTTP/1.1 404 No\r\nx-ms-error-code: QueueNotFound\r\n")
            connection.sendall(b"Content-Length: 0\r\n\r\n")
            connection.recv(65_536)
            listener.close()
            connection.close()

        leaving = threading.Thread(target=answer_once_and_leave)
        leaving.start()
        with pytest.raises(QueueNotFound):
            transport.now(Peek(ORDERS, 1))

        # When libcurl sends the request again, and the new connection is refused
        error = failure(transport)
        leaving.join()

    # Then the error says "refused", but the first request may have taken effect
    assert error.may_have_taken_effect
    transport.close()


def test_an_untrusted_certificate_is_no_doubt(answered):
    untrusted = NoAnswer("self-signed", untrusted=True, sent=False)

    with pytest.raises(ServiceError, match="not trusted") as caught:
        answered(untrusted).now(Peek(ORDERS, 1))

    assert not caught.value.may_have_taken_effect


@pytest.mark.parametrize("unanswered", [False, True])
def test_a_refusal_after_an_attempt_without_an_answer_is_no_certain_one(unanswered):
    date = "Sun, 06 Nov 1994 08:49:37 GMT"
    error = ServiceError("not found", status=404, outcome=Outcome.GONE, date=date)
    error.unanswered = unanswered
    outcome = Outcome.PROBABLY if unanswered else Outcome.GONE

    assert Delete(LEASE).refused(error) is outcome
    assert DatedDelete(LEASE).refused(error) == Deleted(outcome, 784_111_777)
    assert Show(LEASE).refused(error) is outcome
