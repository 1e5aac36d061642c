"""The fake service over HTTP: the REST subset."""

import re
from xml.etree import ElementTree

import pytest
import urllib3
from fake_calls import message_xml


class TestRest:
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
