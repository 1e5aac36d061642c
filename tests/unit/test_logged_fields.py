"""Every field of a message survives a log: a new one that is forgotten there would be NULL after a
restart, and two attempts of a task would give other rows."""

from __future__ import annotations

import inspect
import io
from typing import Any, get_type_hints

from spark_azqueue.journal import messages
from spark_azqueue.service.messages import Lease, Message, QueueRef, Received
from spark_azqueue.source.executors import objects
from spark_azqueue.source.executors.names import PlanId

QUEUES = (QueueRef("shop", "refunds"), QueueRef("shop", "orders"))
OF_KIND: dict[Any, Any] = {str: "a text, ä", int: 1_700_000_001_000_007, int | None: 5, bool: True}
GIVEN: dict[str, Any] = {
    "queue": QUEUES[1],
    "message_id": "0a1b-2c",
    "dequeue_count": 9,
}
"""Where the type alone does not say what is valid."""


DEFAULTS = {
    name: each.default
    for name, each in inspect.signature(Message).parameters.items()
    if each.default is not each.empty
}


def a_message() -> Message:
    """One whose fields all have values that no reader would take for a default."""
    hints = get_type_hints(Message)
    values = {name: GIVEN.get(name, OF_KIND.get(kind)) for name, kind in hints.items()}
    for name, default in DEFAULTS.items():
        if values[name] == default:
            values[name] = not default
    return Message(**values)


MESSAGE = a_message()
RECEIVED = (Received(MESSAGE, Lease(MESSAGE.queue, MESSAGE.message_id, "a receipt")),)


def test_no_field_has_its_default() -> None:
    for name, default in DEFAULTS.items():
        assert getattr(MESSAGE, name) != default
    assert None not in MESSAGE


def test_the_columns_of_a_log_have_every_field() -> None:
    packed = io.BytesIO(messages.pack_messages(RECEIVED, QUEUES))

    assert messages.unpack_messages(packed, QUEUES, 1) == RECEIVED


def test_a_slot_of_a_plan_has_every_field() -> None:
    plan = PlanId(1, "a" * 32)
    header = objects.SlotHeader("f" * 32, plan, 0, "shop", "b" * 32, messages=1, queues=QUEUES)

    found = objects.decode_slot(
        objects.encode_slot(header, RECEIVED), log="f" * 32, plan=plan, slot=0
    )

    assert found.received == RECEIVED
