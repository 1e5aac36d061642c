"""Checks the messages and the declared sizes of an Arrow IPC stream before Arrow reads the stream.

Arrow allocates the declared sizes, and decompresses inner buffers, before a caller can check the
stream. So Arrow only gets streams that consist of one schema, plain record batches and an end. The
layout is described in https://arrow.apache.org/docs/format/Columnar.html, Schema.fbs and
Message.fbs.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from .bounds import CorruptPack

_SCHEMA, _RECORD_BATCH = 1, 3
_CONTINUES = 0xFFFFFFFF
_METADATA_AT_MOST = 2**20
_BATCHES_AT_MOST = 1_024
_NAMED_AT_MOST = 4 * 2**20
"""Maximum size of a stream's fields, names and metadata, in bytes, after Arrow has parsed them."""

_EXTENSION = b"ARROW:extension:"
"""Beginning of the keys that name an extension type.

While Arrow builds the schema, it passes the sender's text to the parser of this type. A caller
cannot refuse the type earlier."""

_FIELD_BYTES = 256
_TIMESTAMP, _UNION = 10, 14
_READ = {kind: struct.Struct(f"<{kind}").unpack_from for kind in "BHhIiq"}


def check_stream(data: memoryview, max_rows: int) -> int:
    """Return the number of rows that an IPC stream declares.

    Raises CorruptPack for an unsafe stream.
    """
    try:
        return _checked(data, max_rows)
    except struct.error:
        raise CorruptPack("the Arrow stream ends early, or points out of itself") from None


def _checked(data: memoryview, max_rows: int) -> int:
    place = rows = count = named = 0
    while True:
        mark, size = struct.unpack_from("<II", data, place)
        if mark != _CONTINUES:
            raise CorruptPack("the Arrow stream has no mark where a message should begin")
        place += 8
        if size == 0:
            break
        if size > _METADATA_AT_MOST or size % 8:
            raise CorruptPack("a message of the Arrow stream has metadata of a wrong size")
        message = _Table.root(data[place : place + size])
        kind = message.number("B", 1)
        body = message.number("q", 3)
        if kind != (_RECORD_BATCH if count else _SCHEMA):
            raise CorruptPack("the Arrow stream has something other than a schema, then batches")
        header = message.table(2)
        if not count and header.number("h", 0):
            raise CorruptPack("the Arrow stream is big-endian")
        named += _named(message, _NAMED_AT_MOST - named, 4)
        if not count:
            named += _schema_size(header, _NAMED_AT_MOST - named)
        if count:
            length = header.number("q", 0)
            if header.has(3):
                raise CorruptPack("the Arrow stream is compressed inside, which is no bound")
            if length < 0 or rows + length > max_rows:
                raise CorruptPack(f"it has more rows than max_rows={max_rows:,}")
            rows += length
        count += 1
        if count > _BATCHES_AT_MOST:
            raise CorruptPack(f"the Arrow stream has more than {_BATCHES_AT_MOST - 1:,} batches")
        if not 0 <= body <= len(data) or (body and count == 1):
            raise CorruptPack("a message of the Arrow stream has a body of a wrong size")
        place += size + body
    if place != len(data):
        raise CorruptPack("the Arrow stream goes on behind its end mark")
    if not count:
        raise CorruptPack("the Arrow stream has no schema")
    return rows


def _schema_size(schema: _Table, most: int) -> int:
    """Return the approximate size of a parsed schema. Raises CorruptPack above `most` bytes.

    Several offsets may point to the same table or text. Arrow makes an object for each offset, so a
    stream of 100 KB could need 60 GB of memory.
    """
    size = _named(schema, most, 2)
    waiting = [(schema, 1)]
    while waiting:
        above, number = waiting.pop()
        for field in above.tables(number):
            size += _FIELD_BYTES + field.length(0)
            if field.number("B", 2) in (_TIMESTAMP, _UNION):
                size += field.table(3).length(1)
            size += _named(field, most - size, 6)
            waiting.append((field, 5))
    return size


def _named(table: _Table, most: int, number: int) -> int:
    """Return the size of a table's metadata, which are pairs of texts.

    number: number of the table's field that has the metadata.

    Raises CorruptPack above `most` bytes, and for a pair that names an extension type.
    """
    size = 0
    for pair in table.tables(number):
        if pair.text(0, len(_EXTENSION)) == _EXTENSION:
            raise CorruptPack("a column of the Arrow stream is of an extension type")
        size += _FIELD_BYTES + pair.length(0) + pair.length(1)
        if size > most:
            break
    if size > most:
        raise CorruptPack(f"its fields and metadata would take more than {_NAMED_AT_MOST:,} bytes")
    return size


@dataclass(frozen=True, slots=True)
class _Table:
    """A table of a flatbuffer. Its fields have numbers.

    `struct` raises an error for a read outside of the data.
    """

    data: memoryview
    start: int

    @classmethod
    def root(cls, data: memoryview) -> _Table:
        return cls(data, _at("I", data, 0))

    def _field(self, number: int) -> int:
        """Return the position of a field; 0 if the field is missing."""
        entries = self.start - _at("i", self.data, self.start)
        if 4 + 2 * number >= _at("H", self.data, entries):
            return 0
        offset = _at("H", self.data, entries + 4 + 2 * number)
        return self.start + offset if offset else 0

    def has(self, number: int) -> bool:
        return self._field(number) != 0

    def number(self, kind: str, number: int) -> int:
        place = self._field(number)
        return _at(kind, self.data, place) if place else 0

    def table(self, number: int) -> _Table:
        place = self._field(number)
        if not place:
            raise CorruptPack("a message of the Arrow stream has no header")
        return _Table(self.data, place + _at("I", self.data, place))

    def length(self, number: int) -> int:
        """Return the length of a text or a vector; 0 if the field is missing."""
        place = self._field(number)
        return _at("I", self.data, place + _at("I", self.data, place)) if place else 0

    def text(self, number: int, most: int) -> bytes:
        """Return at most the first `most` bytes of a text; no bytes if the field is missing."""
        place = self._field(number)
        if not place:
            return b""
        place += _at("I", self.data, place)
        return bytes(self.data[place + 4 :][: min(most, _at("I", self.data, place))])

    def tables(self, number: int) -> Iterator[_Table]:
        """Yield the tables of a vector."""
        place = self._field(number)
        if not place:
            return
        place += _at("I", self.data, place)
        for at in range(place + 4, place + 4 + 4 * _at("I", self.data, place), 4):
            yield _Table(self.data, at + _at("I", self.data, at))


def _at(kind: str, data: memoryview, place: int) -> int:
    if place < 0:
        raise struct.error
    value: int = _READ[kind](data, place)[0]
    return value
