"""Whatever becomes of a page on its way: nothing but ServiceError, no undamaged message hidden."""

import contextlib
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refs import ORDERS

from spark_azqueue.errors import ServiceError
from spark_azqueue.service.queues.xml import read_messages, read_peeked

DATE = b"Tue, 14 Nov 2023 22:13:20 GMT"
HEAD = b'\xef\xbb\xbf<?xml version="1.0" encoding="utf-8"?><QueueMessagesList>'
TAIL = b"</QueueMessagesList>"
TAGS = (
    *(b"<QueueMessage>", b"</QueueMessage>", b"<MessageId>", b"</MessageId>", b"<PopReceipt>"),
    *(b"</PopReceipt>", b"<MessageText>", b"</MessageText>", b"<DequeueCount>", b"<![CDATA["),
    *(b"<!--", b"<!DOCTYPE a>", b"&#", b"&", b"<", b">", b"\x00", b"\xff", "²".encode()),
)


@pytest.fixture(autouse=True)
def _quiet(caplog):
    caplog.set_level(logging.ERROR, "spark_azqueue")


def element(number: int) -> bytes:
    return (
        b"<QueueMessage><MessageId>m%d</MessageId><InsertionTime>%b</InsertionTime>"
        b"<ExpirationTime>%b</ExpirationTime><PopReceipt>r%d</PopReceipt>"
        b"<TimeNextVisible>%b</TimeNextVisible><DequeueCount>1</DequeueCount>"
        b"<MessageText>a &amp; %d</MessageText></QueueMessage>"
    ) % (number, DATE, DATE, number, DATE, number)


def pages() -> st.SearchStrategy[list[bytes]]:
    """A page as its parts: head, messages, tail."""
    return st.integers(0, 5).map(lambda count: [HEAD, *map(element, range(count)), TAIL])


@st.composite
def mutations(draw: st.DrawFn, parts: list[bytes]) -> list[bytes]:
    """One part of the page changed: bytes flipped, cut, repeated, or something put in."""
    changed = list(parts)
    place = draw(st.integers(0, len(changed) - 1))
    part = changed[place]
    at = draw(st.integers(0, len(part)))
    to = draw(st.integers(at, len(part)))
    kind = draw(st.sampled_from(("flip", "cut", "repeat", "put", "twice", "away")))
    if kind == "flip" and at < len(part):
        part = part[:at] + bytes([part[at] ^ draw(st.integers(1, 255))]) + part[at + 1 :]
    elif kind == "cut":
        part = part[:at] + part[to:]
    elif kind == "repeat":
        part = part[:to] + part[at:to] + part[to:]
    elif kind == "put":
        part = part[:at] + draw(st.sampled_from(TAGS) | st.binary(max_size=20)) + part[at:]
    elif kind == "twice":
        part = part + part
    elif kind == "away":
        part = b""
    changed[place] = part
    return changed


@given(st.data(), st.integers(1, 4))
def test_no_mutation_of_a_page_raises_or_hides_an_undamaged_message(data, times):
    # Given a page, and the same page after some damage
    parts = changed = data.draw(pages())
    for _ in range(times):
        changed = data.draw(mutations(changed))
    untouched = {
        number
        for number, (before, after) in enumerate(zip(parts, changed, strict=True), start=-1)
        if before == after and before not in (HEAD, TAIL)
    }
    document = b"".join(changed)
    # Of two with one id nobody can tell which is the right one.
    untouched = {number for number in untouched if document.count(b"m%d<" % number) == 1}

    # When it is read
    try:
        received = read_messages(ORDERS, document)
    except ServiceError:
        received = []
        assert not untouched

    # Then each message whose own element is undamaged is there, once, as it was sent
    found = {each.message.message_id: each for each in received}
    assert len(found) == len(received)
    for number in untouched:
        message, lease = found[f"m{number}"]
        assert (message.text, lease.pop_receipt) == (f"a & {number}", f"r{number}")
        assert message.intact


@given(st.data())
def test_a_page_that_ends_early_gives_the_messages_before_that(data):
    parts = data.draw(pages())
    document = b"".join(parts)
    end = data.draw(st.integers(0, len(document)))

    try:
        found = {message.message_id for message, _ in read_messages(ORDERS, document[:end])}
    except ServiceError:
        found = set()

    before = document[:end].count(b"</QueueMessage>")
    assert {f"m{number}" for number in range(before)} <= found


@given(st.binary(max_size=200) | st.lists(st.sampled_from(TAGS)).map(b"".join))
def test_no_bytes_at_all_raise_anything_else(document):
    for whole in (document, HEAD + document + TAIL, HEAD + element(0) + document + TAIL):
        with contextlib.suppress(ServiceError):
            assert all(message.size >= 0 for message, _ in read_messages(ORDERS, whole))
        with contextlib.suppress(ServiceError):
            assert all(message.size >= 0 for message in read_peeked(ORDERS, whole))
