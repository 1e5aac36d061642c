"""A segment of the log: the messages of one batch, as raw as they came, with their header.

    magic | sizes of header, packed and unpacked messages | header (JSON) | its digest
          | messages (see `columns.py`), compressed | digest of all before | end mark

Digests are BLAKE2b of 16 bytes. A segment without its end mark, or with another digest, is damaged:
the stores publish an object whole or not at all, so nothing is ever taken for absent.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from spark_azqueue.service.messages import Message, Received
from spark_azqueue.store.codec import Damaged
from spark_azqueue.store.compression import codec, unpacked

from .columns import pack, unpack
from .header import Header

MAGIC = b"azqueue segment 1\n"
END = b"\nend of segment\n"

SEGMENT_AT_MOST = 300 * 2**20
"""Bytes, packed or not. `maxBytesPerTrigger` with a log is at most 256 MiB."""

HEADER_AT_MOST = 16 * 2**20

FIRST_READ = 64 * 2**10
"""Bytes to read for a header; a longer one says how much more it takes."""

_SIZES = struct.Struct("<IQQ")
_DIGEST = 16
_FRONT = len(MAGIC) + _SIZES.size


@dataclass(frozen=True, slots=True)
class Segment:
    """What one batch consists of, for ever. `digest`: 32 hexadecimal digits over all of it."""

    header: Header
    received: tuple[Received, ...]
    digest: str

    @property
    def number(self) -> int:
        """Its place in the log, from 1."""
        return self.header.number

    @property
    def messages(self) -> list[Message]:
        """The messages without their leases."""
        return [message for message, _ in self.received]


def encode(header: Header, received: Sequence[Received]) -> bytes:
    """The segment's bytes. Raises ValueError for more than SEGMENT_AT_MOST of them."""
    raw = pack(received, header.queues)
    packed = codec().compress(raw, asbytes=True)
    head = header.to_bytes()
    sizes = _SIZES.pack(len(head), len(packed), len(raw))
    front = b"".join((MAGIC, sizes, head))
    body = b"".join((front, _blake(front), packed))
    if max(len(body), len(raw)) > SEGMENT_AT_MOST:
        raise ValueError(f"a segment of {max(len(body), len(raw)):,} bytes is too large")
    return b"".join((body, _blake(body), END))


def digest_of(data: bytes) -> str:
    """The digest that stands in a segment's bytes, without checking it."""
    return data[-len(END) - _DIGEST : -len(END)].hex()


def decode(data: bytes) -> Segment:
    """Read a whole segment. Raises Damaged."""
    body = data[: -len(END) - _DIGEST]
    if len(data) > SEGMENT_AT_MOST + FIRST_READ or not data.endswith(END):
        raise Damaged("it has no end mark")
    if _blake(body) != data[len(body) : -len(END)]:
        raise Damaged("its digest does not fit its bytes")
    head, packed_size, raw_size = _sizes(data)
    header = decode_header(data[: _FRONT + head + _DIGEST])
    packed = body[_FRONT + head + _DIGEST :]
    if len(packed) != packed_size or raw_size > SEGMENT_AT_MOST:
        raise Damaged("its sizes do not fit")
    with unpacked(packed, raw_size) as stream:
        received = unpack(stream, header.queues, header.messages)
    return Segment(header, received, digest_of(data))


def header_size(start: bytes) -> int:
    """How many bytes from the start of a segment hold its header. Raises Damaged."""
    return _FRONT + _sizes(start)[0] + _DIGEST


def decode_header(start: bytes) -> Header:
    """Read the header from the first `header_size` bytes. Raises Damaged."""
    end = header_size(start)
    front, digest = start[: end - _DIGEST], start[end - _DIGEST : end]
    if _blake(front) != digest:
        raise Damaged("the digest of its header does not fit")
    return Header.from_bytes(front[_FRONT:])


def _sizes(start: bytes) -> tuple[int, int, int]:
    if len(start) < _FRONT or not start.startswith(MAGIC):
        raise Damaged("it does not begin like a segment")
    head, packed, raw = _SIZES.unpack_from(start, len(MAGIC))
    if head > HEADER_AT_MOST:
        raise Damaged("its header is too large")
    return head, packed, raw


def _blake(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_DIGEST).digest()
