"""How objects of a log are written, and checked when they are read.

Everything read from a log passes here before it steers anything. A value that is an object of a log
declares how on its fields, see `Coded`; what is not as it was written raises Damaged.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, get_type_hints

from spark_azqueue.service.messages import QueueRef, is_queue_name
from spark_azqueue.service.names import Kind

HIGHEST = 10**12 - 1
"""The highest number that a log counts to."""

LATEST = 253_402_300_800
"""The year 10000, in seconds since 1970: no time is so late."""

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


def sealed(value: object) -> bytes:
    """A small object of a log: JSON, and a line with its digest."""
    data = compact(value)
    return data + b"\n" + digest_of(data).encode()


def compact(value: object) -> bytes:
    """JSON without blanks."""
    return json.dumps(value, separators=(",", ":")).encode()


def unsealed(data: bytes, most: int | None = None) -> object:
    """Read it back. most: see `loaded`. Raises Damaged."""
    text, _, digest = data.rpartition(b"\n")
    if digest_of(text).encode() != digest:
        raise Damaged("its digest does not fit its bytes")
    return loaded(text, most)


def loaded(data: bytes, most: int | None = None) -> object:
    """The value of this JSON. Raises Damaged.

    most: values that it may have; None if it is small. They are counted before they are made: one
    of two bytes takes up to seventy of memory.
    """
    if most is not None and sum(map(data.count, (b",", b"[", b"{"))) > most:
        raise Damaged("it has too many values")
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
    """A list of at most `most` values."""
    value = found.get(name)
    if not isinstance(value, list) or len(value) > most:
        raise Damaged(f"'{name}' is missing or too long")
    return value


def number(found: Mapping[str, Any], name: str, least: int = 0, most: int = HIGHEST) -> int:
    """A whole number that a log can hold."""
    value = found.get(name)
    if type(value) is not int or not least <= value <= most:
        raise Damaged(f"'{name}' is missing or not valid")
    return value


def time(found: Mapping[str, Any], name: str) -> int:
    """A time in seconds since 1970."""
    return number(found, name, most=LATEST - 1)


def number_or_0(found: Mapping[str, Any], name: str) -> int:
    """A number, see `number`; 0 if an earlier release did not write it."""
    return number(found, name) if name in found else 0


def flag(found: Mapping[str, Any], name: str) -> bool:
    """True or false; false if an earlier release did not write it."""
    value = found.get(name, False)
    if not isinstance(value, bool):
        raise Damaged(f"'{name}' is neither true nor false")
    return value


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
    if isinstance(value, str) and is_queue_name(value):
        return QueueRef(account, value)
    raise Damaged("the name of one of its queues is not valid")


def of_version(value: object, what: str, *versions: int) -> Mapping[str, Any]:
    """An object of one of these versions. what: its name in the error."""
    found = object_of(value, what)
    if found.get("version") not in versions:
        known = " or ".join(map(str, versions))
        raise Damaged(f"its version is not {known}: use the release that wrote it, or a newer one")
    return found


@dataclass(frozen=True)
class Coded:
    """Marks a field that an object of a log has: `deleted: Annotated[int, COUNT] = 0`.

    read: the value of an object, by its name there; raises Damaged. Queues are of its "account".
    write: as plain values, None for itself. name: in the object, "" for that of the field. is_late:
    a value that is false is left out, and an object without it has the default. is_spread: it is
    several values of the object.
    """

    read: Callable[[Mapping[str, Any], str], Any]
    write: Callable[[Any], Any] | None = None
    name: str = ""
    is_late: bool = False
    is_spread: bool = False


COUNT = Coded(number)
COUNT_OR_0 = Coded(number_or_0)
HEXADECIMAL = Coded(hexadecimal)
TEXT = Coded(text)
FLAG = Coded(flag)
TIME = Coded(time)
MAYBE_TIME = Coded(lambda found, name: None if found.get(name) is None else time(found, name))
"""A time, or null."""
TAG = Coded(lambda found, name: hexadecimal(found, name) if found.get(name) else "")
"""Hexadecimal digits, or none."""


def several(most: int, read: Callable[[object, str], Any], write: Callable[[Any], Any]) -> Coded:
    """A list of at most `most`. read: one of them, with the account of its queues."""
    return Coded(
        lambda found, name: tuple(
            read(each, found["account"]) for each in list_of(found, name, most)
        ),
        lambda value: [write(each) for each in value],
    )


def queues(most: int) -> Coded:
    """Names of queues, at most `most`."""
    return several(most, queue, lambda each: each.name)


def part_of(kind: type[Any], what: str) -> Coded:
    """An object in an object. what: its name in the error."""
    return Coded(
        lambda found, name: kind(**read_fields(kind, object_of(found.get(name), what))), as_json
    )


def as_json(value: Any) -> dict[str, Any]:
    """The fields of a value that are marked, in their order, as plain values."""
    found: dict[str, Any] = {}
    kind: Any = type(value)
    for name, each in _stored(kind).items():
        field = getattr(value, name)
        if field or not each.is_late:
            plain = each.write(field) if each.write else field
            found |= plain if each.is_spread else {each.name or name: plain}
    return found


def read_fields(kind: Any, found: Mapping[str, Any]) -> dict[str, Any]:
    """These fields of an object, checked. Raises Damaged."""
    return {
        name: each.read(found, each.name or name)
        for name, each in _stored(kind).items()
        if not each.is_late or (each.name or name) in found
    }


@functools.cache
def _stored(kind: Hashable) -> Mapping[str, Coded]:
    hints = get_type_hints(kind, include_extras=True)
    marks = {name: getattr(hint, "__metadata__", ()) for name, hint in hints.items()}
    return {name: mark[0] for name, mark in marks.items() if mark}
