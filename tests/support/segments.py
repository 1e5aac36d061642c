"""Segments of a write-ahead log for tests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from refs import ACCOUNT, ORDERS, ref

from spark_azqueue.service.messages import Lease, Message, QueueRef, Received
from spark_azqueue.source.log.progress import SegmentHeader

HEADER = SegmentHeader(
    log="0123456789abcdef" * 2,
    number=1,
    writer="fedcba9876543210" * 2,
    account=ACCOUNT,
    queues=(ORDERS, ref("returns")),
    reading={"messageEncoding": "none"},
    cut=(2,),
)


def a_header(**changed: Any) -> SegmentHeader:
    return replace(HEADER, **changed)


def a_message(number: int = 1, queue: QueueRef = ORDERS, **changed: Any) -> Received:
    values = {
        "text": f"m{number}",
        "insertion_time": 1_800_000_000_000_000,
        "expiration_time": 1_800_600_000_000_000,
        "dequeue_count": 1,
        "next_visible_time": 1_800_000_060_000_000,
        "message_id": f"id-{number}",
        "pop_receipt": f"r{number}",
        **changed,
    }
    receipt = values.pop("pop_receipt")
    return Received(Message(queue, **values), Lease(queue, values["message_id"], receipt))


def messages_of(count: int) -> list[Received]:
    return [a_message(number) for number in range(count)]
