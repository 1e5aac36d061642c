"""Objects that the tasks of leaseOn=executors write: segments, and reports about the deletes.

A segment is a frame (`journal/frame.py`): the head of the frame is the header as JSON, and the data
of the frame is the messages. A report has the number of messages of a slot, the state of the slot's
queues, and the pending deletes. A message with a pending delete may be dequeued again, but gets no
second row.

This module has pure values. Reading a damaged object raises Damaged.
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
"""Version of segments and reports.

Segments of version 1 also contain messages whose bodies were not decoded yet, and decisions about
them.
"""


@dataclass(frozen=True, slots=True)
class Looked:
    """State of one queue, as a task saw it.

    got: number of messages that the task received, except messages that are too new for an
    availableNow run. drained: the task read the queue until no message for this plan was left.
    limits: limits that the task learned, or None.
    """

    got: int = 0
    drained: bool = False
    limits: Learned | None = None

    def to_json(self) -> list[Any]:
        """Return plain values for JSON."""
        limits = None if self.limits is None else [self.limits.under_way, self.limits.per_s]
        return [self.got, self.drained, limits]

    @classmethod
    def from_json(cls, value: object) -> Looked:
        """Create an instance from the stored value. Raises Damaged."""
        if not isinstance(value, list) or len(value) != 3 or type(value[1]) is not bool:
            raise Damaged("what it says of a queue is not valid")
        got = number({"got": value[0]}, "got")
        return cls(got, value[1], None if value[2] is None else learned(value[2]))


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of messages and of 503 answers while a task dequeued.

    throttled: 503 answers. poison: messages that were copied to a poison queue. began_cs: start of
    the task by the task's clock, in hundredths of a second since 1970. took_cs: duration of the
    task in hundredths of a second; in a report, the duration includes the deletes.
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
    """Header of the segment of slot `slot` of plan `plan` in folder `log`.

    attempt: unique id of the attempt that put the segment. messages: number of messages. tombstone:
    the plan was closed before a segment was put, so the slot stays empty forever. until: time at
    which the first lease ends, by the service's clock, in seconds since 1970; 0 if the end of any
    lease is unknown. repeated: an earlier attempt at this slot may also have leased messages.
    reading: options that turn messages into rows. looked: state of each queue, by the queue's name.
    columns: version of the messages' columns.
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
        """Encode the header as JSON."""
        return compact({"version": _VERSION, **as_json(self)})

    @classmethod
    def from_bytes(cls, data: bytes) -> SlotHeader:
        """Create an instance from the stored value. Raises Damaged."""
        return cls(**read_fields(cls, of_version(loaded(data, _VALUES_BESIDE), "header", _VERSION)))


@dataclass(frozen=True, slots=True)
class SlotSegment:
    """Header and messages of a slot."""

    header: SlotHeader
    received: tuple[Received, ...]


def encode_slot(header: SlotHeader, received: tuple[Received, ...]) -> bytes:
    """Return the segment as bytes. Raises ValueError if the segment is too large; see `framed`."""
    messages = pack_messages(received, header.queues, header.columns) if received else b""
    return framed(SLOT_MAGIC, header.to_bytes(), messages)


def decode_slot(
    data: bytes, *, log: str, plan: PlanId, slot: int, most: int = MOST_MESSAGES
) -> SlotSegment:
    """Decode the segment of this slot. Raises Damaged if the bytes are damaged, or belong to
    another slot.

    most: maximum number of messages that the plan allows.
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
"""Maximum number of known messages. If there are more, the oldest known messages are evicted."""

_REPORT_VERSION = 1
_MOST_GONE = KNOWN_AT_MOST + 8_192
_BESIDE = 2**17
"""Maximum bytes of an object without its lists of messages."""
_VALUES_BESIDE = 20 * MOST_QUEUES_OF_PLAN + 1_000
"""Maximum number of JSON values in an object without its lists of messages."""

KNOWN_BYTES_AT_MOST = _BESIDE + MESSAGE_BYTES * KNOWN_AT_MOST


def _values_at_most(messages: int) -> int:
    return _VALUES_BESIDE + MESSAGE_VALUES * messages


def report_bytes_at_most(messages: int = MOST_MESSAGES) -> int:
    """Return the maximum size in bytes of a slot's report. messages: maximum number of messages in
    the slot.

    The report is largest if every delete is pending.
    """
    return _BESIDE + MESSAGE_BYTES * (min(messages, MOST_MESSAGES) + MORE_THAN_BUDGET + _MOST_GONE)


_SIZE = Coded(number, name="bytes")


@dataclass(frozen=True, slots=True)
class SlotReport:
    """Report of a slot, written when every delete of the slot has a final answer.

    messages, size: number of messages in the segment, and the segment's size in bytes. deleted:
    number of deletes that succeeded, or that were refused because an earlier try has probably
    succeeded. pending: messages that may still exist, because their delete was refused. gone: keys
    of known messages that were dequeued again and were deleted. given_bytes: bytes of the messages'
    texts in the queues. Other fields: as in the header of the segment.
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
        """Create the report of the segment with this header. size: size of the segment in bytes."""
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
        """Encode the report for the store."""
        return sealed({"version": _REPORT_VERSION, **as_json(self)})

    @classmethod
    def from_bytes(cls, data: bytes, account: str) -> SlotReport:
        """Decode a report. account: storage account of the queues. Raises Damaged."""
        most = _values_at_most(MOST_MESSAGES + MORE_THAN_BUDGET + _MOST_GONE)
        found = of_version(unsealed(data, most), "report", _REPORT_VERSION)
        report = cls(**read_fields(cls, {**found, "account": account}))
        if len(report.pending) > report.messages:
            raise Damaged("it has more pending deletes than messages")
        return report


class SeenMessages:
    """Known messages: their rows were delivered, and they may be dequeued again, but get no second
    row.

    Instances are not changed after creation.
    """

    def __init__(self, pending: Iterable[PendingDelete] = ()) -> None:
        self._pending = {each.key: each for each in pending}

    def __len__(self) -> int:
        return len(self._pending)

    def __contains__(self, key: MessageKey) -> bool:
        return key in self._pending

    def has(self, key: MessageKey, fingerprint: int) -> bool:
        """Return True if the message is known and its text has not changed."""
        found = self._pending.get(key)
        return found is not None and found.fingerprint == fingerprint

    def after(self, settled: Iterable[SlotReport], now: int) -> tuple[SeenMessages, int]:
        """Return the messages that are known after these slots, and the number of evicted messages.

        now: seconds since 1970. Messages that expired more than a day ago are removed, because the
        service cannot deliver them again.
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
        """Encode the messages for the store."""
        return sealed(
            {"version": _REPORT_VERSION, "pending": [e.to_json() for e in self._pending.values()]}
        )

    @classmethod
    def from_bytes(cls, data: bytes, account: str) -> SeenMessages:
        """Decode the messages. account: storage account of the queues. Raises Damaged."""
        most = _values_at_most(KNOWN_AT_MOST)
        found = of_version(unsealed(data, most), "list", _REPORT_VERSION)
        return cls(PendingDelete.all_from_json(found.get("pending"), account))


_A_DAY_S = 86_400


@dataclass(frozen=True, slots=True)
class Closed:
    """A closed plan and the reports of its slots, in order. The report of a slot for which no task
    ran is None.
    """

    plan: Plan
    slots: tuple[SlotReport | None, ...]

    @property
    def settled(self) -> list[SlotReport]:
        """Reports of the slots for which a task ran."""
        return [each for each in self.slots if each is not None]

    @property
    def sizes(self) -> list[int]:
        """Size of the segment of each slot in bytes; 0 for a slot for which no task ran."""
        return [0 if each is None else each.size for each in self.slots]

    @property
    def waiting(self) -> tuple[Group, ...]:
        """Messages of abandoned plans that must be delivered after this plan.

        The result includes messages that this plan retries, if no task ran for their slots.
        """
        return tuple(each.parts for each in self.suspects)

    @property
    def suspects(self) -> tuple[Suspected, ...]:
        """Messages that `waiting` returns, with their failure histories."""
        pairs = zip(self.plan.slots, self.slots, strict=True)
        unread = [slot.again for slot, gave in pairs if slot.again and gave is None]
        group = tuple(part for part in unread if part.messages)
        retried = self.plan.suspected
        if not group or retried is None:
            return self.plan.suspects
        return (Suspected(group, retried.history), *self.plan.suspects)

    @property
    def stored(self) -> list[Part]:
        """Messages of all slots of the plan."""
        return [
            Part(self.plan.id, place, 0, gave.messages)
            for place, gave in enumerate(self.slots)
            if gave is not None and gave.messages
        ]
