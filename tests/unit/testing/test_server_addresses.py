"""The fake service: verbs, addresses and names that are none."""

import pytest
from fake_calls import refusal

from spark_azqueue.testing import Refusal
from spark_azqueue.testing.model import ModelAccount

NO_VERB = (405, "UnsupportedHttpVerb")

NAMES = {
    "ab": "OutOfRangeInput",
    "a" * 64: "OutOfRangeInput",
    "Orders": "InvalidResourceName",
    "or_ders": "InvalidResourceName",
    "-orders": "InvalidResourceName",
    "orders-": "InvalidResourceName",
    "or--ders": "InvalidResourceName",
    "ord.ers": "InvalidResourceName",
    "\u00f6rders": "InvalidResourceName",
    "ord%0Aers": "InvalidResourceName",
}

BODY = b"<QueueMessage><MessageText>x</MessageText></QueueMessage>"
OPERATIONS = [
    ("PUT", "", None, "create"),
    ("DELETE", "", None, "delete_queue"),
    ("GET", "?comp=metadata", None, "properties"),
    ("HEAD", "?comp=metadata", None, "properties"),
    ("PUT", "?comp=metadata", None, "set_metadata"),
    ("POST", "/messages", BODY, "put"),
    ("GET", "/messages", None, "dequeue"),
    ("GET", "/messages?peekonly=true", None, "peek"),
    ("DELETE", "/messages", None, "clear"),
    ("PUT", "/messages/x?popreceipt=AAAA&visibilitytimeout=0", None, "update"),
    ("DELETE", "/messages/x?popreceipt=AAAA", None, "delete"),
    ("DELETE", "/messages/x", None, "delete"),
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("method", "rest", "body", "op"), OPERATIONS)
def test_an_illegal_name_is_refused_whatever_is_asked(call, service, name, method, rest, body, op):
    assert refusal(call(method, f"/{name}{rest}", body)) == (400, NAMES[name])
    assert service.requests == {op: 1}


@pytest.mark.parametrize("action", ["count", "visible", "messages", "delete_queue", "create_queue"])
def test_an_illegal_name_is_refused_to_tests_too(service, action):
    with pytest.raises(Refusal, match="InvalidResourceName"):
        getattr(service, action)("Orders")


@pytest.mark.parametrize("name", ["q1", "Orders", "x" * 300])
def test_a_test_is_told_which_name_and_the_rule(service, name):
    with pytest.raises(Refusal) as raised:
        service.create_queue(name)

    assert name[:100] in str(raised.value)
    assert "3 to 63 lower-case letters, digits and single hyphens" in str(raised.value)
    assert len(str(raised.value)) < 400
    assert "lower-case" not in raised.value.message, "the answer is that of the service"


def test_a_test_is_told_what_was_wrong(service):
    with pytest.raises(Refusal, match=r"QueueNotFound.*'nowhere'.*create_queue"):
        service.put("nowhere", "x")
    with pytest.raises(Refusal, match=r"messagettl=0: must be positive or -1"):
        service.put("orders", "x", ttl=0)
    with pytest.raises(Refusal, match=r"visibilitytimeout=-1; allowed: 0 to 604800"):
        service.put("orders", "x", -1)


def test_the_model_refuses_an_illegal_name_before_a_missing_one():
    with pytest.raises(Refusal, match="InvalidResourceName"):
        ModelAccount().queue("Orders")
    with pytest.raises(Refusal, match="QueueNotFound"):
        ModelAccount().queue("orders")


@pytest.mark.parametrize("path", ["/orders/messages", "/orders/messages?numofmessages=32"])
def test_head_takes_no_messages(call, service, path):
    service.put("orders", "x")
    reply = call("HEAD", path)
    assert (*refusal(reply), reply.data) == (*NO_VERB, b"")
    assert service.visible("orders") == 1
    assert service.messages("orders")[0].dequeue_count == 0


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("HEAD", "/orders/messages?peekonly=true"),
        ("HEAD", "/orders"),
        ("HEAD", "/orders/messages/x"),
        ("HEAD", "?comp=list"),
        ("GET", "/orders"),
        ("GET", "/orders/messages/x"),
        ("POST", "/orders/messages/x?popreceipt=AAAA"),
        ("PUT", "/orders/messages"),
        ("PATCH", "/orders/messages"),
        ("OPTIONS", "/orders/messages"),
        ("POST", "?comp=list"),
        ("GET", ""),
        ("GET", "/orders/message"),
    ],
)
def test_what_is_not_served(call, service, method, path):
    service.put("orders", "x")
    assert refusal(call(method, path)) == NO_VERB
    assert service.visible("orders") == 1


@pytest.mark.parametrize("path", ["/orders/messages/", "/orders/", "//messages", "/orders//x"])
@pytest.mark.parametrize("method", ["GET", "PUT", "POST", "DELETE"])
def test_an_empty_part_of_an_address_is_not_left_out(call, service, method, path):
    service.put("orders", "x")
    assert refusal(call(method, path)) == (400, "InvalidUri")
    assert service.visible("orders") == 1
