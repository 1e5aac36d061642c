"""Pages whose damage is not in a text: every message that can be named is there, no error escapes.

Damage within a text is in test_xml_texts.py.
"""

import logging
import subprocess
import sys

import pytest
from refs import ORDERS

from spark_azqueue.errors import Outcome, ServiceUnavailable
from spark_azqueue.service.messages import UNKNOWN_TIME, Lease
from spark_azqueue.service.queues.xml import read_messages, read_peeked
from spark_azqueue.source.rows import Row, partitions, record_batches

DATE = "Tue, 14 Nov 2023 22:13:20 GMT"


def element(number, **changed):
    fields = {
        "MessageId": f"m{number}",
        "InsertionTime": DATE,
        "ExpirationTime": "Fri, 31 Dec 9999 23:59:59 GMT",
        "PopReceipt": f"r{number}+/=",
        "TimeNextVisible": DATE,
        "DequeueCount": "3",
        "MessageText": f"text {number}",
        **changed,
    }
    inner = "".join(f"<{k}>{v}</{k}>" for k, v in fields.items() if v is not None)
    return f"<QueueMessage>{inner}</QueueMessage>"


def page(*elements):
    head = '\ufeff<?xml version="1.0" encoding="utf-8"?>'
    return f"{head}<QueueMessagesList>{''.join(elements)}</QueueMessagesList>".encode()


def messages_in(queue, document):
    return [message for message, _ in read_messages(queue, document)]


def ids(messages):
    return [message.message_id for message in messages]


# ── a message that can be named ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "changed",
    [
        {"InsertionTime": "yesterday"},
        {"InsertionTime": None},
        {"InsertionTime": ""},
        {"InsertionTime": "Tue, 14 Nov 99999 22:13:20 GMT"},
        {"ExpirationTime": "Tue, 31 Feb 2023 22:13:20 GMT"},
        {"ExpirationTime": "x" * 100_000},
        {"TimeNextVisible": "soon"},
        {"DequeueCount": "²"},
        {"DequeueCount": "-1"},
        {"DequeueCount": "9" * 5000},
        {"DequeueCount": "2147483648"},
        {"DequeueCount": "three"},
        {"DequeueCount": None},
        {"MessageText": None},
        {"MessageText": "a</MessageText><MessageText>b"},
        {"MessageText": "a<b>c</b>d"},
        {"MessageText": f"&#{'9' * 5000};"},
        {"DequeueCount": "3</DequeueCount><DequeueCount>4"},
        {"DequeueCount": "<x/>"},
    ],
)
def test_a_damaged_message_is_not_intact_and_its_siblings_are(changed):
    received = read_messages(ORDERS, page(element(0), element(1, **changed), element(2)))

    assert received[1].lease == Lease(ORDERS, "m1", "r1+/=")
    first, spoilt, last = (message for message, _ in received)
    assert ids([first, spoilt, last]) == ["m0", "m1", "m2"]
    assert [message.intact for message in (first, spoilt, last)] == [True, False, True]
    assert (first.text, last.text) == ("text 0", "text 2")


def test_of_two_texts_the_first_is_shown_and_neither_counts():
    (message,) = messages_in(ORDERS, page(element(0, MessageText="a</MessageText><MessageText>b")))

    assert (message.text, message.intact) == ("a", False)


def test_a_time_that_cannot_be_read_is_null_in_a_row():
    (message,) = messages_in(ORDERS, page(element(0, InsertionTime="?", DequeueCount="?")))

    assert (message.insertion_time, message.dequeue_count) == (UNKNOWN_TIME, 0)
    columns = (("insertion_time", "timestamp"), ("expiration_time", "timestamp"))
    (part,) = partitions([Row(message, None)], columns, 1)
    (batch,) = record_batches(part)
    assert batch.column("insertion_time").null_count == 1
    assert batch.column("expiration_time").null_count == 0


@pytest.mark.parametrize(
    ("spoil", "by"),
    [
        (b"<QueueMessagesList>", b"<QueueMessagesLisX>"),
        (b"</QueueMessagesList>", b""),
        (b'encoding="utf-8"', b'encoding="utf-9"'),
        (b'<?xml version="1.0"', b'<?xml version="7.0"'),
        (b'"utf-8"?>', b'"utf-8"?><!DOCTYPE a [<!ENTITY b "c">]>'),
        (b"</QueueMessage><QueueMessage>", b"</QueueMessage>\xff\x00<QueueMessage>"),
        (b"</QueueMessagesList>", b"<Other/></QueueMessagesList>"),
    ],
)
def test_damage_between_messages_damages_none(spoil, by):
    document = page(element(0), element(1)).replace(spoil, by)

    messages = messages_in(ORDERS, document)

    assert ids(messages) == ["m0", "m1"]
    assert [message.text for message in messages] == ["text 0", "text 1"]
    assert all(message.intact for message in messages)


@pytest.mark.parametrize("tag", [b"<QueueMessage>", b"</QueueMessage>"])
def test_a_spoilt_tag_around_a_message_hides_nobody(tag):
    document = page(element(0), element(1), element(2))
    at = document.index(tag, document.index(b"</QueueMessage>") - 1)

    messages = messages_in(ORDERS, document[:at] + b"<Quoue>" + document[at + len(tag) :])

    assert ids(messages) == ["m0", "m1", "m2"]


def test_a_page_that_was_cut_off_gives_what_came():
    document = page(element(0), element(1))

    messages = messages_in(ORDERS, document[: document.rindex(b"xt 1")])

    assert [(m.message_id, m.intact) for m in messages] == [("m0", True), ("m1", False)]


def test_a_message_that_is_there_twice_is_one():
    spoilt = element(1, DequeueCount="x")

    messages = messages_in(ORDERS, page(element(0), spoilt, element(1), spoilt))

    assert [(m.message_id, m.intact) for m in messages] == [("m0", True), ("m1", True)]


def test_markup_of_a_sender_never_passes_for_a_field():
    text = "\x01<PopReceipt>other</PopReceipt><MessageId>other</MessageId>"

    ((message, lease),) = read_messages(ORDERS, page(element(0, MessageText=text)))

    assert (message.message_id, message.intact) == ("m0", False)
    assert lease == Lease(ORDERS, "m0", "r0+/=")


# ── a message that cannot be named ────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "changed",
    [
        {"MessageId": None},
        {"MessageId": ""},
        {"MessageId": ".."},
        {"MessageId": "a/b"},
        {"MessageId": "x" * 100_000},
        {"MessageId": "m1</MessageId><MessageId>m2"},
        {"PopReceipt": None},
        {"PopReceipt": ""},
        {"PopReceipt": 'a"b'},
        {"PopReceipt": "r\u00e9"},
        {"PopReceipt": "r1</PopReceipt><PopReceipt>r2"},
    ],
)
def test_one_without_a_name_is_told_in_the_log_and_hides_nobody(changed, caplog):
    with caplog.at_level(logging.WARNING, "spark_azqueue"):
        messages = messages_in(ORDERS, page(element(0), element(1, **changed), element(2)))

    assert ids(messages) == ["m0", "m2"]
    assert all(message.intact for message in messages)
    (record,) = caplog.records
    assert "queue 'orders' was damaged: 1 of its messages" in record.getMessage()
    assert "text 1" not in record.getMessage()
    assert len(record.getMessage()) < 300


def test_a_peek_needs_no_receipt_and_takes_none(caplog):
    messages = read_peeked(ORDERS, page(element(0, PopReceipt=None), element(1)))

    assert [m.message_id for m in messages] == ["m0", "m1"]
    assert caplog.records == []


@pytest.mark.parametrize(
    "document",
    [
        page(element(0, MessageId=None)),
        page(element(0, PopReceipt=""), element(1, PopReceipt="")),
        b"",
        b"\x00" * 100,
        b"<html><body>Please log in</body></html>",
        b"<QueueMessagesList>",
        b"<QueueMessagesList>busy</QueueMessagesList>",
        b"<QueueMessagesList><QueueMessage>",
        "<QueueMessagesList/>".encode("utf-16"),
        "<QueueMessagesList/>".encode("utf-16-le"),
        b"<!DOCTYPE a><QueueMessagesList/>",
        b"<a>" * 100_000,
    ],
)
def test_a_reply_that_names_no_message_is_not_an_empty_queue(document):
    with pytest.raises(ServiceUnavailable, match="the answer cannot be read") as caught:
        read_messages(ORDERS, document)

    assert caught.value.outcome is Outcome.RETRY


def test_an_empty_list_is_empty():
    assert read_messages(ORDERS, page()) == []
    assert read_messages(ORDERS, b"<QueueMessagesList />") == []


# ── how long it takes ─────────────────────────────────────────────────────────────────────────────

TAGS = (
    "<QueueMessage>",
    "<QueueMessage><MessageId>",
    "<QueueMessage><MessageText>",
    "<MessageId>",
    "<MessageText>",
    "</MessageText>",
    "<!DOCTYPE ",
    "<QueueMessage><MessageText>&#9",
)


@pytest.mark.parametrize("tag", TAGS)
def test_a_large_page_of_unclosed_tags_is_read_in_time_proportional_to_its_size(tag):
    # In quadratic time 2 MiB of them would take hours, and the child process is killed.
    code = (
        "from spark_azqueue.errors import ServiceUnavailable\n"
        "from spark_azqueue.service.messages import QueueRef\n"
        "from spark_azqueue.service.queues.xml import read_messages\n"
        f"document = b'<QueueMessagesList>' + {tag!r}.encode() * (2 * 2**20 // {len(tag)})\n"
        "try:\n"
        "    read_messages(QueueRef('acc', 'orders'), document)\n"
        "except ServiceUnavailable:\n"
        "    print('done')\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )

    assert done.stdout == "done\n", done.stderr
