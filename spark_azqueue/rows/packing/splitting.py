"""A stored pack as packs of fewer rows, and as lines of JSON, for the command line."""

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
"""A pack with more rows is split into this many parts: isolation halves no single message."""

PARTS = 32
_NAMES_AT_MOST = 1_000
_BOUNDS = PackBounds()


@dataclass(frozen=True, slots=True)
class StoredPack:
    """A pack as a queue stores it. wraps: makes the text to store of its bytes."""

    body: PackBody
    wraps: Callable[[bytes], str]

    def about(self) -> dict[str, Any]:
        """What it is, for people and scripts: format, version, rows and bytes.

        Without rows if it cannot be opened; then `error` says why.
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
        """Its rows as JSON. Raises CorruptPack, and InvalidRow for what JSON does not hold.

        The bytes of the lines have the bound that those of rows have: JSON repeats the names.
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
        """The texts of packs with one row each, or of 32 if it has very many. In its order.

        None if it has one row, or none. Raises CorruptPack, and InvalidRow for a part that no
        reader would open.
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
    """The lines, of which each first one of `size` also has the names of all others, with null.

    A reader refuses a message with none of its columns; together with others `{}` is a row of
    NULLs. Lines that no reader takes stay as they are, and so do all if they have too many names.
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
    """The pack that a message's text is, as stored, whatever `messageEncoding` is. None: no pack.

    A text pack in a queue in base64 is base64 twice.
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
    """The texts to put in place of a message's: the parts of a pack, else the text itself.

    Also if one of the parts is no message: another writer may have compressed them better.
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
