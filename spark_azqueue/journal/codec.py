"""Encoding of objects of a log, and checks of objects that are read.

Every value from a log is checked here before the package uses it. A class whose instances are
stored in a log declares the encoding of its fields; see `Coded`. Reading a damaged object raises
Damaged.
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
"""Highest number that a name in a log can have."""

LATEST = 253_402_300_800
"""Start of the year 10000, in seconds since 1970; every valid time is earlier."""

_HEX = re.compile(r"[0-9a-f]+")
_WORD = re.compile(r"[!-~ ]{0,2000}")


class Damaged(ValueError):  # noqa: N818
    """Error for a damaged object of a log. Its text names the damaged part."""


class Located(Protocol):
    """Kind and place of a log, for messages. A `LogStore` implements this protocol."""

    @property
    def kind(self) -> Kind:
        """Kind of the log."""

    @property
    def where(self) -> str:
        """Folder of the log."""


def sealed(value: object) -> bytes:
    """Encode a small object of a log as JSON, followed by a line with the digest of the JSON."""
    data = compact(value)
    return data + b"\n" + digest_of(data).encode()


def compact(value: object) -> bytes:
    """Encode a value as JSON without spaces."""
    return json.dumps(value, separators=(",", ":")).encode()


def unsealed(data: bytes, most: int | None = None) -> object:
    """Decode a sealed object. most: see `loaded`. Raises Damaged."""
    text, _, digest = data.rpartition(b"\n")
    if digest_of(text).encode() != digest:
        raise Damaged("its digest does not match its bytes")
    return loaded(text, most)


def loaded(data: bytes, most: int | None = None) -> object:
    """Decode JSON. Raises Damaged.

    most: maximum number of values in the JSON; None for no limit. Values are counted before the
    JSON is decoded, because a value of two bytes can take seventy bytes of memory.
    """
    if most is not None and sum(map(data.count, (b",", b"[", b"{"))) > most:
        raise Damaged("it has too many values")
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise Damaged("it is not JSON") from None


def digest_of(data: bytes) -> str:
    """Return the BLAKE2b digest of the data: 16 bytes, as 32 hexadecimal digits."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


# Each of the following functions reads one value, and raises Damaged.


def object_of(value: object, what: str) -> Mapping[str, Any]:
    """Check that a value is a JSON object, and return it. what: name of the object in the error."""
    if not isinstance(value, dict):
        raise Damaged(f"its {what} is missing")
    return value


def list_of(found: Mapping[str, Any], name: str, most: int) -> list[Any]:
    """Return a list with at most `most` values."""
    value = found.get(name)
    if not isinstance(value, list) or len(value) > most:
        raise Damaged(f"'{name}' is missing or too long")
    return value


def number(found: Mapping[str, Any], name: str, least: int = 0, most: int = HIGHEST) -> int:
    """Return a whole number from `least` to `most`."""
    value = found.get(name)
    if type(value) is not int or not least <= value <= most:
        raise Damaged(f"'{name}' is missing or not valid")
    return value


def time(found: Mapping[str, Any], name: str) -> int:
    """Return a time in seconds since 1970."""
    return number(found, name, most=LATEST - 1)


def number_or_0(found: Mapping[str, Any], name: str) -> int:
    """Return a whole number, or 0 if an earlier release did not write the number."""
    return number(found, name) if name in found else 0


def flag(found: Mapping[str, Any], name: str) -> bool:
    """Return a flag, or False if an earlier release did not write the flag."""
    value = found.get(name, False)
    if not isinstance(value, bool):
        raise Damaged(f"'{name}' is neither true nor false")
    return value


def text(found: Mapping[str, Any], name: str) -> str:
    """Return a short text of printable ASCII."""
    value = found.get(name)
    if not isinstance(value, str) or not _WORD.fullmatch(value):
        raise Damaged(f"'{name}' is missing or not valid")
    return value


def hexadecimal(found: Mapping[str, Any], name: str) -> str:
    """Return a text of at most 64 hexadecimal digits."""
    value = found.get(name)
    if not isinstance(value, str) or len(value) > 64 or not _HEX.fullmatch(value):
        raise Damaged(f"'{name}' is missing or not valid")
    return value


def queue(value: object, account: str) -> QueueRef:
    """Return a queue of this account."""
    if isinstance(value, str) and is_queue_name(value):
        return QueueRef(account, value)
    raise Damaged("the name of one of its queues is not valid")


def of_version(value: object, what: str, *versions: int) -> Mapping[str, Any]:
    """Return an object that has one of these versions. what: name of the object in the error."""
    found = object_of(value, what)
    if found.get("version") not in versions:
        known = " or ".join(map(str, versions))
        raise Damaged(f"its version is not {known}: use the release that wrote it, or a newer one")
    return found


@dataclass(frozen=True)
class Coded:
    """Encoding of a field of an object in a log: `deleted: Annotated[int, COUNT] = 0`.

    read: reads the value with this name from an object, and raises Damaged; the object's "account"
    is the storage account of its queues. write: converts the field to plain values; None if the
    field is a plain value. name: name of the value in the object; "" if it is the name of the
    field. is_late: earlier releases lack the field. So a falsy value is not written, and if an
    object lacks the value, the field gets its default. is_spread: the field is stored as several
    values of the object.
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
"""Encoding of a time or null."""
TAG = Coded(lambda found, name: hexadecimal(found, name) if found.get(name) else "")
"""Encoding of hexadecimal digits or null."""


def several(most: int, read: Callable[[object, str], Any], write: Callable[[Any], Any]) -> Coded:
    """Encoding of a list of at most `most` values.

    read: reads one value; its second argument is the storage account of the queues.
    """
    return Coded(
        lambda found, name: tuple(
            read(each, found["account"]) for each in list_of(found, name, most)
        ),
        lambda value: [write(each) for each in value],
    )


def queues(most: int) -> Coded:
    """Encoding of at most `most` names of queues."""
    return several(most, queue, lambda each: each.name)


def part_of(kind: type[Any], what: str) -> Coded:
    """Encoding of an object inside an object. what: name of the inner object in the error."""
    return Coded(
        lambda found, name: kind(**read_fields(kind, object_of(found.get(name), what))), as_json
    )


def as_json(value: Any) -> dict[str, Any]:
    """Return the fields that are declared with `Coded` as plain values, in order."""
    found: dict[str, Any] = {}
    kind: Any = type(value)
    for name, each in _stored(kind).items():
        field = getattr(value, name)
        if field or not each.is_late:
            plain = each.write(field) if each.write else field
            found |= plain if each.is_spread else {each.name or name: plain}
    return found


def read_fields(kind: Any, found: Mapping[str, Any]) -> dict[str, Any]:
    """Read and check the fields of an object. Raises Damaged."""
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
