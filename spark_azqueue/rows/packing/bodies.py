"""Classifies the body of a message: a pack in one of two formats, a JSON object, or other text."""

from __future__ import annotations

import base64
import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from spark_azqueue.service.blobs.references import MARK
from spark_azqueue.service.envelopes import envelope_of

from . import arrow_format, json_format
from .arrow_format import ArrowFormat, open_arrow
from .bounds import CorruptPack, PackBounds
from .json_format import JsonFormat, lines_in, unzipped
from .json_values import parsed, rows_of_lines

FULL_BYTES = 44 * 1_024
"""Maximum size in bytes, before base64, of a pack with several rows. If such a pack is
dead-lettered, its envelope still fits into a message."""

_MARK = "azqpack"
_VERSION = "1"
_ZIPPED = "H4sI"
_EVENTS: dict[str, frozenset[str]] = {
    "a CloudEvent": frozenset({"specversion", "id", "source", "type"}),
    "an event of Event Grid": frozenset({"id", "eventType", "subject", "eventTime"}),
}


class BodyKind(str, enum.Enum):
    """Kind of a body. The values are the names of the formats."""

    ARROW = "arrow"
    JSON = "json"
    OBJECT = "object"
    UNKNOWN = "unknown"
    """A pack of a version that this release cannot read."""
    OTHER = "other"

    @property
    def is_pack(self) -> bool:
        """True for a pack that this release can open."""
        return self in (BodyKind.ARROW, BodyKind.JSON)


class Format(Protocol):
    """Interface for writing packs in one format. `rows` may have any type that supports `len` and
    slices."""

    def prepared(self, rows: pa.RecordBatch, /) -> Any:
        """Convert rows to the form that `packed` takes."""

    def joined(self, pieces: Any, /) -> Any:
        """Join several pieces into one."""

    def size(self, rows: Any, /) -> int:
        """Return the approximate size, in bytes, of these rows after a pack is opened."""

    def packed(self, rows: Any, /) -> bytes:
        """Return the bytes of a pack."""


FORMATS: Mapping[str, Format] = {"arrow": ArrowFormat(), "json": JsonFormat()}


@dataclass(frozen=True, slots=True)
class PackBody:
    """A classified body. data: the bytes of a pack. text: the text of a body that is no pack."""

    kind: BodyKind
    data: bytes = b""
    text: str = ""
    version: str = ""


def body_of(body: str | bytes, most: int) -> PackBody:
    """Classify a body. most: largest allowed size in bytes.

    Raises CorruptPack for a larger body, and ValueError if the body is not base64.
    """
    if isinstance(body, bytes):
        if len(body) > most:
            raise CorruptPack(f"it is larger than max_bytes={most:,}")
        if body[:5] == arrow_format.MAGIC[:5] or body[:3] == json_format.MAGIC:
            return _pack(base64.b64encode(body[:6]).decode(), body)
        body = body.decode("utf-8")
    if not body.startswith((_MARK, _ZIPPED)):
        is_object = body.lstrip(" \t\r\n").startswith("{")
        return PackBody(BodyKind.OBJECT if is_object else BodyKind.OTHER, text=body)
    if len(body) // 4 * 3 > most:
        raise CorruptPack(f"it is larger than max_bytes={most:,}")
    return _pack(body, base64.b64decode(body, validate=True))


def _pack(text: str, data: bytes) -> PackBody:
    """Classify bytes that may be a pack. text: the beginning of the body's base64."""
    if text.startswith(_ZIPPED):
        return PackBody(BodyKind.JSON, data, version=_VERSION)
    version = text[len(_MARK) : len(_MARK) + 1]
    kind = BodyKind.ARROW if version == _VERSION and text.startswith(_MARK) else BodyKind.UNKNOWN
    return PackBody(kind, data, version=version)


def rows_of(
    body: str | bytes | None, wanted: pa.Schema, bounds: PackBounds
) -> list[pa.RecordBatch]:
    """Return the rows of a message, with the columns of `wanted`.

    Raises CorruptPack with the reason.

    A body that is a JSON object is a message of one row. An error of a library, even MemoryError,
    is raised as CorruptPack, because the message caused the error. Only ImportError is raised
    unchanged.
    """
    if body is None:
        raise CorruptPack(
            "its body is NULL: its text is not as messageEncoding and bodyType say, or its blob is"
            " lost"
        )
    try:
        return _rows(body_of(body, bounds.max_bytes), wanted, bounds)
    except (CorruptPack, ImportError):
        raise
    except Exception as error:
        raise CorruptPack(f"it cannot be read ({type(error).__name__})") from error


def _rows(body: PackBody, wanted: pa.Schema, bounds: PackBounds) -> list[pa.RecordBatch]:
    if body.kind is BodyKind.ARROW:
        return open_arrow(body.data, wanted, bounds)
    if body.kind is BodyKind.JSON:
        lines = lines_in(unzipped(body.data, bounds), bounds)
        return rows_of_lines(lines, wanted, bounds)
    if body.kind is BodyKind.UNKNOWN:
        raise CorruptPack(
            f"it is a pack of version '{body.version}', and this release reads '{_VERSION}'"
        )
    if body.kind is BodyKind.OTHER:
        raise CorruptPack("it is neither a pack nor a JSON object")
    if len(body.text) > bounds.max_bytes:
        raise CorruptPack(f"it is larger than max_bytes={bounds.max_bytes:,}")
    _refuse_foreign(body.text, wanted)
    return rows_of_lines([body.text], wanted, bounds)


def _refuse_foreign(text: str, wanted: pa.Schema) -> None:
    """Raise CorruptPack for a JSON object that is no row, although it may have a column of the
    schema."""
    if text.startswith(MARK):
        raise CorruptPack("it refers to a blob: read the queue with largeBody=blob")
    if envelope_of(text) is not None:
        raise CorruptPack("it is the envelope of a dead letter: `redrive` sends what is in it")
    value = parsed(text)
    names = value.keys() if isinstance(value, dict) else set()
    for what, marks in _EVENTS.items():
        if marks <= names and not marks <= set(wanted.names):
            raise CorruptPack(f"it is {what}: read those with parsed_events")


def all_rows(body: PackBody, bounds: PackBounds) -> list[pa.RecordBatch] | list[bytes]:
    """Return a pack's rows with all columns, as record batches or as lines of JSON.

    The lines are not parsed. Raises CorruptPack, and errors of libraries.
    """
    if body.kind is BodyKind.ARROW:
        return open_arrow(body.data, None, bounds)
    if body.kind is BodyKind.JSON:
        return list(lines_in(unzipped(body.data, bounds), bounds))
    raise CorruptPack("it is no pack of a version that this release knows")
