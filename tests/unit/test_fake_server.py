"""The fake service over HTTP: the REST subset, faults, permissions, the SDK's own client."""

import re
import signal
import socket
import subprocess
import sys
import threading
import time
from email.utils import parsedate_to_datetime
from urllib.parse import quote
from xml.etree import ElementTree

import pytest
import urllib3
from azure.core.exceptions import (
    ClientAuthenticationError,
    DecodeError,
    HttpResponseError,
    ResourceExistsError,
    ResourceNotFoundError,
)
from azure.storage.queue import QueueClient, QueueServiceClient

from spark_azqueue.testing import FakeClock, FakeQueueService, Fault, FaultScript, ServiceError

NOW = 1_700_000_000.75
VERSION = "2021-12-02"


@pytest.fixture
def service():
    with FakeQueueService(FakeClock(NOW, frozen=True)) as running:
        running.create_queue("orders")
        yield running


@pytest.fixture
def call(service):
    """One request, `call(method, path below the account, body)`; never repeated on failure."""
    with urllib3.PoolManager(retries=False, timeout=10) as pool:

        def send(method, path, body=None, headers=None):
            given = {"Authorization": "SharedKey a:b"} if headers is None else headers
            return pool.request(method, service.url + path, body=body, headers=given)

        yield send


@pytest.fixture
def client(service):
    with QueueClient.from_connection_string(
        service.connection_string, "orders", api_version=VERSION, retry_total=0
    ) as made:
        yield made


def message_xml(text):
    return f"<QueueMessage><MessageText>{text}</MessageText></QueueMessage>".encode()


def page(reply):
    """The messages of a reply as dictionaries."""
    root = ElementTree.fromstring(reply.data.decode("utf-8-sig"))
    return [{field.tag: field.text for field in message} for message in root]


def address(message):
    return f"/orders/messages/{message['MessageId']}?popreceipt={quote(message['PopReceipt'], '')}"


def auth(headers):
    return {"Authorization": "SharedKey a:b", **headers}


def port_of(service):
    return urllib3.util.parse_url(service.url).port


def lease(call, count=1, visibility=30):
    return page(
        call("GET", f"/orders/messages?numofmessages={count}&visibilitytimeout={visibility}")
    )


class TestRest:
    def test_put(self, call, service):
        reply = call(
            "POST", "/orders/messages?visibilitytimeout=5&messagettl=60", message_xml("a&lt;b")
        )
        assert reply.status == 201
        assert reply.data.startswith(b'\xef\xbb\xbf<?xml version="1.0" encoding="utf-8"?>')
        [stored] = service.messages("orders")
        assert page(reply) == [
            {
                "MessageId": stored.id,
                "InsertionTime": "Tue, 14 Nov 2023 22:13:20 GMT",
                "ExpirationTime": "Tue, 14 Nov 2023 22:14:20 GMT",
                "PopReceipt": stored.receipt,
                "TimeNextVisible": "Tue, 14 Nov 2023 22:13:25 GMT",
            }
        ]
        assert stored.text == "a<b"
        assert stored.next_visible == NOW + 5

    def test_dequeue(self, call, service):
        service.put("orders", "\r\n<&>é", ttl=-1)
        reply = call("GET", "/orders/messages?visibilitytimeout=60")
        assert reply.status == 200
        assert b"<MessageText>&#xD;\n&lt;&amp;&gt;\xc3\xa9</MessageText>" in reply.data
        [stored] = service.messages("orders")
        assert page(reply) == [
            {
                "MessageId": stored.id,
                "InsertionTime": "Tue, 14 Nov 2023 22:13:20 GMT",
                "ExpirationTime": "Fri, 31 Dec 9999 23:59:59 GMT",
                "PopReceipt": stored.receipt,
                "TimeNextVisible": "Tue, 14 Nov 2023 22:14:20 GMT",
                "DequeueCount": "1",
                "MessageText": "\r\n<&>é",
            }
        ]

    def test_defaults_of_dequeue_are_one_message_for_30_seconds(self, call, service):
        service.put_many("orders", ["a", "b"])
        [message] = page(call("GET", "/orders/messages"))
        assert message["MessageText"] == "a"
        assert service.messages("orders")[0].next_visible == NOW + 30

    def test_empty_page(self, call):
        reply = call("GET", "/orders/messages?numofmessages=32")
        assert reply.status == 200
        assert reply.data == (
            b'\xef\xbb\xbf<?xml version="1.0" encoding="utf-8"?><QueueMessagesList />'
        )

    def test_peek(self, call, service):
        service.put("orders", "x")
        for _ in range(2):
            [message] = page(call("GET", "/orders/messages?peekonly=true&numofmessages=32"))
            assert set(message) == {
                "MessageId",
                "InsertionTime",
                "ExpirationTime",
                "DequeueCount",
                "MessageText",
            }
            assert message["DequeueCount"] == "0"
        assert service.requests["peek"] == 2

    def test_update_and_delete(self, call, service):
        service.put("orders", "x")
        [leased] = lease(call)
        reply = call("PUT", address(leased) + "&visibilitytimeout=90", message_xml("y"))
        assert (reply.status, reply.data) == (204, b"")
        assert reply.headers["x-ms-time-next-visible"] == "Tue, 14 Nov 2023 22:14:50 GMT"
        stale = call("DELETE", address(leased))
        assert (stale.status, stale.headers["x-ms-error-code"]) == (404, "MessageNotFound")
        renewed = {**leased, "PopReceipt": reply.headers["x-ms-popreceipt"]}
        assert service.messages("orders")[0].text == "y"
        assert call("PUT", address(renewed) + "&visibilitytimeout=0").status == 204
        assert service.messages("orders")[0].text == "y"
        [again] = lease(call)
        assert again["DequeueCount"] == "2"
        assert call("DELETE", address(again)).status == 204
        assert call("DELETE", address(again)).status == 404
        assert service.count("orders") == 0

    def test_a_receipt_that_was_not_escaped_is_a_bad_request(self, call, service):
        service.put("orders", "x")
        [leased] = lease(call)
        raw = f"/orders/messages/{leased['MessageId']}?popreceipt={leased['PopReceipt']}"
        reply = call("DELETE", raw)
        assert (reply.status, reply.headers["x-ms-error-code"]) == (
            400,
            "InvalidQueryParameterValue",
        )

    def test_clear(self, call, service):
        service.put_many("orders", ["a", "b"])
        assert call("DELETE", "/orders/messages").status == 204
        assert service.count("orders") == 0

    def test_queue_life(self, call, service):
        assert call("PUT", "/other", headers=auth({"x-ms-meta-Owner": "me"})).status == 201
        assert call("PUT", "/other", headers=auth({"x-ms-meta-Owner": "me"})).status == 204
        conflict = call("PUT", "/other")
        assert (conflict.status, conflict.headers["x-ms-error-code"]) == (409, "QueueAlreadyExists")
        service.put_many("other", ["a", "b"])
        for method in ("GET", "HEAD"):
            reply = call(method, "/other?comp=metadata")
            assert (reply.status, reply.data) == (200, b"")
            assert reply.headers["x-ms-approximate-messages-count"] == "2"
            assert reply.headers["x-ms-meta-owner"] == "me"
        assert call("PUT", "/other?comp=metadata", headers=auth({"x-ms-meta-a": "b"})).status == 204
        assert "x-ms-meta-owner" not in call("HEAD", "/other?comp=metadata").headers
        assert call("DELETE", "/other").status == 204
        assert call("HEAD", "/other?comp=metadata").status == 404

    def test_list(self, call, service):
        for name in ("aaa", "aab", "abc"):
            service.create_queue(name)
        first = call("GET", "?comp=list&prefix=a&maxresults=2")
        assert re.findall(rb"<Name>(\w+)</Name>", first.data) == [b"aaa", b"aab"]
        assert b"<NextMarker>abc</NextMarker>" in first.data
        second = call("GET", "/?comp=list&prefix=a&maxresults=2&marker=abc")
        assert re.findall(rb"<Name>(\w+)</Name>", second.data) == [b"abc"]
        assert b"<NextMarker></NextMarker>" in second.data

    @pytest.mark.parametrize(
        ("method", "path", "body", "status", "code"),
        [
            ("GET", "/nowhere/messages", None, 404, "QueueNotFound"),
            ("POST", "/nowhere/messages", message_xml("x"), 404, "QueueNotFound"),
            ("GET", "/nowhere/messages?peekonly=true", None, 404, "QueueNotFound"),
            ("DELETE", "/nowhere/messages", None, 404, "QueueNotFound"),
            ("DELETE", "/nowhere", None, 404, "QueueNotFound"),
            ("DELETE", "/nowhere/messages/x?popreceipt=AAAA", None, 404, "QueueNotFound"),
            ("GET", "/nowhere?comp=metadata", None, 404, "QueueNotFound"),
            ("PUT", "/NoWhere", None, 400, "InvalidResourceName"),
            ("GET", "/orders/messages?numofmessages=33", None, 400,
             "OutOfRangeQueryParameterValue"),
            ("GET", "/orders/messages?numofmessages=x", None, 400, "InvalidQueryParameterValue"),
            ("GET", "/orders/messages?visibilitytimeout=0", None, 400,
             "OutOfRangeQueryParameterValue"),
            ("POST", "/orders/messages?messagettl=0", message_xml("x"), 400,
             "InvalidQueryParameterValue"),
            ("POST", "/orders/messages", b"<QueueMessage>", 400, "InvalidXmlDocument"),
            ("POST", "/orders/messages", b"", 400, "InvalidXmlDocument"),
            ("POST", "/orders/messages", b"<QueueMessage />", 400, "InvalidXmlDocument"),
            ("POST", "/orders/messages", message_xml("\x01"), 400, "InvalidXmlDocument"),
            ("POST", "/orders/messages", message_xml("&#1;"), 400, "InvalidXmlDocument"),
            ("POST", "/orders/messages", message_xml("\uffff"), 400, "InvalidXmlDocument"),
            ("POST", "/orders/messages", message_xml("<b/>"), 400, "InvalidXmlDocument"),
            ("POST", "/orders/messages", message_xml("x" * 65_537), 413, "RequestBodyTooLarge"),
            ("DELETE", "/orders/messages/x", None, 400, "MissingRequiredQueryParameter"),
            ("PUT", "/orders/messages/x?popreceipt=AAAA", None, 400,
             "MissingRequiredQueryParameter"),
            ("DELETE", "/orders/messages/x?popreceipt=AAAA", None, 404, "MessageNotFound"),
            ("DELETE", "/orders/messages/x?popreceipt=invalid", None, 400,
             "InvalidQueryParameterValue"),
            ("PATCH", "/orders/messages", None, 405, "UnsupportedHttpVerb"),
            ("GET", "/orders/messages/a/b", None, 405, "UnsupportedHttpVerb"),
        ],
    )  # fmt: skip
    def test_refusals(self, call, service, method, path, body, status, code):
        reply = call(method, path, body)
        assert (reply.status, reply.headers["x-ms-error-code"]) == (status, code)
        root = ElementTree.fromstring(reply.data.decode("utf-8-sig"))
        assert (root.tag, root.findtext("Code")) == ("Error", code)
        assert f"RequestId:{reply.headers['x-ms-request-id']}" in root.findtext("Message")
        assert service.count("orders") == 0

    def test_another_account_is_not_here(self, service):
        reply = urllib3.request("GET", service.url + "2/orders/messages", retries=False)
        assert (reply.status, reply.headers["x-ms-error-code"]) == (404, "ResourceNotFound")

    def test_65536_ampersands_fit(self, call, service):
        assert call("POST", "/orders/messages", message_xml("&amp;" * 65_536)).status == 201
        assert service.messages("orders")[0].text == "&" * 65_536
        assert lease(call)[0]["MessageText"] == "&" * 65_536

    def test_cr_is_lost_in_the_request_unless_escaped(self, call, service):
        call("POST", "/orders/messages", message_xml("a\r\nb\rc"))
        call("POST", "/orders/messages", message_xml("a&#xD;b"))
        assert [m.text for m in service.messages("orders")] == ["a\nb\nc", "a\rb"]
        assert lease(call, 2)[1]["MessageText"] == "a\rb"

    def test_headers_of_every_reply(self, call, service):
        for path in ("/orders/messages", "/nowhere/messages"):
            reply = call("GET", path, headers=auth({"x-ms-client-request-id": "me-1"}))
            assert reply.headers["Date"] == "Tue, 14 Nov 2023 22:13:20 GMT"
            assert reply.headers["x-ms-version"] == VERSION
            assert reply.headers["x-ms-client-request-id"] == "me-1"
            assert len(reply.headers["x-ms-request-id"]) == 36
        service.clock.advance(0.25)
        assert call("GET", "/orders/messages").headers["Date"] == "Tue, 14 Nov 2023 22:13:21 GMT"

    def test_moving_the_clock_ends_leases(self, call, service):
        service.put("orders", "x")
        assert len(lease(call, visibility=3600)) == 1
        assert lease(call) == []
        service.clock.advance(3600)
        assert lease(call)[0]["DequeueCount"] == "2"


class TestConnections:
    def exchange(self, service, *pieces):
        """Send bytes in pieces, say no more, and read until the server closes."""
        with socket.create_connection(("127.0.0.1", port_of(service)), timeout=10) as connection:
            for piece in pieces:
                connection.sendall(piece)
            received = b""
            while piece := connection.recv(65_536):
                received += piece
        return received

    def request(self, method, path, body=b"", extra=b""):
        head = f"{method} /fakeaccount{path} HTTP/1.1\r\nHost: x\r\nAuthorization: a\r\n"
        length = f"Content-Length: {len(body)}\r\n"
        return b"".join((head.encode(), length.encode(), extra, b"\r\n", body))

    def test_pipelined_requests_are_answered_in_order(self, service):
        received = self.exchange(
            service,
            self.request("POST", "/orders/messages", message_xml("a"))
            + self.request("HEAD", "/orders?comp=metadata")
            + self.request("GET", "/orders/messages")
            + self.request("GET", "/nowhere/messages", extra=b"Connection: close\r\n")
            + self.request("GET", "/orders/messages"),
        )
        assert re.findall(rb"HTTP/1.1 (\d+)", received) == [b"201", b"200", b"200", b"404"]
        assert service.requests["dequeue"] == 2

    def test_a_slow_answer_keeps_the_order_of_its_connection(self, service):
        service.faults.add(Fault("put", "slow", nth=1, seconds=0.05))
        received = self.exchange(
            service,
            self.request("POST", "/orders/messages", message_xml("a"))
            + self.request("GET", "/orders/messages", extra=b"Connection: close\r\n"),
        )
        assert re.findall(rb"HTTP/1.1 (\d+)", received) == [b"201", b"200"]

    def test_requests_in_pieces(self, service):
        whole = self.request(
            "POST", "/orders/messages", message_xml("a"), extra=b"Connection: close\r\n"
        )
        received = self.exchange(service, *(whole[n : n + 1] for n in range(len(whole))))
        assert received.startswith(b"HTTP/1.1 201 ")
        assert service.count("orders") == 1

    def test_expect_continue(self, service):
        whole = self.request(
            "POST",
            "/orders/messages",
            message_xml("a"),
            extra=b"Connection: close\r\nExpect: 100-continue\r\n",
        )
        assert re.findall(rb"HTTP/1.1 (\d+)", self.exchange(service, whole)) == [b"100", b"201"]

    @pytest.mark.parametrize(
        ("request_bytes", "status"),
        [
            (b"nonsense\r\n\r\n", b"400"),
            (b"GET / HTTP/1.0\r\n\r\n", b"400"),
            (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", b"400"),
            (b"PUT / HTTP/1.1\r\nContent-Length: x\r\n\r\n", b"400"),
            (b"PUT /fakeaccount/orders HTTP/1.1\r\n\r\n", b"411"),
            (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", b"411"),
            (b"x" * 70_000, b"431"),
        ],
    )
    def test_unreadable_requests_end_the_connection(self, service, request_bytes, status):
        received = self.exchange(service, request_bytes)
        assert received.startswith(b"HTTP/1.1 " + status)
        assert service.requests.total() == 0

    def test_answers_are_chunked_as_the_services_are(self, service):
        received = self.exchange(
            service, self.request("GET", "/orders/messages", extra=b"Connection: close\r\n")
        )
        assert b"\r\nTransfer-Encoding: chunked\r\n" in received
        assert received.endswith(b"\r\n0\r\n\r\n")


class TestAccess:
    def test_without_credentials(self, call):
        reply = call("GET", "/orders/messages", headers={})
        assert (reply.status, reply.headers["x-ms-error-code"]) == (403, "AuthenticationFailed")

    def test_a_signature_in_the_address_will_do(self, call):
        assert call("GET", "/orders/messages?sv=x&sig=abc", headers={}).status == 200

    def test_revoked(self, call, service):
        service.revoked = True
        reply = call("GET", "/orders/messages")
        assert (reply.status, reply.headers["x-ms-error-code"]) == (403, "AuthenticationFailed")
        service.revoked = False
        assert call("GET", "/orders/messages").status == 200

    @pytest.mark.parametrize(
        ("letter", "method", "path", "body", "status"),
        [
            ("r", "GET", "/orders/messages?peekonly=true", None, 200),
            ("r", "GET", "/orders?comp=metadata", None, 200),
            ("a", "POST", "/orders/messages", message_xml("x"), 201),
            ("u", "PUT", "/orders/messages/x?popreceipt=AAAA&visibilitytimeout=0", None, 404),
            ("p", "GET", "/orders/messages", None, 200),
            ("p", "DELETE", "/orders/messages/x?popreceipt=AAAA", None, 404),
            ("c", "PUT", "/other", None, 201),
            ("w", "PUT", "/other", None, 201),
            ("w", "PUT", "/orders?comp=metadata", None, 204),
            ("d", "DELETE", "/orders", None, 204),
            ("d", "DELETE", "/orders/messages", None, 204),
            ("l", "GET", "?comp=list", None, 200),
        ],
    )
    def test_permissions(self, call, service, letter, method, path, body, status):
        service.permissions = service.permissions - set("cw" if letter in "cw" else letter)
        refused = call(method, path, body)
        assert (refused.status, refused.headers["x-ms-error-code"]) == (
            403,
            "AuthorizationPermissionMismatch",
        )
        service.permissions = letter
        assert call(method, path, body).status == status

    def test_unknown_permissions(self, service):
        with pytest.raises(ValueError, match="x"):
            service.permissions = "rx"


class TestFaults:
    @pytest.mark.parametrize(
        ("kind", "status", "code"),
        [
            ("busy_503", 503, "ServerBusy"),
            ("error_500", 500, "OperationTimedOut"),
            ("receipt_mismatch", 400, "PopReceiptMismatch"),
            ("not_found", 404, "MessageNotFound"),
            ("forbidden", 403, "AuthorizationPermissionMismatch"),
            ("unauthorized", 401, "InvalidAuthenticationInfo"),
        ],
    )
    def test_refusing_kinds_have_no_effect(self, call, service, kind, status, code):
        service.put("orders", "x")
        [leased] = lease(call)
        service.faults.add(Fault("delete", kind, nth=1, seconds=2.5))
        reply = call("DELETE", address(leased))
        assert (reply.status, reply.headers["x-ms-error-code"]) == (status, code)
        assert reply.headers.get("Retry-After") == ("3" if kind == "busy_503" else None)
        assert ("WWW-Authenticate" in reply.headers) == (status == 401)
        assert service.count("orders") == 1
        assert call("DELETE", address(leased)).status == 204
        assert service.faults.injected == {kind: 1}

    def test_reset_has_no_effect(self, call, service):
        service.faults.add(Fault("put", "reset", nth=1))
        with pytest.raises(urllib3.exceptions.ProtocolError) as caught:
            call("POST", "/orders/messages", message_xml("x"))
        assert isinstance(caught.value.args[1], ConnectionResetError)
        assert service.count("orders") == 0
        assert service.statuses["put", 0] == 1
        assert call("POST", "/orders/messages", message_xml("x")).status == 201

    def test_reply_lost_takes_effect(self, call, service):
        service.faults.add(Fault("put", "reply_lost", nth=1))
        with pytest.raises(urllib3.exceptions.ProtocolError, match="without response"):
            call("POST", "/orders/messages", message_xml("x"))
        assert service.count("orders") == 1
        assert service.statuses["put", 0] == 1

    def test_reply_of_a_refusal_is_lost_too(self, call, service):
        service.faults.add(Fault("delete", "reply_lost"))
        with pytest.raises(urllib3.exceptions.ProtocolError):
            call("DELETE", "/orders/messages/x?popreceipt=AAAA")

    def test_delivered_twice(self, call, service):
        service.put_many("orders", ["a", "b"])
        service.faults.add(Fault("dequeue", "delivered_twice", nth=1))
        first, second = lease(call, 32), lease(call, 32)
        assert [m["MessageText"] for m in first + second] == ["a", "b", "a", "b"]
        assert [m["DequeueCount"] for m in first + second] == ["1", "1", "2", "2"]
        assert lease(call, 32) == []
        assert [call("DELETE", address(m)).status for m in first] == [404, 404]
        assert [call("DELETE", address(m)).status for m in second] == [204, 204]

    def test_broken_xml(self, call, service):
        service.put_many("orders", ["a", "b"])
        service.faults.add(Fault("dequeue", "broken_xml", nth=1))
        reply = call("GET", "/orders/messages?numofmessages=32")
        assert reply.status == 200
        assert reply.data.count(b"\x01") == 1
        with pytest.raises(ElementTree.ParseError):
            page(reply)
        assert service.visible("orders") == 0
        service.clock.advance(30)
        assert [m["MessageText"] for m in lease(call, 32)] == ["a", "b"]

    @pytest.mark.parametrize("kind", ["delivered_twice", "broken_xml"])
    def test_faults_in_messages_wait_for_messages(self, call, service, kind):
        service.faults.add(Fault("dequeue", kind, nth=1))
        assert lease(call) == []
        assert call("GET", "/nowhere/messages").status == 404
        assert service.faults.injected == {}
        service.put("orders", "x")
        call("GET", "/orders/messages")
        assert service.faults.injected == {kind: 1}

    def test_slow_holds_up_nobody_else(self, call, service):
        service.faults.add(Fault("put", "slow", seconds=60))
        failures = []

        def put():
            try:
                call("POST", "/orders/messages", message_xml("x"))
            except urllib3.exceptions.ProtocolError as failure:
                failures.append(failure)

        sender = threading.Thread(target=put)
        sender.start()
        service.wait_until(lambda: service.requests["put"] == 1, timeout=10)
        # It has taken effect, only its answer is not out.
        assert [m["MessageText"] for m in lease(call)] == ["x"]
        service.stop()
        sender.join(10)
        assert len(failures) == 1

    def test_slow_goes_with_another(self, call, service):
        service.faults.add(Fault("*", "slow", seconds=0.05), Fault("dequeue", "busy_503"))
        before = time.monotonic()
        assert call("GET", "/orders/messages").status == 503
        assert time.monotonic() - before >= 0.05
        assert service.faults.injected == {"slow": 1, "busy_503": 1}

    def test_lifted_at_runtime(self, call, service):
        service.faults.add(Fault("dequeue", "busy_503"))
        assert call("GET", "/orders/messages").status == 503
        service.faults.clear()
        assert call("GET", "/orders/messages").status == 200
        assert service.faults.injected == {"busy_503": 1}


class TestFaultScript:
    def hits(self, script, count=12, op="dequeue", queue="orders"):
        """Which of a row of requests are hit, numbered from 1."""
        return [
            n
            for n in range(1, count + 1)
            if script.judge(op, queue, finds_messages=True).fault is not None
        ]

    @pytest.mark.parametrize(
        ("arguments", "hits"),
        [
            ({}, list(range(1, 13))),
            ({"times": 2}, [1, 2]),
            ({"nth": 3}, [3]),
            ({"every": 5}, [5, 10]),
            ({"every": 3, "times": 2}, [3, 6]),
            ({"rate": 1.0, "times": 1}, [1]),
            ({"rate": 0.0}, []),
            ({"queue": "orders", "nth": 1}, [1]),
            ({"queue": "others"}, []),
        ],
    )
    def test_which_requests(self, arguments, hits):
        assert self.hits(FaultScript([Fault("dequeue", "busy_503", **arguments)])) == hits
        assert self.hits(FaultScript([Fault("*", "busy_503", **arguments)])) == hits
        assert self.hits(FaultScript([Fault("delete", "busy_503", **arguments)])) == []

    def test_rate_comes_from_the_seed(self):
        def script(seed):
            return FaultScript([Fault("*", "reset", rate=0.5)], seed=seed)

        runs = [self.hits(script(seed), 100) for seed in (1, 1, 2)]
        assert runs[0] == runs[1] != runs[2]
        assert 30 < len(runs[0]) < 70

    def test_other_faults_do_not_shift_the_draws(self):
        alone = FaultScript([Fault("dequeue", "reset", rate=0.3)])
        mixed = FaultScript(
            [Fault("dequeue", "reset", rate=0.3), Fault("dequeue", "busy_503", every=2)]
        )
        for n in range(1, 100):
            one = alone.judge("dequeue", "orders", finds_messages=True).fault
            other = mixed.judge("dequeue", "orders", finds_messages=True).fault
            if one is not None:
                assert other == one
            else:
                assert (other is not None) == (n % 2 == 0)

    def test_the_first_added_wins(self):
        script = FaultScript([Fault("*", "reset", nth=2), Fault("dequeue", "busy_503", every=2)])
        assert self.hits(script, 4) == [2, 4]
        assert script.injected == {"reset": 1, "busy_503": 1}

    def test_kinds_with_a_natural_target_keep_to_it(self):
        script = FaultScript([Fault("*", "not_found"), Fault("*", "delivered_twice")])
        kinds = {
            op: fault and fault.kind
            for op in ("dequeue", "delete", "update", "put", "peek")
            for fault in [script.judge(op, "orders", finds_messages=op == "dequeue").fault]
        }
        assert kinds == {
            "dequeue": "delivered_twice",
            "delete": "not_found",
            "update": "not_found",
            "put": None,
            "peek": None,
        }

    @pytest.mark.parametrize(
        "arguments",
        [
            {"op": "receive"},
            {"kind": "explode"},
            {"op": "put", "kind": "delivered_twice"},
            {"op": "dequeue", "kind": "receipt_mismatch"},
            {"nth": 1, "rate": 0.5},
            {"nth": 0},
            {"every": 0},
            {"times": 0},
            {"rate": 1.5},
            {"seconds": -1},
        ],
    )
    def test_nonsense_is_refused(self, arguments):
        with pytest.raises(ValueError):  # noqa: PT011 - each has words of its own
            Fault(**{"op": "delete", "kind": "reset", **arguments})


class TestConveniences:
    def test_messages(self, call, service):
        ids = service.put_many("orders", ["a", "b"], ttl=60)
        ids.append(service.put("orders", "c", delay=10, ttl=-1))
        [leased] = lease(call)
        found = service.messages("orders")
        assert [m.id for m in found] == ids
        assert [m.text for m in found] == ["a", "b", "c"]
        assert [m.visible for m in found] == [False, True, False]
        assert [m.dequeue_count for m in found] == [1, 0, 0]
        assert found[0].receipt == leased["PopReceipt"]
        assert [m.expiration for m in found[:2]] == [NOW + 60, NOW + 60]
        assert (service.count("orders"), service.visible("orders")) == (3, 1)
        service.clock.advance(30)
        assert service.visible("orders") == 3
        service.clock.advance(30)
        assert service.count("orders") == 1

    @pytest.mark.parametrize("action", ["count", "visible", "messages", "delete_queue"])
    def test_missing_queue(self, service, action):
        with pytest.raises(ServiceError, match="QueueNotFound"):
            getattr(service, action)("nowhere")

    def test_put_is_as_strict_as_the_service(self, service):
        with pytest.raises(ServiceError, match="RequestBodyTooLarge"):
            service.put("orders", "x" * 65_537)
        with pytest.raises(ServiceError, match="InvalidXmlDocument"):
            service.put("orders", "\x00")

    def test_counters_and_log(self, call, service):
        service.put("orders", "x")
        [leased] = lease(call)
        call("DELETE", address(leased))
        call("DELETE", address(leased))
        call("PATCH", "/orders")
        assert service.requests == {"dequeue": 1, "delete": 2, "unknown": 1}
        assert service.statuses == {
            ("dequeue", 200): 1,
            ("delete", 204): 1,
            ("delete", 404): 1,
            ("unknown", 405): 1,
        }
        assert service.log == [
            ("dequeue", "orders", "", 200),
            ("delete", "orders", leased["MessageId"], 204),
            ("delete", "orders", leased["MessageId"], 404),
            ("unknown", "", "", 405),
        ]
        service.reset_counters()
        assert (service.requests, service.statuses, service.log) == ({}, {}, [])

    def test_log_is_bounded(self):
        with FakeQueueService(log_size=2) as service:
            for _ in range(3):
                urllib3.request("GET", service.url + "/orders/messages", retries=False)
            assert len(service.log) == 2
            assert service.requests["dequeue"] == 3

    def test_wait_until(self, call, service):
        def put_later():
            for text in "abc":
                call("POST", "/orders/messages", message_xml(text))

        sender = threading.Thread(target=put_later)
        sender.start()

        def three_by_peeking():
            peeked = page(call("GET", "/orders/messages?peekonly=true&numofmessages=32"))
            return len(peeked) == 3 and [m["MessageText"] for m in peeked]

        # The predicate may itself send requests.
        assert service.wait_until(three_by_peeking, timeout=10) == ["a", "b", "c"]
        sender.join()

    def test_wait_until_sees_what_the_test_itself_puts(self, service):
        sender = threading.Thread(target=lambda: service.put("orders", "x"))
        sender.start()
        assert service.wait_until(lambda: service.count("orders"), timeout=10) == 1
        sender.join()

    def test_wait_until_gives_up(self, service):
        with pytest.raises(TimeoutError, match="not so within"):
            service.wait_until(lambda: False, timeout=0.01)

    def test_wait_until_gives_up_though_requests_never_cease(self, call, service):
        with pytest.raises(TimeoutError, match="'peek'"):
            service.wait_until(
                lambda: page(call("GET", "/orders/messages?peekonly=true")), timeout=0.05
            )

    def test_outage(self, client, service):
        service.put("orders", "x")
        url = service.url
        assert client.get_queue_properties().approximate_message_count == 1
        service.stop()
        service.stop()
        with pytest.raises(urllib3.exceptions.NewConnectionError):
            urllib3.request("GET", url + "/orders/messages", retries=False)
        service.start()
        assert service.url == url
        assert client.get_queue_properties().approximate_message_count == 1
        with pytest.raises(RuntimeError):
            service.start()

    def test_port_taken(self, service):
        with pytest.raises(OSError, match="in use"):
            FakeQueueService(port=port_of(service)).start()

    def test_no_address_before_the_start(self):
        with pytest.raises(RuntimeError):
            _ = FakeQueueService().connection_string


class TestSdk:
    def test_life_of_a_message(self, service):
        with QueueClient.from_connection_string(
            service.connection_string, "jobs", api_version=VERSION, retry_total=0
        ) as client:
            client.create_queue(metadata={"Owner": "me"})
            sent = client.send_message("<héllo & \u2028>", visibility_timeout=0, time_to_live=60)
            assert sent.inserted_on.timestamp() == int(NOW)
            properties = client.get_queue_properties()
            assert properties.approximate_message_count == 1
            assert properties.metadata == {"Owner": "me"}
            [peeked] = client.peek_messages(max_messages=5)
            assert (peeked.id, peeked.content, peeked.dequeue_count) == (
                sent.id,
                "<héllo & \u2028>",
                0,
            )
            [received] = client.receive_messages(max_messages=5, visibility_timeout=30)
            assert (received.id, received.content, received.dequeue_count) == (
                sent.id,
                "<héllo & \u2028>",
                1,
            )
            assert received.next_visible_on.timestamp() == int(NOW + 30)
            updated = client.update_message(
                received.id, received.pop_receipt, visibility_timeout=0, content="new"
            )
            with pytest.raises(ResourceNotFoundError) as stale:
                client.delete_message(received.id, received.pop_receipt)
            assert stale.value.error_code == "MessageNotFound"
            [again] = client.receive_messages(max_messages=1)
            assert (again.content, again.dequeue_count) == ("new", 2)
            assert again.pop_receipt != updated.pop_receipt
            client.delete_message(again.id, again.pop_receipt)
            client.clear_messages()
            client.delete_queue()
            with pytest.raises(ResourceNotFoundError) as missing:
                client.get_queue_properties()
            assert missing.value.error_code == "QueueNotFound"

    def test_a_page_of_32(self, client, service):
        service.put_many("orders", [str(n) for n in range(70)])
        pages = client.receive_messages(messages_per_page=32, visibility_timeout=60).by_page()
        messages = list(next(pages))
        assert [m.content for m in messages] == [str(n) for n in range(32)]
        assert len({m.pop_receipt for m in messages}) == 32
        for message in messages:
            client.delete_message(message)
        assert service.count("orders") == 38

    def test_control_plane(self, service):
        with QueueServiceClient.from_connection_string(
            service.connection_string, api_version=VERSION, retry_total=0
        ) as client:
            client.create_queue("other", metadata={"a": "b"})
            found = [(q.name, q.metadata) for q in client.list_queues(include_metadata=True)]
            assert found == [("orders", None), ("other", {"a": "b"})]
            assert [q.name for q in client.list_queues(results_per_page=1)] == ["orders", "other"]
            with pytest.raises(ResourceExistsError) as exists:
                client.create_queue("other")
            assert exists.value.error_code == "QueueAlreadyExists"
            client.delete_queue("other")

    def test_refusals_as_the_sdk_reports_them(self, client, service):
        service.put("orders", "x")
        service.faults.add(Fault("dequeue", "busy_503", nth=1))
        service.faults.add(Fault("dequeue", "unauthorized", nth=2))
        for expected, status, code in [
            (HttpResponseError, 503, "ServerBusy"),
            (ClientAuthenticationError, 401, "InvalidAuthenticationInfo"),
        ]:
            with pytest.raises(expected) as caught:
                next(client.receive_messages())
            assert (caught.value.status_code, caught.value.error_code) == (status, code)
        service.faults.add(Fault("dequeue", "broken_xml", times=1))
        with pytest.raises(DecodeError):
            next(client.receive_messages())
        assert client.get_queue_properties().approximate_message_count == 1

    def test_real_time_by_default(self):
        before = int(time.time())
        with FakeQueueService() as service:
            reply = urllib3.request("GET", service.url + "?comp=list&sig=x", retries=False)
        date = parsedate_to_datetime(reply.headers["Date"]).timestamp()
        assert before <= date <= time.time() + 1


def test_command_line():
    with subprocess.Popen(
        [sys.executable, "-m", "spark_azqueue.testing", "--queue", "orders", "--queue", "jobs"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        connection_string = process.stdout.readline().strip()
        with QueueServiceClient.from_connection_string(
            connection_string, api_version=VERSION, retry_total=0
        ) as client:
            assert [queue.name for queue in client.list_queues()] == ["jobs", "orders"]
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=30)
    assert (process.returncode, output, errors) == (0, "", "")


def test_command_line_refuses_an_illegal_queue_name():
    finished = subprocess.run(
        [sys.executable, "-m", "spark_azqueue.testing", "--queue", "NO"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 2
    assert "OutOfRangeInput" in finished.stderr
    assert "Traceback" not in finished.stderr
