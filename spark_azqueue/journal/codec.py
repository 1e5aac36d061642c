"""How objects of a log are checked when they are read: values that are not as written are refused.

Everything read from a log passes here before it steers anything.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any, Protocol

from spark_azqueue.errors import LogDamaged
from spark_azqueue.service.messages import QueueRef, queue_name
from spark_azqueue.service.names import Kind

MOST = 10**12 - 1
"""The highest number that a log counts to."""

_HEX = re.compile(r"[0-9a-f]+")
_WORD = re.compile(r"[!-~ ]{0,2000}")


class Damaged(ValueError):  # noqa: N818
    """An object of a log is not as it was written. The text says which part."""


class Located(Protocol):
    """What texts say of a log: a `LogStore` is one."""

    @property
    def kind(self) -> Kind:
        """Which kind of log it is."""

    @property
    def where(self) -> str:
        """Its folder."""


def damaged(place: Located, name: str, error: Damaged) -> LogDamaged:
    """The error of a query for this object."""
    kind, where = place.kind, place.where
    return LogDamaged(
        f"'{name}' in the {kind.words} {where} is not as it was written: {error}. Nothing was"
        f" read from it or written over it. Restore it, or {kind.last_resort}"
    )


def sealed(value: object) -> bytes:
    """A small object of a log: JSON, and a line with its digest."""
    data = json.dumps(value, separators=(",", ":")).encode()
    return data + b"\n" + digest_of(data).encode()


def unsealed(data: bytes) -> object:
    """Read it back. Raises Damaged."""
    text, _, digest = data.rpartition(b"\n")
    if digest_of(text).encode() != digest:
        raise Damaged("its digest does not fit its bytes")
    return loaded(text)


def loaded(data: bytes) -> object:
    """The value of this JSON. Raises Damaged."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise Damaged("it is not JSON") from None


def digest_of(data: bytes) -> str:
    """BLAKE2b of 16 bytes, as 32 hexadecimal digits."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


# Each of these reads one value. They raise Damaged.


def object_of(value: object, what: str) -> Mapping[str, Any]:
    """An object, with any keys. what: its name in the error."""
    if not isinstance(value, dict):
        raise Damaged(f"its {what} is missing")
    return value


def list_of(found: Mapping[str, Any], name: str, most: int) -> list[Any]:
    """A list of at most so many values."""
    value = found.get(name)
    if not isinstance(value, list) or len(value) > most:
        raise Damaged(f"'{name}' is missing or too long")
    return value


def number(found: Mapping[str, Any], name: str, least: int = 0) -> int:
    """A whole number that a log can hold."""
    value = found.get(name)
    if type(value) is not int or not least <= value <= MOST:
        raise Damaged(f"'{name}' is missing or not valid")
    return value


def number_or_0(found: Mapping[str, Any], name: str) -> int:
    """The same; 0 if an earlier release did not write it."""
    return number(found, name) if name in found else 0


def text(found: Mapping[str, Any], name: str) -> str:
    """A short text of printable ASCII."""
    value = found.get(name)
    if not isinstance(value, str) or not _WORD.fullmatch(value):
        raise Damaged(f"'{name}' is missing or not valid")
    return value


def hexadecimal(found: Mapping[str, Any], name: str) -> str:
    """A text of up to 64 hexadecimal digits."""
    value = found.get(name)
    if not isinstance(value, str) or len(value) > 64 or not _HEX.fullmatch(value):
        raise Damaged(f"'{name}' is missing or not valid")
    return value


def queue(value: object, account: str) -> QueueRef:
    """A queue of this account."""
    try:
        if isinstance(value, str) and queue_name(value) == value:
            return QueueRef(account, value)
    except ValueError:
        pass
    raise Damaged("the name of one of its queues is not valid")
