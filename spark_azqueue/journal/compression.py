"""How partitions and objects of logs are compressed, and decompressed within bounds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

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
    """A stream of the bytes that were packed. Raises Damaged unless there are so many, all read."""
    try:
        with pa.CompressedInputStream(pa.BufferReader(packed), CODEC) as stream:
            limited = Limited(stream, size)
            yield limited
            if not limited.is_used_up or stream.read(1):
                raise Damaged("its sizes do not fit")
    except (pa.ArrowInvalid, OSError):
        raise Damaged("its messages cannot be decompressed") from None


class Limited:
    """The first bytes of a stream, so many of them."""

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
