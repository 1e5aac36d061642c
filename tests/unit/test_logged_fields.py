"""A field of a message is declared once, and reaches the rows, the logs and the fake from there.

One that is forgotten in a log would be NULL after a restart, and two attempts of a task would give
other rows.
"""

from __future__ import annotations

import re
from collections import namedtuple
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple, get_type_hints

import pytest

from spark_azqueue.commands.shared import fields_of
from spark_azqueue.journal import messages
from spark_azqueue.journal.codec import Damaged
from spark_azqueue.journal.messages import newest_columns
from spark_azqueue.service.encoding import BodyType, Encoding
from spark_azqueue.service.message_fields import Field, Form, declared_in
from spark_azqueue.service.messages import FIELDS, Lease, Message, QueueRef, Received
from spark_azqueue.service.queues.xml import read_messages, read_peeked
from spark_azqueue.source import columns
from spark_azqueue.source.columns import CORRUPT, source_columns
from spark_azqueue.source.executors.names import PlanId
from spark_azqueue.source.executors.objects import SlotHeader, decode_slot, encode_slot
from spark_azqueue.source.log.progress import SegmentHeader
from spark_azqueue.source.log.segment import decode_segment, encode_segment
from spark_azqueue.source.rows import Row, record_batch
from spark_azqueue.testing.documents import dequeue_reply, peek_reply
from spark_azqueue.testing.model import ModelQueue

QUEUES = (QueueRef("shop", "refunds"), QueueRef("shop", "orders"))
LOG, PLAN = "f" * 32, PlanId(1, "a" * 32)
VALUES: dict[Form, Any] = {
    Form.QUEUE: QUEUES[1],
    Form.ID: "0a1b-2c",
    Form.RECEIPT: "a receipt",
    Form.TEXT: "a text, ä",
    Form.TIME: 1_700_000_001_000_007,
    Form.MAYBE_TIME: 5,
    Form.COUNT: 9,
    Form.FLAG: False,
}
"""No reader would take one of these for a default."""


def received(kind: Any = Message, **more: Any) -> tuple[Received]:
    """A message with a value in each field, and more."""
    names = kind._fields
    values = {each.name: VALUES[each.form] for each in FIELDS if each.name in names}
    message = kind(**values | more)
    return (Received(message, Lease(message.queue, message.message_id, VALUES[Form.RECEIPT])),)


def in_a_segment(given: tuple[Received, ...]) -> bytes:
    header = SegmentHeader(LOG, 1, "b" * 32, "shop", queues=QUEUES, cut=(len(given),))
    return encode_segment(header, given)


def of_a_segment(data: bytes) -> tuple[Received, ...]:
    return decode_segment(data).received


def in_a_slot(given: tuple[Received, ...]) -> bytes:
    return encode_slot(
        SlotHeader(LOG, PLAN, 0, "shop", "b" * 32, messages=len(given), queues=QUEUES), given
    )


def of_a_slot(data: bytes) -> tuple[Received, ...]:
    return decode_slot(data, log=LOG, plan=PLAN, slot=0).received


class Kept(NamedTuple):
    """A kind of log."""

    encode: Callable[[tuple[Received, ...]], bytes]
    decode: Callable[[bytes], tuple[Received, ...]]


LOGS = {"segments": Kept(in_a_segment, of_a_segment), "slots": Kept(in_a_slot, of_a_slot)}


@pytest.fixture(params=LOGS)
def log(request: pytest.FixtureRequest) -> Kept:
    return LOGS[request.param]


def test_every_field_is_declared_and_none_twice() -> None:
    declared = [each.name for each in FIELDS]

    assert sorted(declared) == sorted({*Message._fields, *Lease._fields})
    elements = [each.element for each in FIELDS if each.element]
    assert len(set(elements)) == len(elements)


def test_what_was_logged_before_has_a_default_of_each_later_field() -> None:
    assert all(each.has_default for each in FIELDS if each.since > 1)


def test_a_log_has_every_field(log: Kept) -> None:
    assert log.decode(log.encode(received())) == received()


def test_a_log_has_the_default_of_every_field(log: Kept) -> None:
    defaults = {each.name: each.default for each in FIELDS if each.has_default}

    assert log.decode(log.encode(received(**defaults))) == received(**defaults)


def test_a_row_has_a_value_of_every_field() -> None:
    ((message, lease),) = received()
    batch = record_batch(
        [Row(message, message.text, lease)], source_columns(BodyType.STRING, permissive=False)
    )

    assert set(batch.schema.names) == {each.column for each in FIELDS if each.column}
    assert not any(each.null_count for each in batch.columns)


def test_a_command_shows_every_field_of_a_message() -> None:
    ((message, _),) = received()
    told = fields_of(message, Encoding.NONE)

    assert told.keys() >= set(Message._fields)
    assert None not in told.values()


def elements(page: bytes) -> set[str]:
    inner = re.search(rb"<QueueMessage>(.*?)</QueueMessage>", page)
    assert inner
    return {name.decode() for name in re.findall(rb"<(\w+)[ >]", inner[1])}


def test_the_fake_service_answers_with_every_field() -> None:
    """It is also what most tests have for a service."""
    queue = ModelQueue()
    queue.put("a text", now=1e9)
    peeked, leased = peek_reply(queue.peek(now=1e9)), dequeue_reply(queue.dequeue(now=1e9))

    assert elements(leased) == {each.element for each in FIELDS if each.element}
    needed = {each.element for each in FIELDS if each.element and not each.has_default}
    assert elements(peeked) >= needed - {"PopReceipt"}
    ((message, lease),) = read_messages(QUEUES[0], leased)
    assert message.intact
    assert all((*message, *lease))
    assert [each.intact for each in read_peeked(QUEUES[0], peeked)] == [True]


# What a release with one field more has. The name of the field is of no account.


NEXT = newest_columns() + 1


def wider(form: Form, default: Any) -> Any:
    """`Message` with one field more, which logs have since their next version."""
    defaults = (*(each.default for each in FIELDS if each.has_default), default)
    made = namedtuple("Message", (*Message._fields, "added"), defaults=defaults)
    hints = get_type_hints(Message, include_extras=True)
    made.__annotations__ = {**hints, "added": Annotated[Any, Field(form, "Added", since=NEXT)]}
    return made


ADDED = {
    Form.TEXT: "",
    Form.TIME: 1,
    Form.MAYBE_TIME: None,
    Form.COUNT: 0,
    Form.FLAG: True,
}


@pytest.fixture(params=ADDED, ids=lambda form: form.name)
def form(request: pytest.FixtureRequest) -> Form:
    return request.param


def upgrade(monkeypatch: pytest.MonkeyPatch, form: Form) -> Any:
    kind = wider(form, ADDED[form])
    monkeypatch.setattr(messages, "FIELDS", declared_in(kind, Lease))
    monkeypatch.setattr(messages, "Message", kind)
    return kind


def test_what_was_logged_before_reads_with_the_default_of_a_new_field(
    log: Kept, form: Form, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = log.encode(received())
    kind = upgrade(monkeypatch, form)

    assert log.decode(before) == received(kind, added=ADDED[form])


def test_a_new_field_survives_a_log(log: Kept, form: Form, monkeypatch: pytest.MonkeyPatch) -> None:
    given = received(upgrade(monkeypatch, form), added=VALUES[form])

    assert log.decode(log.encode(given)) == given


def test_an_earlier_release_refuses_a_log_with_a_new_field(
    log: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as later:
        data = log.encode(received(upgrade(later, Form.COUNT), added=1))

    with pytest.raises(Damaged, match=f"columns are of version {NEXT}: upgrade"):
        log.decode(data)


def test_a_new_field_is_the_last_column(monkeypatch: pytest.MonkeyPatch) -> None:
    before = source_columns(BodyType.STRING, permissive=True)
    assert CORRUPT in dict(before)
    monkeypatch.setattr(columns, "FIELDS", declared_in(wider(Form.COUNT, 0), Lease))

    after = source_columns(BodyType.STRING, permissive=True)

    assert after == (*before, ("added", "int"))
