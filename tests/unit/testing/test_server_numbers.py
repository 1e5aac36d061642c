"""The fake service and numbers that cannot be meant: each is answered and in the log."""

import re
import socket

import pytest
from fake_calls import NOW, detail, message_xml, port_of, refusal

from spark_azqueue.testing import Refusal
from spark_azqueue.testing.model import ModelQueue

INVALID = (400, "InvalidQueryParameterValue")
OUT_OF_RANGE = (400, "OutOfRangeQueryParameterValue")
HUGE = "9" * 5_000
WEEK = 604_800

PLACES = [
    ("GET", "/orders/messages?numofmessages=", None, "dequeue"),
    ("GET", "/orders/messages?visibilitytimeout=", None, "dequeue"),
    ("GET", "/orders/messages?peekonly=true&numofmessages=", None, "peek"),
    ("POST", "/orders/messages?messagettl=", message_xml("x"), "put"),
    ("POST", "/orders/messages?messagettl=-1&visibilitytimeout=", message_xml("x"), "put"),
    ("PUT", "/orders/messages/x?popreceipt=AAAA&visibilitytimeout=", None, "update"),
    ("GET", "?comp=list&maxresults=", None, "list"),
]


@pytest.mark.parametrize(
    "number",
    [HUGE, "-" + HUGE, "1" + "0" * 400, "2147483648"],
    ids=["5000", "-5000", "400", "2**31"],
)
@pytest.mark.parametrize(("method", "path", "body", "op"), PLACES)
def test_a_number_beyond_32_bits(call, service, method, path, body, op, number):
    reply = call(method, path + number, body)
    assert refusal(reply) == INVALID
    assert len(detail(reply, "QueryParameterValue")) <= 101
    assert service.log[-1].status == 400
    assert service.requests == {op: 1}
    assert service.count("orders") == 0


@pytest.mark.parametrize("number", ["", "-", "+1", "1.0", "1e3", " 1", "0x1", "\u0661", "\u00b2"])
@pytest.mark.parametrize(("method", "path", "body", "op"), PLACES)
def test_what_is_not_a_whole_number(call, service, method, path, body, op, number):
    assert refusal(call(method, path + number.replace("+", "%2B"), body)) == INVALID
    assert service.requests == {op: 1}


@pytest.mark.parametrize(
    ("method", "path", "body", "lowest", "highest"),
    [
        ("GET", "/orders/messages?numofmessages=", None, 1, 32),
        ("GET", "/orders/messages?visibilitytimeout=", None, 1, WEEK),
        ("POST", "/orders/messages?messagettl=-1&visibilitytimeout=", message_xml("x"), 0, WEEK),
        ("PUT", "/orders/messages/x?popreceipt=AAAA&visibilitytimeout=", None, 0, WEEK),
    ],
)
def test_a_number_out_of_range(call, method, path, body, lowest, highest):
    for number in (lowest - 1, highest + 1, 2**31 - 1, -(2**31) + 1):
        reply = call(method, f"{path}{number}", body)
        assert refusal(reply) == OUT_OF_RANGE
        assert detail(reply, "MaximumAllowed") == str(highest)
    for number in (lowest, highest, f"000{highest}"):
        assert call(method, f"{path}{number}", body).status in (200, 201, 404)


def test_a_time_to_live_may_be_as_long_as_32_bits_hold(call, service):
    assert call("POST", "/orders/messages?messagettl=2147483647", message_xml("x")).status == 201
    assert service.messages("orders")[0].expiration == NOW + 2147483647


@pytest.mark.parametrize("number", [0, -2, -2147483648])
def test_a_time_to_live_of_nothing(call, number):
    reply = call("POST", f"/orders/messages?messagettl={number}", message_xml("x"))
    assert refusal(reply) == INVALID


def test_a_parameter_twice_is_not_a_number(call):
    assert refusal(call("GET", "/orders/messages?numofmessages=1&numofmessages=2")) == INVALID


@pytest.mark.parametrize(
    "length",
    [HUGE, "0" * 5_000 + "5", "1048577", "9" * 20],
    ids=["5000", "zeros", "1 MiB", "20"],
)
def test_a_body_of_a_length_that_nobody_waits_for(service, length):
    target = f"/fakeaccount/orders/messages?{service.sas()}"
    with socket.create_connection(("127.0.0.1", port_of(service)), timeout=10) as connection:
        connection.sendall(
            f"POST {target} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n".encode()
        )
        received = b""
        while piece := connection.recv(65_536):
            received += piece
    assert re.findall(rb"HTTP/1.1 (\d+)", received) == [b"413"]
    assert b"RequestBodyTooLarge" in received
    assert service.log[-1] == ("put", "orders", "", 413)


@pytest.mark.parametrize("number", [10**400, 10**5_000, -(10**5_000)], ids=["400", "5000", "-5000"])
def test_the_model_refuses_or_takes_numbers_of_any_length(number):
    queue = ModelQueue()
    message = queue.put("x", now=NOW)
    for action in (
        lambda: queue.dequeue(now=NOW, count=number),
        lambda: queue.dequeue(now=NOW, visibility=number),
        lambda: queue.update(message.id, message.receipt, now=NOW, visibility=number),
        lambda: queue.put("x", now=NOW, visibility_delay=number, ttl=-1),
    ):
        with pytest.raises(Refusal, match="OutOfRange"):
            action()
    if number > 0:
        assert queue.put("x", now=NOW, ttl=number).expiration == 253_402_300_799
    else:
        with pytest.raises(Refusal, match="InvalidQueryParameterValue"):
            queue.put("x", now=NOW, ttl=number)
