"""How far a log has come, as headers and marks say it. Pure values."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from spark_azqueue.journal.codec import (
    MOST,
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

OWED_AT_MOST = 50_000
"""How many owed deletes a header lists (some 100 bytes each); the newest are kept.

A kill can leave as many as two batches have, and what is really still there comes back when its
lease ends. So this covers several kills within one lease.
"""

_FINGERPRINT = re.compile(r"[0-9a-f]{16}")


def fingerprint(text: str) -> int:
    """64 bits that tell a message's text from an updated one: the same in every process.

    So a restart recognises a message. Never shown, never used as a key.
    """
    data = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "big")


@dataclass(frozen=True, slots=True)
class Owed:
    """A message whose rows were handed out and whose delete was not confirmed.

    fingerprint: of its text, see `fingerprint`. expires: seconds since 1970, 0 if unknown.
    """

    key: MessageKey
    fingerprint: int
    expires: int

    def to_json(self) -> list[Any]:
        """Plain values."""
        key = self.key
        return [key.queue.name, key.message_id, f"{self.fingerprint:016x}", self.expires]

    @classmethod
    def all_from_json(cls, value: object, account: str) -> tuple[Owed, ...]:
        """Read a list back. account: of the queues. Raises Damaged."""
        if not isinstance(value, list) or len(value) > OWED_AT_MOST:
            raise Damaged("its owed deletes are missing or too many")
        return tuple(_owed(each, account) for each in value)


class FirstBatch(NamedTuple):
    """The first batch of a checkpoint: the segments behind `after` up to `last`."""

    after: int
    last: int

    @classmethod
    def from_json(cls, progress: Mapping[str, Any]) -> FirstBatch:
        """Read it back. Raises Damaged."""
        values = dict(enumerate(list_of(progress, "began", 2)))
        found = {"after": values.get(0), "last": values.get(1)}
        return cls(number(found, "after"), number(found, "last"))


class OwedList(NamedTuple):
    """Which list in an object of its own is meant, see `owed.py`.

    gone: a bit for each of its messages, the lowest first: that one is owed no more.
    """

    claim: int
    sequence: int
    gone: bytes = b""

    def to_json(self, more: list[Any]) -> dict[str, Any]:
        """Plain values. more: those that are not in the list."""
        gone = base64.b64encode(self.gone).decode()
        return {"list": [self.claim, self.sequence], "gone": gone, "more": more}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> OwedList:
        """Read it back. Raises Damaged."""
        numbers = list_of(value, "list", 2)
        if len(numbers) != 2:
            raise Damaged("its list of owed deletes has no name")
        named = dict(zip(("claim", "sequence"), numbers, strict=True))
        try:
            gone = base64.b64decode(str(value.get("gone")), validate=True)
        except ValueError:
            raise Damaged("its owed deletes are not valid") from None
        if len(gone) > OWED_AT_MOST // 8 + 1:
            raise Damaged("its owed deletes are too many")
        return cls(number(named, "claim"), number(named, "sequence"), gone)


@dataclass(frozen=True, slots=True)
class LogProgress:
    """How far a log has come, as the holder of claim `claim` wrote it down the `sequence`th time.

    named: the newest segment that is known to stand in Spark's checkpoint. committed: the newest
    segment proven committed. done: deletes have ended up to this segment. owed: of those, the
    messages that may come again. began: the first batch of the newest checkpoint; None
    if an earlier release wrote it, or if Spark has not said yet. hidden: how
    many messages of batches that were given up may be hidden. hidden_until: when the last lease of
    these and of owed messages ends at the latest, seconds since 1970, 0 if unknown. leased_s: for
    how long the process leases messages at most, 0 if an earlier release wrote it.
    has_ended: the process that wrote this ended in order then, so it leased nothing later.
    owed_list: where others stand that are owed, None if `owed` has all.
    """

    claim: int = 0
    sequence: int = 0
    named: int = 0
    committed: int = 0
    done: int = 0
    owed: tuple[Owed, ...] = ()
    began: FirstBatch | None = None
    hidden: int = 0
    hidden_until: int = 0
    leased_s: int = 0
    owed_list: OwedList | None = None
    has_ended: bool = False

    @property
    def age(self) -> tuple[int, int]:
        """Later ones are greater."""
        return self.claim, self.sequence

    def to_json(self) -> dict[str, Any]:
        """Plain values; the newest `OWED_AT_MOST` owed deletes."""
        owed = [each.to_json() for each in self.owed[-OWED_AT_MOST:]]
        value: dict[str, Any] = {
            "claim": self.claim,
            "sequence": self.sequence,
            "named": self.named,
            "committed": self.committed,
            "done": self.done,
            "owed": self.owed_list.to_json(owed) if self.owed_list else owed,
        }
        if self.leased_s:
            value["leased"] = self.leased_s
        if self.began is not None:
            value["began"] = list(self.began)
        if self.owed or self.owed_list or self.hidden:
            value["hidden"] = self.hidden
            value["hidden_until"] = self.hidden_until
            value["ended"] = self.has_ended
        return value

    def to_mark(self) -> bytes:
        """As an object of its own."""
        return sealed(self.to_json())

    @classmethod
    def from_mark(cls, data: bytes, *, account: str) -> LogProgress:
        """Read it back. account: of the queues. Raises Damaged."""
        return cls.from_json(unsealed(data), account=account)

    @classmethod
    def from_json(cls, value: object, *, account: str) -> LogProgress:
        """Read it back. account: of the queues. Raises Damaged."""
        found = object_of(value, "progress")
        owed, where = found.get("owed"), None
        if isinstance(owed, dict):
            where = OwedList.from_json(owed)
            owed = owed.get("more")
        return cls(
            claim=number(found, "claim"),
            sequence=number(found, "sequence"),
            named=number_or_0(found, "named"),
            committed=number(found, "committed"),
            done=number(found, "done"),
            owed=Owed.all_from_json(owed, account),
            began=FirstBatch.from_json(found) if "began" in found else None,
            leased_s=number_or_0(found, "leased"),
            hidden=number_or_0(found, "hidden"),
            hidden_until=number_or_0(found, "hidden_until"),
            owed_list=where,
            has_ended=found.get("ended") is True,
        )


def _owed(value: object, account: str) -> Owed:
    if not isinstance(value, list) or len(value) != 4:
        raise Damaged("one of its owed deletes is not valid")
    name, message_id, written, expires = value
    if not (
        isinstance(message_id, str)
        and is_message_id(message_id)
        and isinstance(written, str)
        and _FINGERPRINT.fullmatch(written)
        and type(expires) is int
        and 0 <= expires <= MOST
    ):
        raise Damaged("one of its owed deletes is not valid")
    return Owed(MessageKey(queue(name, account), message_id), int(written, 16), expires)
