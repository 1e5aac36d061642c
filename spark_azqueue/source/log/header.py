"""What a segment says besides its messages: whose it is, and how far its log has come.

Pure values. Everything read from a log is checked here before it steers anything; a value that the
log would not have written raises Damaged.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from spark_azqueue.service.fields import is_message_id
from spark_azqueue.service.messages import MOST_IN_A_BATCH, MessageKey, QueueRef, queue_name

from .names import MOST

SEGMENT_VERSION = 1
VERSION_WITH_LIST = 2
"""If owed deletes stand in a list of their own: earlier releases would not know of them."""

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
        values = dict(enumerate(_list(progress, "began", 2)))
        found = {"after": values.get(0), "last": values.get(1)}
        return cls(_number(found, "after"), _number(found, "last"))


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
        numbers = _list(value, "list", 2)
        if len(numbers) != 2:
            raise Damaged("its list of owed deletes has no name")
        named = dict(zip(("claim", "sequence"), numbers, strict=True))
        try:
            gone = base64.b64decode(str(value.get("gone")), validate=True)
        except ValueError:
            raise Damaged("its owed deletes are not valid") from None
        if len(gone) > OWED_AT_MOST // 8 + 1:
            raise Damaged("its owed deletes are too many")
        return cls(_number(named, "claim"), _number(named, "sequence"), gone)


@dataclass(frozen=True, slots=True)
class Progress:
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
    def from_mark(cls, data: bytes, *, account: str) -> Progress:
        """Read it back. account: of the queues. Raises Damaged."""
        return cls.from_json(unsealed(data), account=account)

    @classmethod
    def from_json(cls, value: object, *, account: str) -> Progress:
        """Read it back. account: of the queues. Raises Damaged."""
        found = _object(value, "progress")
        owed, where = found.get("owed"), None
        if isinstance(owed, dict):
            where = OwedList.from_json(owed)
            owed = owed.get("more")
        return cls(
            claim=_number(found, "claim"),
            sequence=_number(found, "sequence"),
            named=_number(found, "named") if "named" in found else 0,
            committed=_number(found, "committed"),
            done=_number(found, "done"),
            owed=Owed.all_from_json(owed, account),
            began=FirstBatch.from_json(found) if "began" in found else None,
            leased_s=_number(found, "leased") if "leased" in found else 0,
            hidden=_number(found, "hidden") if "hidden" in found else 0,
            hidden_until=_number(found, "hidden_until") if "hidden_until" in found else 0,
            owed_list=where,
            has_ended=found.get("ended") is True,
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
            "version": VERSION_WITH_LIST if self.progress.owed_list else SEGMENT_VERSION,
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
        if found.get("version") not in (SEGMENT_VERSION, VERSION_WITH_LIST):
            raise Damaged(
                f"its version is not {SEGMENT_VERSION} or {VERSION_WITH_LIST}:"
                " upgrade spark-azqueue if it is higher"
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
