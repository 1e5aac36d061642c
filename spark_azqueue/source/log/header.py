"""What a segment says besides its messages: whose it is, and how far its log has come.

Pure values. Everything read from a log is checked here before it steers anything; a value that the
log would not have written raises Damaged.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from spark_azqueue.service.fields import is_message_id
from spark_azqueue.service.messages import MOST_IN_A_BATCH, MessageKey, QueueRef, queue_name

from .names import MOST

SEGMENT_VERSION = 1

OWED_AT_MOST = 50_000
"""How many owed deletes a header lists (some 100 bytes each); the newest are kept.

A kill can leave as many as two batches have, and what is really still there comes back when its
lease ends. So this covers several kills within one lease.
"""

_QUEUES_AT_MOST = 10_000
_READING_AT_MOST = 20
_HEX = re.compile(r"[0-9a-f]+")
_WORD = re.compile(r"[!-~ ]{0,2000}")


class Damaged(ValueError):  # noqa: N818
    """An object of a log is not as it was written. The text says which part."""


@dataclass(frozen=True, slots=True)
class Owed:
    """A message whose rows were given out and whose delete was not confirmed.

    fingerprint: of its text, see `known.fingerprint`. expires: seconds since 1970, 0 if unknown.
    """

    key: MessageKey
    fingerprint: int
    expires: int


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a log has come, as the holder of claim `claim` wrote it down the `sequence`th time.

    named: the newest segment that is known to stand in Spark's checkpoint. committed: the newest
    segment proven committed. done: deletes have ended up to this segment. owed: of those, the
    messages that may come again. began: the newest checkpoint's first batch begins behind this
    segment; None if an earlier release wrote it, or if Spark has not said yet. hidden_until: when
    the last lease of an owed message ends at the latest, seconds since 1970, 0 if unknown.
    """

    claim: int = 0
    sequence: int = 0
    named: int = 0
    committed: int = 0
    done: int = 0
    owed: tuple[Owed, ...] = ()
    began: int | None = None
    hidden_until: int = 0

    @property
    def age(self) -> tuple[int, int]:
        """Later ones are greater."""
        return self.claim, self.sequence

    def to_json(self) -> dict[str, Any]:
        """Plain values; the newest `OWED_AT_MOST` owed deletes."""
        value: dict[str, Any] = {
            "claim": self.claim,
            "sequence": self.sequence,
            "named": self.named,
            "committed": self.committed,
            "done": self.done,
            "owed": [
                [
                    each.key.queue.name,
                    each.key.message_id,
                    f"{each.fingerprint:016x}",
                    each.expires,
                ]
                for each in self.owed[-OWED_AT_MOST:]
            ],
        }
        if self.began is not None:
            value["began"] = self.began
        if self.owed:
            value["hidden_until"] = self.hidden_until
        return value

    def to_mark(self) -> bytes:
        """As an object of its own."""
        return sealed(self.to_json())

    @classmethod
    def from_mark(cls, data: bytes, *, account: str) -> Progress:
        """Read it back. account: of the queues. Raises Damaged."""
        return cls.from_json(unsealed(data), account=account)

    @classmethod
    def from_json(cls, value: object, *, account: str) -> Progress:
        """Read it back. account: of the queues. Raises Damaged."""
        found = _object(value, "progress")
        owed = found.get("owed")
        if not isinstance(owed, list) or len(owed) > OWED_AT_MOST:
            raise Damaged("its owed deletes are missing or too many")
        return cls(
            claim=_number(found, "claim"),
            sequence=_number(found, "sequence"),
            named=_number(found, "named") if "named" in found else 0,
            committed=_number(found, "committed"),
            done=_number(found, "done"),
            owed=tuple(_owed(each, account) for each in owed),
            began=_number(found, "began") if "began" in found else None,
            hidden_until=_number(found, "hidden_until") if "hidden_until" in found else 0,
        )


@dataclass(frozen=True, slots=True)
class Header:
    """What stands at the head of segment `number` of log `log`, written by process `writer`.

    prev: digest of the segment before, "" for the first of a log. floor: segments up to this one
    may be removed. queues: the queues that were read. reading: the options that make rows of
    messages, by name. cut: rows in each partition. oldest: earliest insertion, seconds since 1970,
    None if unknown. suspect: one of its messages may be poison.
    """

    log: str
    number: int
    writer: str
    account: str
    prev: str = ""
    floor: int = 0
    progress: Progress = field(default_factory=Progress)
    queues: tuple[QueueRef, ...] = ()
    reading: Mapping[str, str] = field(default_factory=dict)
    cut: tuple[int, ...] = ()
    oldest: int | None = None
    suspect: bool = False

    @property
    def messages(self) -> int:
        """How many messages the segment holds."""
        return sum(self.cut)

    def to_bytes(self) -> bytes:
        """As JSON."""
        value = {
            "version": SEGMENT_VERSION,
            "log": self.log,
            "number": self.number,
            "writer": self.writer,
            "account": self.account,
            "prev": self.prev,
            "floor": self.floor,
            "progress": self.progress.to_json(),
            "queues": [queue.name for queue in self.queues],
            "reading": dict(self.reading),
            "cut": list(self.cut),
            "oldest": self.oldest,
            "suspect": self.suspect,
        }
        return json.dumps(value, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Header:
        """Read it back. Raises Damaged."""
        found = _object(_loaded(data), "header")
        if found.get("version") != SEGMENT_VERSION:
            raise Damaged(
                f"its version is not {SEGMENT_VERSION}: upgrade spark-azqueue if it is higher"
            )
        account = _text(found, "account")
        return cls(
            log=_hex(found, "log"),
            number=_number(found, "number", least=1),
            writer=_hex(found, "writer"),
            account=account,
            prev=_hex(found, "prev") if found.get("prev") else "",
            floor=_number(found, "floor"),
            progress=Progress.from_json(found.get("progress"), account=account),
            queues=tuple(_queue(name, account) for name in _list(found, "queues", _QUEUES_AT_MOST)),
            reading=_reading(found.get("reading")),
            cut=_cut(_list(found, "cut", MOST_IN_A_BATCH)),
            oldest=None if found.get("oldest") is None else _number(found, "oldest"),
            suspect=found.get("suspect") is True,
        )


def sealed(value: object) -> bytes:
    """A small object of a log: JSON, and a line with its digest."""
    data = json.dumps(value, separators=(",", ":")).encode()
    return data + b"\n" + _digest(data)


def unsealed(data: bytes) -> object:
    """Read it back. Raises Damaged."""
    text, _, digest = data.rpartition(b"\n")
    if _digest(text) != digest:
        raise Damaged("its digest does not fit its bytes")
    return _loaded(text)


def _loaded(data: bytes) -> object:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise Damaged("it is not JSON") from None


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).hexdigest().encode()


def _object(value: object, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise Damaged(f"its {what} is missing")
    return value


def _list(found: Mapping[str, Any], name: str, most: int) -> list[Any]:
    value = found.get(name)
    if not isinstance(value, list) or len(value) > most:
        raise Damaged(f"'{name}' is missing or too long")
    return value


def _number(found: Mapping[str, Any], name: str, least: int = 0) -> int:
    value = found.get(name)
    if type(value) is not int or not least <= value <= MOST:
        raise Damaged(f"'{name}' is missing or not valid")
    return value


def _text(found: Mapping[str, Any], name: str) -> str:
    value = found.get(name)
    if not isinstance(value, str) or not _WORD.fullmatch(value):
        raise Damaged(f"'{name}' is missing or not valid")
    return value


def _hex(found: Mapping[str, Any], name: str) -> str:
    value = found.get(name)
    if not isinstance(value, str) or len(value) > 64 or not _HEX.fullmatch(value):
        raise Damaged(f"'{name}' is missing or not valid")
    return value


def _queue(value: object, account: str) -> QueueRef:
    try:
        if isinstance(value, str) and queue_name(value) == value:
            return QueueRef(account, value)
    except ValueError:
        pass
    raise Damaged("the name of one of its queues is not valid")


def _owed(value: object, account: str) -> Owed:
    if not isinstance(value, list) or len(value) != 4:
        raise Damaged("one of its owed deletes is not valid")
    queue, message_id, fingerprint, expires = value
    if not (
        isinstance(message_id, str)
        and is_message_id(message_id)
        and isinstance(fingerprint, str)
        and len(fingerprint) == 16
        and _HEX.fullmatch(fingerprint)
        and type(expires) is int
        and 0 <= expires <= MOST
    ):
        raise Damaged("one of its owed deletes is not valid")
    return Owed(MessageKey(_queue(queue, account), message_id), int(fingerprint, 16), expires)


def _cut(values: Sequence[object]) -> tuple[int, ...]:
    cut = tuple(value for value in values if type(value) is int and value > 0)
    if len(cut) != len(values) or not 0 < sum(cut) <= MOST_IN_A_BATCH:
        raise Damaged("its partitions are not valid")
    return cut


def _reading(value: object) -> Mapping[str, str]:
    found = _object(value, "options")
    if len(found) > _READING_AT_MOST:
        raise Damaged("it names too many options")
    return {name: _text(found, name) for name in found}
