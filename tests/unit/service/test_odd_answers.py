"""Answers that are not what the protocol says: each is one call's error, and short."""

import logging
import re
import time

import pycurl
import pytest
from refs import ORDERS, ref
from scripted import Scripted, answer

from spark_azqueue.errors import Outcome, ServiceError, ServiceUnavailable
from spark_azqueue.service.account import Account
from spark_azqueue.service.messages import Lease
from spark_azqueue.service.network import new_handle
from spark_azqueue.service.queues.calls import Count, Delete, Dequeue, Peek, Put, Update
from spark_azqueue.service.queues.client import Queue, QueueClient
from spark_azqueue.service.retry import RetryPolicy
from spark_azqueue.service.wire import http as wire

LEASE = Lease(ORDERS, "some-id", "receipt")
EMPTY = b"<QueueMessagesList/>"


def transport(server):
    return QueueClient(Account("acc", server.url, sas="sig=x"))


def result(*answers, call, retry=None):
    """What one call makes of these answers, one after another."""
    with Scripted(answers) as server:
        made = transport(server)
        with made.in_flight() as flight:
            flight.begin("a", call, retry)
            ((_, found),) = flight.ended()
        made.close()
    return found


def refused(code, *elements):
    parts = "".join(f"<{name}>{text}</{name}>" for name, text in (("Code", code), *elements))
    return answer("400 Bad Request", body=f"<?xml version='1.0'?><Error>{parts}</Error>".encode())


@pytest.mark.parametrize("call", [Delete(LEASE), Update(LEASE, 60)])
def test_only_an_answer_that_blames_the_receipt_says_that_it_is_dead(call):
    bad = "InvalidQueryParameterValue"
    by_receipt = result(refused(bad, ("QueryParameterName", "popreceipt")), call=call)
    by_another = result(refused(bad, ("QueryParameterName", "visibilitytimeout")), call=call)
    by_nothing = result(refused(bad), call=call)

    assert (by_receipt[0] if isinstance(call, Update) else by_receipt) is Outcome.LOST
    for error in (by_another, by_nothing):
        assert isinstance(error, ServiceError)
        assert error.outcome is Outcome.FATAL


# ── the service's time ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("call", [Dequeue(ORDERS, 1, 60), Peek(ORDERS, 1)])
@pytest.mark.parametrize(
    ("headers", "at"),
    [
        (["Date: Tue, 14 Nov 2023 22:13:20 GMT"], 1_700_000_000_000_000),
        (["Date: yesterday"], None),
        ([], None),
    ],
)
def test_a_page_tells_when_it_was_answered_if_the_answer_says(call, headers, at):
    assert result(answer("200 OK", *headers, body=EMPTY), call=call).answered_at == at


# ── pages ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_page_that_cannot_be_read_is_asked_for_again():
    unreadable = answer("200 OK", body=b"<QueueMessagesList><QueueMessage>")

    page = result(
        unreadable,
        answer("200 OK", body=EMPTY),
        call=Dequeue(ORDERS, 1, 60),
        retry=RetryPolicy(30.0),
    )

    assert page.received == ()


def test_whatever_the_reading_of_an_answer_raises_is_the_calls_error_alone():
    class Odd(Peek):
        def result(self, answer):
            raise KeyError("MessageId\x1b[31m" + "x" * 1000)

    class OddRefusal(Delete):
        def refused(self, error):
            raise OverflowError

    for call, first in (
        (Odd(ORDERS, 1), answer("200 OK", body=EMPTY)),
        (OddRefusal(LEASE), answer("404 x", "x-ms-error-code: MessageNotFound")),
    ):
        error = result(first, call=call)

        assert isinstance(error, ServiceUnavailable)
        assert error.outcome is Outcome.RETRY
        assert "queue 'orders' of account 'acc': the answer cannot be read" in str(error)
        assert "Error" in str(error)
        assert str(error).isprintable()
        assert len(str(error)) < 500


# ── headers ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("header", "pause"),
    [
        ("²", None),
        ("-5", None),
        ("1.5", None),
        ("", None),
        ("Tue, 99 Nov 2023 22:13:20 GMT", None),
        ("3", 3.0),
        ("Tue, 14 Nov 2023 22:13:20 GMT", 0.0),
        ("9" * 5000, 86_400.0),
    ],
)
def test_any_retry_after_is_a_pause_or_none(header, pause):
    error = result(answer("503 Busy", f"Retry-After: {header}"), call=Put(ORDERS, "a"))

    assert isinstance(error, ServiceUnavailable)
    assert error.retry_after == pause


@pytest.mark.parametrize("date", ["garbage", "²", "Tue, 31 Feb 2023 22:13:20 GMT", "-0000", ""])
@pytest.mark.parametrize("status", ["404 x", "204 x"])
def test_any_date_is_the_services_time_or_this_machines(date, status):
    before = time.time()
    with Scripted([answer(status, f"Date: {date}", "x-ms-error-code: MessageNotFound")]) as server:
        found = Queue(transport(server), ORDERS).check()

    assert before - 1 <= found.timestamp() <= time.time() + 1


@pytest.mark.parametrize("count", ["²", "-1", "", "1e3", "9" * 5000, "many"])
def test_a_count_that_is_none_is_an_error(count):
    error = result(
        answer("200 OK", f"x-ms-approximate-messages-count: {count}"), call=Count(ORDERS)
    )

    assert isinstance(error, ServiceUnavailable)
    assert "the answer holds no count" in str(error)


@pytest.mark.parametrize("headers", [[], ["x-ms-popreceipt: "], ['x-ms-popreceipt: a"b']])
def test_an_update_whose_answer_holds_no_receipt_leaves_no_lease(headers, caplog):
    with caplog.at_level(logging.WARNING, "spark_azqueue"):
        found = result(answer("204 x", *headers), call=Update(LEASE, 60))

    assert found == (Outcome.OK, None)
    assert "message some-id in queue 'orders' holds no pop receipt" in caplog.text


def test_only_the_headers_of_the_answer_itself_count():
    # An answer of kind 1xx comes first, and headers may come after the body.
    early = b"HTTP/1.1 103 Early Hints\r\nx-ms-popreceipt: early\r\nDate: early\r\n\r\n"
    late = (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: x\r\nConnection: close\r\n\r\n"
        b"1\r\na\r\n0\r\nx-ms-popreceipt: late\r\n\r\n"
    )

    assert result(early + answer("204 x"), call=Update(LEASE, 60)) == (Outcome.OK, None)
    assert result(late, call=Update(LEASE, 60)) == (Outcome.OK, None)


def test_the_headers_of_a_proxys_answer_to_connect_are_not_the_services(monkeypatch):
    # Given a proxy that opens a tunnel, and sends headers of the service's with its answer
    opened = b"HTTP/1.1 200 Opened\r\nx-ms-error-code: MessageNotFound\r\nRetry-After: 9\r\n\r\n"

    class Tunnel(Scripted):
        def serve_one(self, connection):
            connection.sendall(opened if connection.recv(65_536) else b"")
            super().serve_one(connection)

    def tunnelling(url):
        handle = new_handle(url)
        handle.setopt(pycurl.HTTPPROXYTUNNEL, 1)
        return handle

    monkeypatch.setattr(wire, "new_handle", tunnelling)
    with Tunnel([answer("404 x")]) as proxy:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.port}")
        monkeypatch.setenv("no_proxy", "")
        made = wire.Wire("http://acc.example")

        # When a request goes through it
        made.begin("a", "GET", "http://acc.example/orders?", {}, None)
        while not (found := made.ended(1.0)):
            pass
        made.close()

    # Then only those of the answer through the tunnel are there
    ((_, received),) = found
    assert received.status == 404
    assert received.headers.keys() == {"content-length", "connection"}


# ── size ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "head",
    [
        "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n",
    ],
)
def test_an_answer_that_is_too_large_is_broken_off(head):
    size = wire.MOST_BODY_BYTES + 2**20

    error = result(
        head.format(size).encode() + b" " * size,
        call=Dequeue(ORDERS, 1, 60),
        retry=RetryPolicy(30.0),
    )

    assert type(error) is ServiceError
    assert error.outcome is Outcome.FATAL
    assert "dequeue from queue 'orders' of account 'acc'" in str(error)
    assert "more than the 16,777,216 bytes asked for" in str(error)


def test_the_largest_page_of_the_service_is_not_too_large():
    one = (
        "<QueueMessage><MessageId>{:064}</MessageId><PopReceipt>{:0512}</PopReceipt><MessageText>"
        + "&quot;" * 65_536
        + "</MessageText></QueueMessage>"
    )
    inner = "".join(one.format(number, number) for number in range(32))
    body = f"<QueueMessagesList>{inner}</QueueMessagesList>".encode()

    page = result(answer("200 OK", body=body), call=Dequeue(ORDERS, 32, 60))

    assert [message.size for message, _ in page.received] == [65_536] * 32


@pytest.mark.parametrize(
    "head",
    [
        "HTTP/1.1 200 OK\r\n" + "x: {}\r\n".format("y" * 1_000) * 70,
        "HTTP/1.1 103 x\r\nx: {}\r\n\r\n".format("y" * 1_000) * 70,
    ],
)
def test_headers_that_are_too_large_are_broken_off(head):
    error = result(head.encode() + b"\r\n", call=Peek(ORDERS, 1))

    assert type(error) is ServiceError
    assert "headers are larger than 65,536 bytes" in str(error)


def test_after_an_answer_that_was_broken_off_the_next_one_is_read():
    large = answer("200 OK", f"x: {'y' * 70_000}", body=EMPTY)
    with Scripted([large, answer("200 OK", body=EMPTY)]) as server:
        orders = Queue(transport(server), ORDERS)

        with pytest.raises(ServiceError, match="larger"):
            orders.peek(1)

        assert orders.peek(1) == ()


# ── addresses ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("../x", "..%2Fx"),
        ("a?b", "a%3Fb"),
        ("a#b", "a%23b"),
        ("a%2e", "a%252e"),
        ("a b\r\nc", "a%20b%0D%0Ac"),
        ("é", "%C3%A9"),
        ("...a", "...a"),
    ],
)
def test_no_name_changes_the_path(name, written):
    with Scripted([answer("204 x"), answer("200 OK", body=EMPTY)]) as server:
        made = transport(server)
        made.now(Delete(Lease(ORDERS, name, "r&=?#")))
        made.now(Peek(ref(name), 1))

    assert server.targets == [
        f"/acc/orders/messages/{written}?popreceipt=r%26%3D%3F%23&sig=x",
        f"/acc/{written}/messages?numofmessages=1&peekonly=true&sig=x",
    ]


@pytest.mark.parametrize("name", ["..", ".", "...", ""])
@pytest.mark.parametrize("place", ["queue", "message"])
def test_a_name_of_dots_is_never_sent(name, place):
    call = Peek(ref(name), 1) if place == "queue" else Delete(Lease(ORDERS, name, "receipt"))
    with Scripted([answer("204 x")]) as server:
        with pytest.raises(ServiceError, match="would lead to another address; nothing was sent"):
            transport(server).now(call)

        assert server.heads == []


def test_a_path_is_sent_as_it_is():
    with Scripted([answer("200 OK", body=EMPTY)]) as server:
        made = wire.Wire(server.url)
        made.begin("a", "GET", f"{server.url}/a/../b/./c?", {}, None)
        while not made.ended(1.0):
            pass
        made.close()

    assert server.targets == ["/acc/a/../b/./c?"]


def test_a_redirect_is_told_and_not_followed():
    found = result(
        answer("307 Moved", "Location: https://portal.test/login?k=1"), call=Count(ORDERS)
    )

    assert "the answer is a redirect (HTTP 307) to 'portal.test'" in str(found)
    assert "k=1" not in str(found)


OUR_ID = re.compile(r"\(x-ms-client-request-id ([0-9a-f-]{36})\)$")


def test_an_error_has_the_id_by_which_the_service_knows_the_request():
    """Support asks for it first, and the account's logs are joined by it."""
    given = "2f9a2a3c-0001-0002-0003-04a5b6c7d8e9"
    found = result(answer("403 Forbidden", f"x-ms-request-id: {given}"), call=Count(ORDERS))

    assert found.request_id == given
    assert str(found).endswith(f"(x-ms-request-id {given})")


@pytest.mark.parametrize("given", ["<b>", "x" * 65, "a b", "\x1b[31m"])
def test_an_id_that_the_service_would_not_give_is_not_shown(given):
    found = result(answer("403 Forbidden", f"x-ms-request-id: {given}"), call=Count(ORDERS))

    assert found.request_id == ""
    assert "request-id" not in str(found)


def test_without_an_answer_it_is_our_own_id_of_the_newest_attempt():
    with Scripted([b"", b""]) as server:
        made = transport(server)
        with made.in_flight() as flight:
            flight.begin("a", Count(ORDERS))
            ((_, found),) = flight.ended()
        made.close()

    assert found.status is None
    shown = OUR_ID.search(str(found))
    assert shown
    assert shown[1] == found.request_id


def test_each_request_has_an_id_of_its_own():
    with Scripted([answer("500 Oops")] * 3) as server:
        made = transport(server)
        with made.in_flight() as flight:
            for tag in range(3):
                flight.begin(tag, Count(ORDERS))
            while len(flight):
                flight.ended()
        made.close()
        sent = [re.search(rb"x-ms-client-request-id: (\S{36})\r", head) for head in server.heads]

    assert len({found[1] for found in sent if found}) == 3
