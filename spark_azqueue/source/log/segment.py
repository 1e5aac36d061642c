"""A segment of the log: the messages of one batch, as raw as they came, with their header.

A frame (`journal/frame.py`): its head is the header as JSON, its data the messages (`columns.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spark_azqueue.journal.compression import unpacked
from spark_azqueue.journal.frame import framed, head_of, unframed
from spark_azqueue.journal.frame import head_size as head_size_of
from spark_azqueue.service.messages import Message, Received

from .columns import pack, unpack
from .header import SegmentHeader

MAGIC = b"azqueue segment 1\n"


@dataclass(frozen=True, slots=True)
class Segment:
    """What one batch consists of, for ever. `digest`: 32 hexadecimal digits over all of it."""

    header: SegmentHeader
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


def encode(header: SegmentHeader, received: Sequence[Received]) -> bytes:
    """The segment's bytes. Raises ValueError if there are too many (see `framed`)."""
    return framed(MAGIC, header.to_bytes(), pack(received, header.queues))


def decode(data: bytes) -> Segment:
    """Read a whole segment. Raises Damaged."""
    frame = unframed(MAGIC, data)
    header = SegmentHeader.from_bytes(frame.head)
    with unpacked(frame.packed, frame.size) as stream:
        received = unpack(stream, header.queues, header.messages)
    return Segment(header, received, frame.digest)


def header_size(start: bytes) -> int:
    """How many bytes from the start of a segment hold its header. Raises Damaged."""
    return head_size_of(MAGIC, start)


def decode_header(start: bytes) -> SegmentHeader:
    """Read the header from the first `header_size` bytes. Raises Damaged."""
    return SegmentHeader.from_bytes(head_of(MAGIC, start))
