"""The fake service over HTTP: the REST subset."""

import re
from xml.etree import ElementTree

import pytest
import urllib3
from fake_calls import NOW, VERSION, address, lease, message_xml, page


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

    def test_queue_life(self, call, service):
        assert call("PUT", "/other", headers={"x-ms-meta-Owner": "me"}).status == 201
        assert call("PUT", "/other", headers={"x-ms-meta-Owner": "me"}).status == 204
        conflict = call("PUT", "/other")
        assert (conflict.status, conflict.headers["x-ms-error-code"]) == (409, "QueueAlreadyExists")
        service.put_many("other", ["a", "b"])
        for method in ("GET", "HEAD"):
            reply = call(method, "/other?comp=metadata")
            assert (reply.status, reply.data) == (200, b"")
            assert reply.headers["x-ms-approximate-messages-count"] == "2"
            assert reply.headers["x-ms-meta-owner"] == "me"
        assert call("PUT", "/other?comp=metadata", headers={"x-ms-meta-a": "b"}).status == 204
        assert "x-ms-meta-owner" not in call("HEAD", "/other?comp=metadata").headers
        assert call("DELETE", "/other").status == 204
        assert call("HEAD", "/other?comp=metadata").status == 404

    def test_list(self, call, service):
        for name in ("aaa", "aab", "abc"):
            service.create_queue(name)
        first = call("GET", "?comp=list&prefix=a&maxresults=2")
        assert re.findall(rb"<Name>(\w+)</Name>", first.data) == [b"aaa", b"aab"]
        assert b"<NextMarker>/fakeaccount/abc</NextMarker>" in first.data
        second = call("GET", "/?comp=list&prefix=a&maxresults=2&marker=%2Ffakeaccount%2Fabc")
        assert re.findall(rb"<Name>(\w+)</Name>", second.data) == [b"abc"]
        assert b"<NextMarker />" in second.data
        assert (
            b"<Prefix>a</Prefix><Marker>/fakeaccount/abc</Marker><MaxResults>2</MaxResults><Queues>"
        ) in second.data
        assert b"<Metadata" not in second.data
        named = call("GET", "?comp=list&prefix=aaa&include=metadata")
        assert b"<Queue><Name>aaa</Name><Metadata /></Queue>" in named.data
        none = call("GET", "?comp=list&prefix=z")
        assert b"<Prefix>z</Prefix><Queues /><NextMarker />" in none.data

    @pytest.mark.parametrize("marker", ["abc", "/other/abc", "/fakeaccount/", "/fakeaccount/A%26b"])
    def test_a_marker_that_no_list_gave_is_refused(self, call, marker):
        reply = call("GET", f"?comp=list&marker={marker}")
        assert (reply.status, reply.headers["x-ms-error-code"]) == (
            400,
            "InvalidQueryParameterValue",
        )

    def test_an_empty_text(self, call, service):
        service.put("orders", "")
        reply = call("GET", "/orders/messages")
        assert b"<DequeueCount>1</DequeueCount><MessageText /></QueueMessage>" in reply.data

    @pytest.mark.parametrize(
        ("method", "path", "body", "status", "code"),
        [
            ("GET", "/nowhere/messages", None, 404, "QueueNotFound"),
            ("POST", "/nowhere/messages", message_xml("x"), 404, "QueueNotFound"),
            ("POST", "/nowhere/messages", b"<QueueMessage>", 400, "InvalidXmlDocument"),
            ("PUT", "/nowhere/messages/x?popreceipt=AAAA&visibilitytimeout=0", b"<no>", 400,
             "InvalidXmlDocument"),
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

    def test_cr_is_lost_in_the_request_unless_escaped(self, call, service):
        call("POST", "/orders/messages", message_xml("a\r\nb\rc"))
        call("POST", "/orders/messages", message_xml("a&#xD;b"))
        assert [m.text for m in service.messages("orders")] == ["a\nb\nc", "a\rb"]
        assert lease(call, 2)[1]["MessageText"] == "a\rb"

    def test_headers_of_every_reply(self, call, service):
        for path in ("/orders/messages", "/nowhere/messages"):
            reply = call("GET", path, headers={"x-ms-client-request-id": "me-1"})
            assert reply.headers["Date"] == "Tue, 14 Nov 2023 22:13:20 GMT"
            assert reply.headers["x-ms-version"] == VERSION
            assert reply.headers["x-ms-client-request-id"] == "me-1"
            assert len(reply.headers["x-ms-request-id"]) == 36
        service.clock.advance(0.25)
        assert call("GET", "/orders/messages").headers["Date"] == "Tue, 14 Nov 2023 22:13:21 GMT"
