"""Splitting of a stored pack into packs of fewer rows or lines of JSON, for the command line."""

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
"""Parts of a pack that has more rows. Isolation cannot halve a single message."""

PARTS = 32
_NAMES_AT_MOST = 1_000
_BOUNDS = PackBounds()


@dataclass(frozen=True, slots=True)
class StoredPack:
    """A pack as a queue stores it. wraps: converts the bytes of a pack to the text to store."""

    body: PackBody
    wraps: Callable[[bytes], str]

    def about(self) -> dict[str, Any]:
        """Return the pack's format, version, rows and bytes, for people and scripts.

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
        """Return the rows as JSON. Raises CorruptPack, and InvalidRow if JSON cannot hold a value.

        The limit on the bytes of rows applies to the lines, too, because JSON repeats the names.
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
        """Yield the texts of packs with one row each, or of 32 packs for more than 1,000 rows.

        In order.

        Yields nothing for a pack of at most one row. Raises CorruptPack, and InvalidRow for a part
        that readers would refuse.
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
    """Return the lines.

    Every first line of `size` lines also has the names of all others, with null.

    A reader refuses a message that has none of its columns, although `{}` beside other rows is a
    row of NULLs. Lines that readers refuse stay unchanged, and so do all lines if they have too
    many names.
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
    """Return the pack in a message's text, for any `messageEncoding`; None if there is no pack.

    In a queue with base64, a text pack is encoded in base64 twice.
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
    """Return the texts that replace a message's text: the parts of a pack, or the text itself.

    Returns the text itself, too, if a part does not fit into a message: another writer may have
    compressed the rows better.
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
