"""The frame of a large object of a log: a head that can be read by itself, and compressed data.

    magic | sizes of head, packed and unpacked data | head | its digest
          | data, compressed | digest of all before | end mark

Digests are BLAKE2b of 16 bytes. An object without its end mark, or with another digest, is damaged:
the stores publish an object whole or not at all, so nothing is ever taken for absent.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pyarrow as pa

from .codec import Damaged

# Level 1 of Zstandard took 2.3 µs for a JSON message of 855 bytes and left 30 % of it; LZ4 took
# 1.4 µs and left 52 % (benchmarks/, section `log`).
_LEVEL = 1


CODEC = "zstd"


def codec() -> pa.Codec:
    """Zstandard, fast."""
    return pa.Codec(CODEC, compression_level=_LEVEL)


@contextmanager
def unpacked(packed: bytes, size: int) -> Iterator[Limited]:
    """A stream of the bytes that were packed. Raises Damaged unless there are `size`, all read."""
    try:
        with pa.CompressedInputStream(pa.BufferReader(packed), CODEC) as stream:
            limited = Limited(stream, size)
            yield limited
            if not limited.is_used_up or stream.read(1):
                raise Damaged("its sizes do not fit")
    except (pa.ArrowInvalid, OSError):
        raise Damaged("its messages cannot be decompressed") from None


class Limited:
    """The first bytes of a stream, up to a limit."""

    def __init__(self, stream: pa.NativeFile, size: int) -> None:
        self._stream = stream
        self._left = size

    def read(self, size: int) -> bytes:
        """Return the next bytes: fewer than `size` at the end alone."""
        data: bytes = self._stream.read(min(size, self._left))
        self._left -= len(data)
        return data

    @property
    def is_used_up(self) -> bool:
        """True if all of them were read."""
        return not self._left


END = b"\nend of segment\n"

FRAME_AT_MOST = 300 * 2**20
"""Bytes, packed or not. `maxBytesPerTrigger` with a log is at most 256 MiB."""

HEAD_AT_MOST = 16 * 2**20

UNPACKED_AT_MOST = FRAME_AT_MOST - HEAD_AT_MOST
"""Bytes of messages that fit into one object, whatever its head is and however they compress."""

FIRST_READ = 64 * 2**10
"""Bytes to read for a head; a longer one says how much more it takes."""

_SIZES = struct.Struct("<IQQ")
_DIGEST = 16


class Frame(NamedTuple):
    """A whole object, checked. packed: its data; size: of that, unpacked, in bytes.

    digest: 32 hexadecimal digits over all of it.
    """

    head: bytes
    packed: bytes
    size: int
    digest: str


def framed(magic: bytes, head: bytes, raw: bytes) -> bytes:
    """The object's bytes. Raises ValueError for more than FRAME_AT_MOST of them."""
    packed = codec().compress(raw, asbytes=True)
    front = b"".join((magic, _SIZES.pack(len(head), len(packed), len(raw)), head))
    body = b"".join((front, _blake(front), packed))
    if max(len(body), len(raw)) > FRAME_AT_MOST:
        raise ValueError(f"a segment of {max(len(body), len(raw)):,} bytes is too large")
    return b"".join((body, _blake(body), END))


_FEW = 4_096
_LEAST = 8


def check_count(messages: int, packed: bytes) -> None:
    """Raise Damaged if these bytes are too few for so many messages.

    Ids and receipts are random, so one takes more than twenty bytes, however it is packed. Only a
    number that anyone may write says how many there are, and memory is taken for each.
    """
    if messages > _FEW + len(packed) // _LEAST:
        raise Damaged("it has more messages than its bytes can hold")


def digest_in(data: bytes) -> str:
    """The digest in the object's bytes, without checking it."""
    return data[-len(END) - _DIGEST : -len(END)].hex()


def unframed(magic: bytes, data: bytes) -> Frame:
    """Read a whole object. Raises Damaged."""
    body = data[: -len(END) - _DIGEST]
    if len(data) > FRAME_AT_MOST + FIRST_READ or not data.endswith(END):
        raise Damaged("it has no end mark")
    if _blake(body) != data[len(body) : -len(END)]:
        raise Damaged("its digest does not fit its bytes")
    _, packed_size, raw_size = _sizes(magic, data)
    after = head_size(magic, data)
    packed = body[after:]
    if len(packed) != packed_size or raw_size > FRAME_AT_MOST:
        raise Damaged("its sizes do not fit")
    return Frame(head_of(magic, data[:after]), packed, raw_size, digest_in(data))


def head_size(magic: bytes, start: bytes) -> int:
    """How many bytes from the start of an object hold its head. Raises Damaged."""
    return len(magic) + _SIZES.size + _sizes(magic, start)[0] + _DIGEST


def head_of(magic: bytes, start: bytes) -> bytes:
    """Read the head from the first `head_size` bytes. Raises Damaged."""
    end = head_size(magic, start)
    front, digest = start[: end - _DIGEST], start[end - _DIGEST : end]
    if _blake(front) != digest:
        raise Damaged("the digest of its header does not fit")
    return front[len(magic) + _SIZES.size :]


def _sizes(magic: bytes, start: bytes) -> tuple[int, int, int]:
    if len(start) < len(magic) + _SIZES.size or not start.startswith(magic):
        raise Damaged("it does not begin like a segment")
    head, packed, raw = _SIZES.unpack_from(start, len(magic))
    if head > HEAD_AT_MOST:
        raise Damaged("its header is too large")
    return head, packed, raw


def _blake(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_DIGEST).digest()
