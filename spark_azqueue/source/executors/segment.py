"""What a slot of a plan gave, for ever: the messages that a task leased, or nothing (a tombstone).

A frame (`journal/frame.py`): its head is the header as JSON, its data the messages
(`log/columns.py`). The first put decides what a slot gave, whoever makes it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from spark_azqueue.journal.codec import (
    Damaged,
    hexadecimal,
    list_of,
    loaded,
    number,
    number_or_0,
    object_of,
    queue,
    text,
)
from spark_azqueue.journal.compression import unpacked
from spark_azqueue.journal.frame import framed, unframed
from spark_azqueue.service.messages import QueueRef, Received

from ..log.columns import pack, unpack
from ..log.header import reading_of
from .names import MOST_SLOTS, PlanId
from .plan import MOST_MESSAGES, MOST_QUEUES, Learned, learned

MAGIC = b"azqueue slot 1\n"

_VERSION = 1
MORE_THAN_BUDGET = 128 * 32
"""Messages of pages that were under way when a slot had enough."""


@dataclass(frozen=True, slots=True)
class Looked:
    """What a task saw of one queue.

    got: messages, without those that are too new for an availableNow run. drained: it ended empty,
    so there was no more for this plan. limits: what the task learned of it, None if nothing.
    """

    got: int = 0
    drained: bool = False
    limits: Learned | None = None

    def to_json(self) -> list[Any]:
        """Plain values."""
        limits = None if self.limits is None else [self.limits.under_way, self.limits.per_s]
        return [self.got, self.drained, limits]

    @classmethod
    def from_json(cls, value: object) -> Looked:
        """Read it back. Raises Damaged."""
        if not isinstance(value, list) or len(value) != 3 or type(value[1]) is not bool:
            raise Damaged("what it says of a queue is not valid")
        got = number({"got": value[0]}, "got")
        return cls(got, value[1], None if value[2] is None else learned(value[2]))


@dataclass(frozen=True, slots=True)
class Counts:
    """What happened while a task dequeued, in messages, and answers 503.

    began_cs: when it began, by its own clock, hundredths of a second since 1970. took_cs: for how
    long; in what is settled, with the deletes of that task.
    """

    dequeued: int = 0
    redelivered: int = 0
    copies: int = 0
    left_to_expire: int = 0
    throttled: int = 0
    began_cs: int = 0
    took_cs: int = 0

    @classmethod
    def from_json(cls, value: object) -> Counts:
        """Read it back; what another release counts is left out. Raises Damaged."""
        found = object_of(value, "counts")
        return cls(**{name: number_or_0(found, name) for name in cls.__dataclass_fields__})


@dataclass(frozen=True, slots=True)
class SlotHeader:
    """The head of what slot `slot` of plan `plan` of folder `log` gave.

    attempt: which process put it, and when it did; no two are the same. messages: how many it has.
    tombstone: the plan was closed before anything was put, so it has none, for ever. until: when
    the first of its leases ends, by the queues' clock, seconds since 1970; 0 if one did not tell.
    repeated: an earlier task of this slot may have leased messages, too. reading: the options that
    make rows of messages. looked: by the name of the queue.
    """

    log: str
    plan: PlanId
    slot: int
    account: str
    attempt: str
    messages: int = 0
    tombstone: bool = False
    until: int = 0
    repeated: bool = False
    oldest: int | None = None
    expires: int | None = None
    queues: tuple[QueueRef, ...] = ()
    reading: Mapping[str, str] = field(default_factory=dict)
    looked: Mapping[str, Looked] = field(default_factory=dict)
    counts: Counts = field(default_factory=Counts)

    def to_bytes(self) -> bytes:
        """As JSON."""
        value = {
            "version": _VERSION,
            "log": self.log,
            "plan": self.plan.number,
            "nonce": self.plan.nonce,
            "slot": self.slot,
            "account": self.account,
            "attempt": self.attempt,
            "messages": self.messages,
            "tombstone": self.tombstone,
            "until": self.until,
            "repeated": self.repeated,
            "oldest": self.oldest,
            "expires": self.expires,
            "queues": [each.name for each in self.queues],
            "reading": dict(self.reading),
            "looked": {name: each.to_json() for name, each in self.looked.items()},
            "counts": asdict(self.counts),
        }
        return json.dumps(value, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> SlotHeader:
        """Read it back. Raises Damaged."""
        found = object_of(loaded(data), "header")
        if found.get("version") != _VERSION:
            raise Damaged(f"its version is not {_VERSION}: upgrade spark-azqueue if it is higher")
        account = text(found, "account")
        place, messages = number(found, "slot"), number(found, "messages")
        if place >= MOST_SLOTS:
            raise Damaged("its header is not valid")
        return cls(
            log=hexadecimal(found, "log"),
            plan=PlanId(number(found, "plan", 1), hexadecimal(found, "nonce")),
            slot=place,
            account=account,
            attempt=hexadecimal(found, "attempt"),
            messages=messages,
            tombstone=found.get("tombstone") is True,
            until=number(found, "until"),
            repeated=found.get("repeated") is True,
            oldest=None if found.get("oldest") is None else number(found, "oldest"),
            expires=None if found.get("expires") is None else number(found, "expires"),
            queues=tuple(queue(name, account) for name in list_of(found, "queues", MOST_QUEUES)),
            reading=reading_of(found.get("reading")),
            looked=_looked(found.get("looked")),
            counts=Counts.from_json(found.get("counts")),
        )


@dataclass(frozen=True, slots=True)
class SlotSegment:
    """What a slot gave."""

    header: SlotHeader
    received: tuple[Received, ...]


def encode(header: SlotHeader, received: tuple[Received, ...]) -> bytes:
    """The segment's bytes. Raises ValueError if there are too many (see `framed`)."""
    return framed(MAGIC, header.to_bytes(), pack(received, header.queues) if received else b"")


def decode(
    data: bytes, *, log: str, plan: PlanId, slot: int, most: int = MOST_MESSAGES
) -> SlotSegment:
    """Read what this slot gave. Raises Damaged, also for the segment of another one.

    most: how many messages its plan allows.
    """
    frame = unframed(MAGIC, data)
    header = SlotHeader.from_bytes(frame.head)
    if (header.log, header.plan, header.slot) != (log, plan, slot):
        raise Damaged("it belongs to another log, or to another place in it")
    if header.messages > min(most, MOST_MESSAGES) + MORE_THAN_BUDGET:
        raise Damaged("it has more messages than its plan allows")
    if not header.messages:
        return SlotSegment(header, ())
    with unpacked(frame.packed, frame.size) as stream:
        return SlotSegment(header, unpack(stream, header.queues, header.messages))


def _looked(value: object) -> Mapping[str, Looked]:
    found = object_of(value, "queues")
    if len(found) > MOST_QUEUES:
        raise Damaged("it names too many queues")
    return {name: Looked.from_json(each) for name, each in found.items()}
