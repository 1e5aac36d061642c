"""Splits a stored pack into smaller packs or lines of JSON, for the command line."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from spark_azqueue.errors import InvalidRow
from spark_azqueue.service.encoding import MAX_STORED_BYTES

from .bodies import FORMATS, BodyKind, PackBody, all_rows, body_of
from .bounds import Budget, CorruptPack, PackBounds
from .json_format import least_bytes, lines_of
from .json_values import parsed

ALONE_AT_MOST = 1_000
"""Number of parts into which a pack with more than `ALONE_AT_MOST` rows is split. Splitting is
needed because the isolation of poison messages cannot cut a message."""

PARTS = 32
_NAMES_AT_MOST = 1_000
_BOUNDS = PackBounds()


@dataclass(frozen=True, slots=True)
class StoredPack:
    """A pack in the form that a queue stores.

    wraps: converts the bytes of a pack to the text that a queue stores.
    """

    body: PackBody
    wraps: Callable[[bytes], str]

    def about(self) -> dict[str, Any]:
        """Return the pack's format, version, number of rows and number of bytes.

        If the pack cannot be opened, `rows` is missing and `error` says why.
        """
        fields: dict[str, Any] = {"format": self.body.kind.value, "version": self.body.version}
        fields["bytes"] = len(self.body.data)
        if not self.body.kind.is_pack:
            return fields
        try:
            return fields | {"rows": sum(map(len, self._pieces()))}
        except CorruptPack as error:
            return fields | {"error": str(error)}

    def lines(self) -> list[str]:
        """Return the rows as JSON. Raises CorruptPack, and InvalidRow for a value that JSON cannot
        represent.

        The limit on the bytes of rows also applies to the lines, because JSON repeats the names of
        columns in every line.
        """
        lines: list[str] = []
        pieces = self._pieces()
        names, texts = Budget(_BOUNDS.max_bytes), Budget(_BOUNDS.max_bytes)
        try:
            for piece in pieces:
                if isinstance(piece, list):
                    lines += [line.decode("utf-8", "replace") for line in piece]
                    continue
                names.take(least_bytes(piece))
                for line in lines_of(piece):
                    texts.take(len(line))
                    lines.append(line)
        except (CorruptPack, InvalidRow):
            raise
        except Exception as error:
            raise CorruptPack(f"its rows cannot be shown ({type(error).__name__})") from error
        return lines

    def parts(self) -> Iterator[str]:
        """Yield the texts of packs that replace this pack, in the order of the rows.

        Each of these packs has one row. If this pack has more than 1,000 rows, there are 32 packs.

        If this pack has at most one row, no text is yielded. Raises CorruptPack, and InvalidRow for
        a part that readers would refuse.
        """
        chosen = FORMATS[self.body.kind.value]
        pieces = self._pieces()
        count = sum(map(len, pieces))
        if count <= 1:
            return
        size = 1 if count <= ALONE_AT_MOST else -(-count // PARTS)
        if self.body.kind is BodyKind.JSON:
            pieces = [_naming_all(pieces[0], size)]
        for piece in pieces:
            for start in range(0, len(piece), size):
                yield self.wraps(chosen.packed(piece[start : start + size]))

    def _pieces(self) -> Sequence[Any]:
        try:
            found = all_rows(self.body, _BOUNDS)
        except CorruptPack:
            raise
        except Exception as error:
            raise CorruptPack(f"it cannot be read ({type(error).__name__})") from error
        return [found] if self.body.kind is BodyKind.JSON else found


def _naming_all(lines: Sequence[bytes], size: int) -> Sequence[bytes]:
    """Add all names of the pack to the first line of each part, and return the lines.

    A part has `size` lines. Names that the first line of a part does not have are added with the
    value null.

    Without these names, a reader could refuse a part because it has none of the reader's columns,
    although the reader accepts the whole pack, in which `{}` is a row of NULLs. If a line cannot be
    parsed, or if there are too many names, all lines are returned unchanged.
    """
    names: dict[str, str] = {}
    objects: list[dict[str, Any]] = []
    for line in lines:
        try:
            row = parsed(line)
        except (CorruptPack, ValueError, RecursionError):
            return lines
        if not isinstance(row, dict):
            return lines
        names |= {name.lower(): name for name in row}
        if len(names) > _NAMES_AT_MOST:
            return lines
        objects.append({name.lower(): None for name in row})
    named = list(lines)
    for place in range(0, len(lines), size):
        own = objects[place]
        more = [json.dumps(name) for low, name in names.items() if low not in own]
        if more:
            begin = lines[place].rstrip()[:-1] + (b"," if own else b"")
            named[place] = begin + ",".join(f"{each}:null" for each in more).encode() + b"}"
    return named


def stored_pack(text: str) -> StoredPack | None:
    """Return the pack in a message's text; None if the text is no pack. `messageEncoding` need not
    be known.

    A pack with `body="text"` in a queue with base64 messages is in base64 twice.
    """
    for wraps, inner in ((_once, text), (_twice, _decoded(text))):
        try:
            body = body_of(inner, _BOUNDS.max_bytes) if inner else None
        except (CorruptPack, ValueError):
            continue
        if body and body.kind in (BodyKind.ARROW, BodyKind.JSON, BodyKind.UNKNOWN):
            return StoredPack(body, wraps)
    return None


def split(text: str) -> list[str]:
    """Return the texts that replace a message's text: the parts of a pack, or the same text.

    If a part does not fit into a message, returns the same text. A part can be too large if another
    writer compressed the rows better.
    """
    pack = stored_pack(text)
    if pack is None or not pack.body.kind.is_pack:
        return [text]
    parts: list[str] = []
    try:
        for part in pack.parts():
            if len(part) > MAX_STORED_BYTES:
                return [text]
            parts.append(part)
    except (CorruptPack, InvalidRow):
        return [text]
    return parts or [text]


def _decoded(text: str) -> str:
    try:
        return base64.b64decode(text, validate=True).decode("ascii")
    except (binascii.Error, ValueError):
        return ""


def _once(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _twice(data: bytes) -> str:
    return _once(base64.b64encode(data))
