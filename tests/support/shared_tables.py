"""Schemas of Arrow written by hand: many offsets of a flatbuffer point to one table or text."""

from __future__ import annotations

import struct
from collections.abc import Sequence

END = struct.pack("<II", 0xFFFFFFFF, 0)
_SCHEMA, _BATCH = 1, 3
_INT, _STRUCT = 2, 13


def shared_schema(counts: Sequence[int], name: bytes = b"n", pairs: int = 0) -> bytes:
    """A stream that is a schema alone. counts: of columns, of fields in each of them, and so on.

    All fields of a level are one table, all names one text; so are the `pairs` of its metadata.
    """
    made = _Flatbuffer(_SCHEMA)
    schema = made.table(made.header, [(1, "I"), (2, "I")])
    texts: list[int] = []
    fields = schema[1]
    for level, count in enumerate(counts, 1):
        kind = _INT if level == len(counts) else _STRUCT
        slots = [(0, "I"), (1, "B"), (2, "B"), (3, "I"), (5, "I")]
        field = made.shared(fields, count, slots)
        made.set(field[1], "B", 1)
        made.set(field[2], "B", kind)
        bits = made.table(field[3], [(0, "i"), (1, "B")])
        made.set(bits[0], "i", 64)
        texts.append(field[0])
        fields = field[5]
    made.shared(fields, 0, [])
    pair = made.shared(schema[2], pairs, [(0, "I"), (1, "I")])
    made.text([*texts, *(pair[slot] for slot in (0, 1))], name)
    return made.message() + END


def shared_batch_metadata(schema: bytes, pairs: int, text: bytes) -> bytes:
    """A stream of a message with a schema and an empty batch, whose metadata is one text."""
    made = _Flatbuffer(_BATCH)
    made.table(made.header, [(0, "q")])
    pair = made.shared(made.metadata, pairs, [(0, "I"), (1, "I")])
    made.text([pair[0], pair[1]], text)
    return schema + made.message() + END


class _Flatbuffer:
    """A message, written from front to back: what an offset points to lies behind it."""

    def __init__(self, kind: int) -> None:
        self._bytes = bytearray(4)
        slots = [(0, "h"), (1, "B"), (2, "I"), (3, "q"), (4, "I")]
        place, message = self._table(slots)
        struct.pack_into("<I", self._bytes, 0, place)
        self.set(message[0], "h", 4)
        self.set(message[1], "B", kind)
        self.header, self.metadata = message[2], message[4]
        if kind == _SCHEMA:
            self.shared(self.metadata, 0, [])

    def set(self, place: int, kind: str, value: int) -> None:
        struct.pack_into(f"<{kind}", self._bytes, place, value)

    def message(self) -> bytes:
        self._bytes += bytes(-len(self._bytes) % 8)
        return struct.pack("<II", 0xFFFFFFFF, len(self._bytes)) + self._bytes

    def text(self, offsets: Sequence[int], text: bytes) -> None:
        place = self._aligned(4)
        self._bytes += struct.pack("<I", len(text)) + text + b"\0"
        for offset in offsets:
            self.set(offset, "I", place - offset)

    def shared(self, offset: int, count: int, slots: Sequence[tuple[int, str]]) -> dict[int, int]:
        """A vector of one table, `count` times. Returns where its fields are."""
        vector = self._aligned(4)
        self._bytes += struct.pack("<I", count) + bytes(4 * count)
        self.set(offset, "I", vector - offset)
        place, fields = self._table(slots)
        for at in range(vector + 4, vector + 4 + 4 * count, 4):
            self.set(at, "I", place - at)
        return fields

    def table(self, offset: int, slots: Sequence[tuple[int, str]]) -> dict[int, int]:
        place, fields = self._table(slots)
        self.set(offset, "I", place - offset)
        return fields

    def _table(self, slots: Sequence[tuple[int, str]]) -> tuple[int, dict[int, int]]:
        size = 4 + 2 * (max((slot for slot, _ in slots), default=-1) + 1)
        fields_at = self._aligned(8)
        self._bytes += bytes(size)
        start = self._aligned(8)
        self._bytes += struct.pack("<i", start - fields_at)
        places = {}
        for slot, kind in slots:
            places[slot] = self._aligned(struct.calcsize(f"<{kind}"))
            self.set(fields_at + 4 + 2 * slot, "H", places[slot] - start)
            self._bytes += bytes(struct.calcsize(f"<{kind}"))
        struct.pack_into("<HH", self._bytes, fields_at, size, len(self._bytes) - start)
        return start, places

    def _aligned(self, to: int) -> int:
        self._bytes += bytes(-len(self._bytes) % to)
        return len(self._bytes)
