"""Frame of a large object of a log. A frame consists of a head, which can be read separately, and
compressed data.

    magic | sizes of head, packed and unpacked data | head | its digest
          | data, compressed | digest of all before | end mark

Digests are BLAKE2b with 16 bytes. An object without an end mark, or with a wrong digest, is
damaged. A damaged object never counts as absent, because a store never creates an object in part.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pyarrow as pa

from .codec import Damaged

# Level 1 of Zstandard compressed a JSON message of 855 bytes to 30 % of its size in 2.3 µs; LZ4
# compressed it to 52 % in 1.4 µs (benchmarks/, section `log`).
_LEVEL = 1


CODEC = "zstd"


def codec() -> pa.Codec:
    """Return the Zstandard codec, with a fast level."""
    return pa.Codec(CODEC, compression_level=_LEVEL)


@contextmanager
def unpacked(packed: bytes, size: int) -> Iterator[Limited]:
    """Open a stream of decompressed bytes. On exit, raises Damaged unless the stream has exactly
    `size` bytes and all were read."""
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
        """Return the next `size` bytes; fewer only at the end."""
        data: bytes = self._stream.read(min(size, self._left))
        self._left -= len(data)
        return data

    @property
    def is_used_up(self) -> bool:
        """True if all bytes up to the limit were read."""
        return not self._left


END = b"\nend of segment\n"

FRAME_AT_MOST = 300 * 2**20
"""Maximum size of an object in bytes, before and after compression.

`maxBytesPerTrigger` with a log is at most 256 MiB.
"""

HEAD_AT_MOST = 16 * 2**20

UNPACKED_AT_MOST = FRAME_AT_MOST - HEAD_AT_MOST
"""Number of bytes of messages that always fit into one object, with any head and any
compression."""

FIRST_READ = 64 * 2**10
"""Number of bytes that are read first to get a head. If the head is longer, its size is in these
bytes."""

_SIZES = struct.Struct("<IQQ")
_DIGEST = 16


class Frame(NamedTuple):
    """Checked parts of an object.

    packed: the compressed data. size: size of the decompressed data in bytes. digest: digest of the
    whole object, 32 hexadecimal digits.
    """

    head: bytes
    packed: bytes
    size: int
    digest: str


def framed(magic: bytes, head: bytes, raw: bytes) -> bytes:
    """Return the object as bytes. Raises ValueError if the object has more than FRAME_AT_MOST
    bytes. raw: the data before compression."""
    packed = codec().compress(raw, asbytes=True)
    front = b"".join((magic, _SIZES.pack(len(head), len(packed), len(raw)), head))
    body = b"".join((front, _blake(front), packed))
    if max(len(body), len(raw)) > FRAME_AT_MOST:
        raise ValueError(f"a segment of {max(len(body), len(raw)):,} bytes is too large")
    return b"".join((body, _blake(body), END))


_FEW = 4_096
_LEAST = 8


def check_count(messages: int, packed: bytes) -> None:
    """Raise Damaged if the compressed data is too small for this number of messages.

    Ids and receipts are random, so a message takes more than twenty bytes with any compression. The
    number of messages in a header is not trusted, because a program with write access to the folder
    may have changed it. With a wrong number, too much memory could be allocated.
    """
    if messages > _FEW + len(packed) // _LEAST:
        raise Damaged("it has more messages than its bytes can hold")


def digest_in(data: bytes) -> str:
    """Return the digest that an object's bytes contain, without checking it."""
    return data[-len(END) - _DIGEST : -len(END)].hex()


def unframed(magic: bytes, data: bytes) -> Frame:
    """Decode a whole object. Raises Damaged."""
    body = data[: -len(END) - _DIGEST]
    if len(data) > FRAME_AT_MOST + FIRST_READ or not data.endswith(END):
        raise Damaged("it has no end mark")
    if _blake(body) != data[len(body) : -len(END)]:
        raise Damaged("its digest does not match its bytes")
    _, packed_size, raw_size = _sizes(magic, data)
    after = head_size(magic, data)
    packed = body[after:]
    if len(packed) != packed_size or raw_size > FRAME_AT_MOST:
        raise Damaged("its sizes do not fit")
    return Frame(head_of(magic, data[:after]), packed, raw_size, digest_in(data))


def head_size(magic: bytes, start: bytes) -> int:
    """Return the number of bytes at the start of an object that contain the head. Raises
    Damaged."""
    return len(magic) + _SIZES.size + _sizes(magic, start)[0] + _DIGEST


def head_of(magic: bytes, start: bytes) -> bytes:
    """Decode the head from the first `head_size` bytes. Raises Damaged."""
    end = head_size(magic, start)
    front, digest = start[: end - _DIGEST], start[end - _DIGEST : end]
    if _blake(front) != digest:
        raise Damaged("the digest of its header does not match")
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
