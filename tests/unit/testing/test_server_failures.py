"""What the fake service itself does wrong is answered, logged, and seen by the test."""

import logging
import re
import socket

import pytest
from fake_calls import caller, port_of, refusal
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from urllib3 import PoolManager

from spark_azqueue.testing import FakeQueueService, Refusal, model

INTERNAL_ERROR = (500, "InternalError")


@pytest.fixture
def broken(monkeypatch):
    """Peeking fails as only a mistake in the fake can make it."""

    def fail(queue, *, now, count=1):
        raise ZeroDivisionError("a mistake of the fake")

    monkeypatch.setattr(model.ModelQueue, "peek", fail)


@pytest.mark.usefixtures("broken")
def test_a_mistake_is_answered_and_logged(call, service, caplog):
    with caplog.at_level(logging.ERROR):
        reply = call("GET", "/orders/messages?peekonly=true")

    assert refusal(reply) == INTERNAL_ERROR
    assert service.log[-1] == ("peek", "orders", "", 500)
    assert service.statuses == {("peek", 500): 1}
    assert [type(problem) for problem in service.failures] == [ZeroDivisionError]
    assert "a mistake of the fake" in caplog.text
    assert call("GET", "/orders/messages").status == 200  # the next one is served
    service.reset_counters()
    assert service.failures == []


@pytest.mark.usefixtures("broken")
def test_a_test_that_did_not_look_fails_all_the_same():
    made = FakeQueueService()
    made.create_queue("orders")
    with (
        pytest.raises(RuntimeError, match="failed at 1 requests") as caught,
        made as service,
        PoolManager(retries=False) as pool,
    ):
        caller(service, pool)("GET", "/orders/messages?peekonly=true")
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


@pytest.mark.usefixtures("broken")
def test_the_failure_of_the_test_itself_goes_before():
    def a_test():
        with FakeQueueService() as service, PoolManager(retries=False) as pool:
            caller(service, pool)("GET", "/orders/messages?peekonly=true")
            raise KeyError

    with pytest.raises(KeyError):
        a_test()


@pytest.mark.parametrize("value", ["\u65e5\u672c", "a\r\nx: y", "\x00"])
def test_metadata_that_no_header_can_hold_is_refused(service, value):
    with pytest.raises(Refusal, match="InvalidMetadata"):
        service.set_metadata("orders", {"note": value})


def test_refusals_are_no_mistakes(call, service):
    for path in ("/nowhere/messages", "/orders/messages?numofmessages=x", "/NO/messages"):
        assert call("GET", path).status in (400, 404)
    assert service.failures == []


_PARTS = st.one_of(
    st.sampled_from(["orders", "messages", "x", "", "..", "%2e%2e", "%", "%zz", "%ff", "%00"]),
    st.text(
        st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="/?"), max_size=9
    ),
)
_METHODS = ["GET", "PUT", "POST", "DELETE", "HEAD", "PATCH", "x"]
_OF_MESSAGES = st.tuples(st.sampled_from(["GET", "POST"]), st.just(["orders", "messages"]))
_REQUESTS = st.one_of(
    _OF_MESSAGES, st.tuples(st.sampled_from(_METHODS), st.lists(_PARTS, max_size=4))
)
_NUMBERS = ["numofmessages", "visibilitytimeout", "messagettl", "maxresults"]
_WORDS = ["comp", "popreceipt", "peekonly", "prefix", "marker", "include", "api-version"]
_OF_A_SAS = ["sv", "sp", "se", "st", "sip", "spr", "sig", "ss", "srt", "ses", "si"]
_NAMES = st.one_of(*map(st.sampled_from, (_NUMBERS, _WORDS, _OF_A_SAS)))
_VALUES = st.one_of(
    st.sampled_from(["list", "metadata", "true", "1", "0", "-1", "%C3%A9", "%FF", "=", "+"]),
    st.text(
        st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="&#"), max_size=9
    ),
)
_PAIRS = st.one_of(
    st.tuples(st.sampled_from(_NUMBERS), st.sampled_from(["1", "-1", "x", "9" * 5000])),
    st.tuples(_NAMES, _VALUES),
)
_HEADERS = st.sampled_from(
    [
        "Authorization",
        "x-ms-date",
        "Date",
        "x-ms-version",
        "x-ms-meta-a",
        "x-ms-meta-\xe9",
        "Expect",
    ]
)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    request_line=_REQUESTS,
    query=st.lists(_PAIRS, max_size=4),
    headers=st.lists(st.tuples(_HEADERS, _VALUES), max_size=4),
    body=st.one_of(
        st.just(b"<QueueMessage><MessageText>x</MessageText></QueueMessage>"),
        st.binary(max_size=99),
    ),
    signed=st.booleans(),
)
@example(("GET", ["orders", "messages"]), [("numofmessages", "9" * 5000)], [], b"", True)
def test_every_request_is_answered(service, request_line, query, headers, body, signed):
    method, path = request_line
    pairs = "&".join([f"{name}={value}" for name, value in query] + [service.sas()] * signed)
    lines = [f"{method} {'/'.join(['/fakeaccount', *path])}?{pairs} HTTP/1.1", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in headers] + [f"Content-Length: {len(body)}"]
    with socket.create_connection(("127.0.0.1", port_of(service)), timeout=10) as connection:
        connection.sendall("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
        received = b""
        while piece := connection.recv(65_536):
            received += piece
    assert re.match(rb"(HTTP/1.1 100 Continue\r\n\r\n)?HTTP/1.1 [24]\d\d ", received)
    assert service.failures == []
