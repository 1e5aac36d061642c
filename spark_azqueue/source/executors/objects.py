"""What the slots of leaseOn=executors write: segments, and reports that their deletes are answered.

A segment is a frame (`journal/frame.py`): its head is the header as JSON, its data the messages. A
report says how many rows a slot has, what its queues said, and which deletes are pending: messages
that may return, and give no second row then.

Pure values. What is not as it was written raises Damaged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from spark_azqueue.journal.codec import (
    COUNT,
    COUNT_OR_0,
    FLAG,
    HEXADECIMAL,
    MAYBE_TIME,
    TEXT,
    TIME,
    Coded,
    Damaged,
    as_json,
    compact,
    hexadecimal,
    loaded,
    number,
    object_of,
    of_version,
    part_of,
    queue,
    queues,
    read_fields,
    sealed,
    unsealed,
)
from spark_azqueue.journal.frame import check_count, framed, unframed, unpacked
from spark_azqueue.journal.messages import (
    COLUMNS,
    newest_columns,
    pack_messages,
    unpack_messages,
)
from spark_azqueue.journal.pending import (
    MESSAGE_BYTES,
    MESSAGE_VALUES,
    PENDING_AT_MOST,
    PendingDelete,
    keys,
    pending_deletes,
)
from spark_azqueue.service.messages import MessageKey, QueueRef, Received

from ..logged.options import READING
from .names import MOST_SLOTS, PlanId
from .plan import (
    MORE_THAN_BUDGET,
    MOST_MESSAGES,
    MOST_QUEUES_OF_PLAN,
    Group,
    Learned,
    Part,
    Plan,
    Suspected,
    learned,
)

SLOT_MAGIC = b"azqueue slot 1\n"

_VERSION = 2
"""Slots of version 1 have bodies that were not decoded before, and decisions about them."""


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

    poison: copied to a poison queue. began_cs: when it began, by its own clock, hundredths of a
    second since 1970. took_cs: for how long; in what is settled, with the deletes of that task.
    """

    dequeued: Annotated[int, COUNT_OR_0] = 0
    redelivered: Annotated[int, COUNT_OR_0] = 0
    duplicates_suppressed: Annotated[int, COUNT_OR_0] = 0
    skipped_near_expiry: Annotated[int, COUNT_OR_0] = 0
    throttled: Annotated[int, COUNT_OR_0] = 0
    poison: Annotated[int, COUNT_OR_0] = 0
    began_cs: Annotated[int, COUNT_OR_0] = 0
    took_cs: Annotated[int, COUNT_OR_0] = 0


def _looked(found: Mapping[str, Any], name: str) -> Mapping[str, Looked]:
    by_name = object_of(found.get(name), "queues")
    if len(by_name) > MOST_QUEUES_OF_PLAN:
        raise Damaged("it names too many queues")
    for each in by_name:
        queue(each, found["account"])
    return {name: Looked.from_json(each) for name, each in by_name.items()}


_LOOKED = Coded(_looked, lambda value: {name: each.to_json() for name, each in value.items()})
_SLOT = Coded(lambda found, name: number(found, name, most=MOST_SLOTS - 1))
_COUNTS = part_of(Counts, "counts")
_PLAN = Coded(
    lambda found, _: PlanId(number(found, "plan", 1), hexadecimal(found, "nonce")),
    lambda plan: {"plan": plan.number, "nonce": plan.nonce},
    is_spread=True,
)


@dataclass(frozen=True, slots=True)
class SlotHeader:
    """The head of what slot `slot` of plan `plan` of folder `log` gave.

    attempt: which process put it, and when it did; no two are the same. messages: how many it has.
    tombstone: the plan was closed before anything was put, so it has none, for ever. until: when
    the first of its leases ends, by the queues' clock, seconds since 1970; 0 if one did not tell.
    repeated: an earlier task of this slot may have leased messages, too. reading: the options that
    make rows of messages. looked: by the name of the queue. columns: the version of its messages'
    columns.
    """

    log: Annotated[str, HEXADECIMAL]
    plan: Annotated[PlanId, _PLAN]
    slot: Annotated[int, _SLOT]
    account: Annotated[str, TEXT]
    attempt: Annotated[str, HEXADECIMAL]
    messages: Annotated[int, COUNT] = 0
    tombstone: Annotated[bool, FLAG] = False
    until: Annotated[int, TIME] = 0
    repeated: Annotated[bool, FLAG] = False
    oldest: Annotated[int | None, MAYBE_TIME] = None
    expires: Annotated[int | None, MAYBE_TIME] = None
    queues: Annotated[tuple[QueueRef, ...], queues(MOST_QUEUES_OF_PLAN)] = ()
    reading: Annotated[Mapping[str, str], READING] = field(default_factory=dict)
    looked: Annotated[Mapping[str, Looked], _LOOKED] = field(default_factory=dict)
    counts: Annotated[Counts, _COUNTS] = field(default_factory=Counts)
    columns: Annotated[int, COLUMNS] = field(default_factory=newest_columns)

    def to_bytes(self) -> bytes:
        """As JSON."""
        return compact({"version": _VERSION, **as_json(self)})

    @classmethod
    def from_bytes(cls, data: bytes) -> SlotHeader:
        """Read it back. Raises Damaged."""
        return cls(**read_fields(cls, of_version(loaded(data, _VALUES_BESIDE), "header", _VERSION)))


@dataclass(frozen=True, slots=True)
class SlotSegment:
    """What a slot gave."""

    header: SlotHeader
    received: tuple[Received, ...]


def encode_slot(header: SlotHeader, received: tuple[Received, ...]) -> bytes:
    """The segment's bytes. Raises ValueError if there are too many (see `framed`)."""
    messages = pack_messages(received, header.queues, header.columns) if received else b""
    return framed(SLOT_MAGIC, header.to_bytes(), messages)


def decode_slot(
    data: bytes, *, log: str, plan: PlanId, slot: int, most: int = MOST_MESSAGES
) -> SlotSegment:
    """Read what this slot gave. Raises Damaged, also for the segment of another one.

    most: how many messages its plan allows.
    """
    frame = unframed(SLOT_MAGIC, data)
    header = SlotHeader.from_bytes(frame.head)
    if (header.log, header.plan, header.slot) != (log, plan, slot):
        raise Damaged("it belongs to another log, or to another place in it")
    if header.messages > min(most, MOST_MESSAGES) + MORE_THAN_BUDGET:
        raise Damaged("it has more messages than its plan allows")
    if not header.messages:
        return SlotSegment(header, ())
    check_count(header.messages, frame.packed)
    with unpacked(frame.packed, frame.size) as stream:
        received = unpack_messages(stream, header.queues, header.messages, header.columns)
    return SlotSegment(header, received)


KNOWN_AT_MOST = PENDING_AT_MOST
"""How many messages are known; the newest are kept."""

_REPORT_VERSION = 1
_MOST_GONE = KNOWN_AT_MOST + 8_192
_BESIDE = 2**17
"""Bytes for all but the lists of messages."""
_VALUES_BESIDE = 20 * MOST_QUEUES_OF_PLAN + 1_000
"""Values of all but these lists."""

KNOWN_BYTES_AT_MOST = _BESIDE + MESSAGE_BYTES * KNOWN_AT_MOST


def _values_at_most(messages: int) -> int:
    return _VALUES_BESIDE + MESSAGE_VALUES * messages


def report_bytes_at_most(messages: int = MOST_MESSAGES) -> int:
    """Most bytes of the object of a slot that leases this many: each delete may be pending."""
    return _BESIDE + MESSAGE_BYTES * (min(messages, MOST_MESSAGES) + MORE_THAN_BUDGET + _MOST_GONE)


_SIZE = Coded(number, name="bytes")


@dataclass(frozen=True, slots=True)
class SlotReport:
    """Every delete of a slot has a final answer.

    messages, size (in bytes): of the segment. deleted: how many deletes succeeded, or had probably
    succeeded before. pending: messages whose delete was refused: another consumer may have them.
    gone: known messages that returned and were deleted. given_bytes: of their texts, as the queues
    store them. The others: as in the header of the segment.
    """

    messages: Annotated[int, COUNT] = 0
    size: Annotated[int, _SIZE] = 0
    deleted: Annotated[int, COUNT] = 0
    pending: Annotated[
        tuple[PendingDelete, ...], pending_deletes(MOST_MESSAGES + MORE_THAN_BUDGET)
    ] = ()
    gone: Annotated[tuple[MessageKey, ...], keys(_MOST_GONE)] = ()
    given_bytes: Annotated[int, COUNT_OR_0] = 0
    repeated: Annotated[bool, FLAG] = False
    oldest: Annotated[int | None, MAYBE_TIME] = None
    expires: Annotated[int | None, MAYBE_TIME] = None
    looked: Annotated[Mapping[str, Looked], _LOOKED] = field(default_factory=dict)
    counts: Annotated[Counts, _COUNTS] = field(default_factory=Counts)

    @classmethod
    def of(cls, header: SlotHeader, size: int) -> SlotReport:
        """What the segment with this header, of `size` bytes, says."""
        return cls(
            messages=header.messages,
            size=size,
            repeated=header.repeated,
            oldest=header.oldest,
            expires=header.expires,
            looked=header.looked,
            counts=header.counts,
        )

    def to_bytes(self) -> bytes:
        """The object to store."""
        return sealed({"version": _REPORT_VERSION, **as_json(self)})

    @classmethod
    def from_bytes(cls, data: bytes, account: str) -> SlotReport:
        """Read it back. account: of the queues. Raises Damaged."""
        most = _values_at_most(MOST_MESSAGES + MORE_THAN_BUDGET + _MOST_GONE)
        found = of_version(unsealed(data, most), "report", _REPORT_VERSION)
        report = cls(**read_fields(cls, {**found, "account": account}))
        if len(report.pending) > report.messages:
            raise Damaged("it has more pending deletes than messages")
        return report


class SeenMessages:
    """Messages that gave their rows, and may return: they give no second one. A value."""

    def __init__(self, pending: Iterable[PendingDelete] = ()) -> None:
        self._pending = {each.key: each for each in pending}

    def __len__(self) -> int:
        return len(self._pending)

    def __contains__(self, key: MessageKey) -> bool:
        return key in self._pending

    def has(self, key: MessageKey, fingerprint: int) -> bool:
        """True for such a message, if its text is still the same."""
        found = self._pending.get(key)
        return found is not None and found.fingerprint == fingerprint

    def after(self, settled: Iterable[SlotReport], now: int) -> tuple[SeenMessages, int]:
        """What is known after these slots, and how many were evicted since they are too many.

        now: seconds since 1970. What expired a day ago is left out: no copy can come any more.
        """
        slots = list(settled)
        pending = dict(self._pending)
        for each in slots:
            for one in each.pending:
                pending.pop(one.key, None)
                pending[one.key] = one
        for each in slots:
            for key in each.gone:
                pending.pop(key, None)
        kept = [one for one in pending.values() if not 0 < one.expires < now - _A_DAY_S]
        evicted = max(0, len(kept) - KNOWN_AT_MOST)
        return SeenMessages(kept[evicted:]), evicted

    def to_bytes(self) -> bytes:
        """The object to store."""
        return sealed(
            {"version": _REPORT_VERSION, "pending": [e.to_json() for e in self._pending.values()]}
        )

    @classmethod
    def from_bytes(cls, data: bytes, account: str) -> SeenMessages:
        """Read it back. account: of the queues. Raises Damaged."""
        most = _values_at_most(KNOWN_AT_MOST)
        found = of_version(unsealed(data, most), "list", _REPORT_VERSION)
        return cls(PendingDelete.all_from_json(found.get("pending"), account))


_A_DAY_S = 86_400


@dataclass(frozen=True, slots=True)
class Closed:
    """What the slots of a plan gave, in their order; None for one without a task."""

    plan: Plan
    slots: tuple[SlotReport | None, ...]

    @property
    def settled(self) -> list[SlotReport]:
        """Of the slots that had a task."""
        return [each for each in self.slots if each is not None]

    @property
    def sizes(self) -> list[int]:
        """In bytes, of what each slot gave."""
        return [0 if each is None else each.size for each in self.slots]

    @property
    def waiting(self) -> tuple[Group, ...]:
        """What is delivered after this plan: also what it should have given, and no task read."""
        return tuple(each.parts for each in self.suspects)

    @property
    def suspects(self) -> tuple[Suspected, ...]:
        """What is delivered after this plan, with the histories of its messages."""
        pairs = zip(self.plan.slots, self.slots, strict=True)
        unread = [slot.again for slot, gave in pairs if slot.again and gave is None]
        group = tuple(part for part in unread if part.messages)
        retried = self.plan.suspected
        if not group or retried is None:
            return self.plan.suspects
        return (Suspected(group, retried.history), *self.plan.suspects)

    @property
    def stored(self) -> list[Part]:
        """All that its slots gave."""
        return [
            Part(self.plan.id, place, 0, gave.messages)
            for place, gave in enumerate(self.slots)
            if gave is not None and gave.messages
        ]
