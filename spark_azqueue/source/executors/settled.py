"""What is known of a slot when its deletes are answered, and what gives no second row. Values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from spark_azqueue.journal.codec import (
    Damaged,
    list_of,
    number,
    number_or_0,
    object_of,
    queue,
    sealed,
    unsealed,
)
from spark_azqueue.service.fields import is_message_id
from spark_azqueue.service.messages import MessageKey

from ..log.progress import OWED_AT_MOST, Owed
from .plan import MOST_MESSAGES, MOST_QUEUES, Group, Part, Plan
from .segment import MORE_THAN_BUDGET, Counts, Looked, SlotHeader

KNOWN_AT_MOST = OWED_AT_MOST
"""How many messages are known; the newest are kept."""

_VERSION = 1
_MOST_GONE = KNOWN_AT_MOST + 8_192
_BESIDE = 2**17
"""Bytes for all but the lists of messages."""
_EACH = 192
"""Bytes for a message in a list: its queue (63), its id (64), a fingerprint, a time and signs."""

KNOWN_BYTES_AT_MOST = _BESIDE + _EACH * KNOWN_AT_MOST


def bytes_at_most(messages: int = MOST_MESSAGES) -> int:
    """How large the object is of a slot that may lease so many: each message may be owed."""
    return _BESIDE + _EACH * (min(messages, MOST_MESSAGES) + MORE_THAN_BUDGET + _MOST_GONE)


@dataclass(frozen=True, slots=True)
class SlotReport:
    """Every delete of a slot has a final answer, and every copy is in its poison queue.

    messages, size (in bytes): of the segment. deleted: how many deletes succeeded, or had probably
    succeeded before. owed: messages whose delete was refused, so that somebody else may have them.
    gone: known messages that came again and were deleted. poison: how many were copied.
    given_bytes: of the texts that give rows, as the queues store them. The others: as in the header
    of the segment.
    """

    messages: int = 0
    size: int = 0
    deleted: int = 0
    owed: tuple[Owed, ...] = ()
    gone: tuple[MessageKey, ...] = ()
    poison: int = 0
    repeated: bool = False
    oldest: int | None = None
    expires: int | None = None
    looked: Mapping[str, Looked] = field(default_factory=dict)
    counts: Counts = field(default_factory=Counts)
    given_bytes: int = 0

    @classmethod
    def of(cls, header: SlotHeader, size: int) -> SlotReport:
        """What the segment with this header, of so many bytes, says."""
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
        return sealed(
            {
                "version": _VERSION,
                "messages": self.messages,
                "bytes": self.size,
                "deleted": self.deleted,
                "owed": [each.to_json() for each in self.owed],
                "gone": [[key.queue.name, key.message_id] for key in self.gone],
                "poison": self.poison,
                "given_bytes": self.given_bytes,
                "repeated": self.repeated,
                "oldest": self.oldest,
                "expires": self.expires,
                "looked": {name: each.to_json() for name, each in self.looked.items()},
                "counts": {
                    name: getattr(self.counts, name) for name in Counts.__dataclass_fields__
                },
            }
        )

    @classmethod
    def from_bytes(cls, data: bytes, account: str) -> SlotReport:
        """Read it back. account: of the queues. Raises Damaged."""
        found = object_of(unsealed(data), "report")
        if found.get("version") != _VERSION:
            raise Damaged(f"its version is not {_VERSION}: upgrade spark-azqueue if it is higher")
        looked = object_of(found.get("looked"), "queues")
        if len(looked) > MOST_QUEUES:
            raise Damaged("it names too many queues")
        return cls(
            messages=number(found, "messages"),
            size=number(found, "bytes"),
            deleted=number(found, "deleted"),
            owed=_owed(found, account),
            gone=tuple(_key(each, account) for each in list_of(found, "gone", _MOST_GONE)),
            poison=number(found, "poison"),
            given_bytes=number_or_0(found, "given_bytes"),
            repeated=found.get("repeated") is True,
            oldest=None if found.get("oldest") is None else number(found, "oldest"),
            expires=None if found.get("expires") is None else number(found, "expires"),
            looked={name: Looked.from_json(each) for name, each in looked.items()},
            counts=Counts.from_json(found.get("counts")),
        )


class SeenMessages:
    """Messages that gave their rows, and may come again: they give no second one. A value."""

    def __init__(self, owed: Iterable[Owed] = ()) -> None:
        self._owed = {each.key: each for each in owed}

    def __len__(self) -> int:
        return len(self._owed)

    def __contains__(self, key: MessageKey) -> bool:
        return key in self._owed

    def has(self, key: MessageKey, fingerprint: int) -> bool:
        """True for such a message, if its text is still the same."""
        found = self._owed.get(key)
        return found is not None and found.fingerprint == fingerprint

    def after(self, settled: Iterable[SlotReport], now: int) -> tuple[SeenMessages, int]:
        """What is known after these slots, and how many were forgotten since they are too many.

        now: seconds since 1970. What expired a day ago is left out: no copy can come any more.
        """
        slots = list(settled)
        owed = dict(self._owed)
        for each in slots:
            for one in each.owed:
                owed.pop(one.key, None)
                owed[one.key] = one
        for each in slots:
            for key in each.gone:
                owed.pop(key, None)
        kept = [one for one in owed.values() if not 0 < one.expires < now - _A_DAY_S]
        forgotten = max(0, len(kept) - KNOWN_AT_MOST)
        return SeenMessages(kept[forgotten:]), forgotten

    def to_bytes(self) -> bytes:
        """The object to store."""
        return sealed({"version": _VERSION, "owed": [e.to_json() for e in self._owed.values()]})

    @classmethod
    def from_bytes(cls, data: bytes, account: str) -> SeenMessages:
        """Read it back. account: of the queues. Raises Damaged."""
        found = object_of(unsealed(data), "list")
        if found.get("version") != _VERSION:
            raise Damaged(f"its version is not {_VERSION}: upgrade spark-azqueue if it is higher")
        return cls(Owed.all_from_json(found.get("owed"), account))


_A_DAY_S = 86_400


def _owed(found: Mapping[str, Any], account: str) -> tuple[Owed, ...]:
    listed = list_of(found, "owed", MOST_MESSAGES + MORE_THAN_BUDGET)
    read: list[Owed] = []
    for start in range(0, len(listed), OWED_AT_MOST):
        read += Owed.all_from_json(listed[start : start + OWED_AT_MOST], account)
    return tuple(read)


def _key(value: object, account: str) -> MessageKey:
    if isinstance(value, list) and len(value) == 2:
        name, message_id = value
        if isinstance(message_id, str) and is_message_id(message_id):
            return MessageKey(queue(name, account), message_id)
    raise Damaged("one of its messages is not valid")


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
        """What comes again after this plan: also what it should have given, and nobody read."""
        pairs = zip(self.plan.slots, self.slots, strict=True)
        unread = [slot.again for slot, gave in pairs if slot.again and gave is None]
        group = tuple(part for part in unread if part.messages)
        return (group, *self.plan.waiting) if group else self.plan.waiting

    @property
    def stored(self) -> list[Part]:
        """All that its slots gave."""
        return [
            Part(self.plan.id, place, 0, gave.messages)
            for place, gave in enumerate(self.slots)
            if gave is not None and gave.messages
        ]
