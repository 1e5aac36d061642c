"""Segments of a log. A segment consists of a header and the raw messages of one batch.

A segment is a frame (`journal/frame.py`): the head of the frame is the header as JSON, and the data
of the frame is the messages.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from spark_azqueue.journal.codec import Damaged
from spark_azqueue.journal.frame import (
    FIRST_READ,
    FRAME_AT_MOST,
    check_count,
    framed,
    head_of,
    unframed,
    unpacked,
)
from spark_azqueue.journal.frame import head_size as head_size_of
from spark_azqueue.journal.journal import Journal
from spark_azqueue.journal.messages import pack_messages, unpack_messages
from spark_azqueue.journal.numbers import number_in
from spark_azqueue.service.messages import Message, Received

from ..logged.undecodable import LoggedRows, Reading
from ..refusals import lost_segment
from . import names
from .progress import SegmentHeader

SEGMENT_MAGIC = b"azqueue segment 1\n"


@dataclass(frozen=True, slots=True)
class Segment:
    """Contents of one batch. The contents never change.

    digest: digest of all bytes of the segment, 32 hexadecimal digits.
    """

    header: SegmentHeader
    received: tuple[Received, ...]
    digest: str

    @property
    def number(self) -> int:
        """Position in the log, from 1."""
        return self.header.number

    @property
    def messages(self) -> list[Message]:
        """Messages of the segment, without their leases."""
        return [message for message, _ in self.received]


def encode_segment(header: SegmentHeader, received: Sequence[Received]) -> bytes:
    """Return the segment as bytes. Raises ValueError if the segment is too large; see `framed`."""
    messages = pack_messages(received, header.queues, header.columns)
    return framed(SEGMENT_MAGIC, header.to_bytes(), messages)


def decode_segment(data: bytes) -> Segment:
    """Decode a whole segment. Raises Damaged."""
    frame = unframed(SEGMENT_MAGIC, data)
    header = SegmentHeader.from_bytes(frame.head)
    check_count(header.messages, frame.packed)
    with unpacked(frame.packed, frame.size) as stream:
        received = unpack_messages(stream, header.queues, header.messages, header.columns)
    return Segment(header, received, frame.digest)


def header_size(start: bytes) -> int:
    """Return the number of bytes at the start of a segment that contain the header. Raises
    Damaged."""
    return head_size_of(SEGMENT_MAGIC, start)


def decode_header(start: bytes) -> SegmentHeader:
    """Decode the header from the first `header_size` bytes. Raises Damaged."""
    return SegmentHeader.from_bytes(head_of(SEGMENT_MAGIC, start))


class Segments:
    """Segments in the folder of a log.

    Used by one thread. Raises LostSegment, LogDamaged and ServiceError.
    """

    def __init__(self, journal: Journal) -> None:
        """journal: the log that contains the segments; the header of every segment must have the
        log's id.
        """
        self._journal = journal
        self._digests: dict[int, str] = {}
        self.sizes: dict[int, int] = {}
        """Size in bytes of each segment in the folder, by number."""
        self.times: dict[int, float] = {}
        """Time at which each segment was stored, in seconds since 1970, by number."""

    def list(self) -> None:
        """List the segments that exist."""
        entries = self._journal.store.entries(names.SEGMENTS)
        found = {number_in(each.name): each for each in entries}
        self.sizes = {number: each.size for number, each in found.items() if number}
        # A segment of unknown age counts as new, so it is not removed. A segment of 0 bytes was
        # just removed.
        self.times = {
            number: each.written or (math.inf if each.size else 0.0)
            for number, each in found.items()
            if number
        }

    def header(self, number: int) -> SegmentHeader:
        """Read the header of a segment."""
        name, size = names.segment(number), FIRST_READ
        while True:
            start = self._journal.store.get(name, size)
            if start is None:
                raise lost_segment(self._journal.where, number)
            try:
                needed = header_size(start)
                if needed <= len(start):
                    return self._checked(number, decode_header(start[:needed]))
                if size >= needed:
                    raise Damaged("it is cut short")
            except Damaged as error:
                raise self._journal.damaged(name, error) from None
            size = needed

    def read(self, number: int, digest: str = "") -> Segment:
        """Read a segment. digest: the first half of the segment's digest, if known."""

        def parse(data: bytes) -> Segment:
            found = decode_segment(data)
            self._checked(number, found.header)
            before, after = self._digests.get(number - 1), self._digests.get(number)
            if not found.digest.startswith(digest) or after not in (None, found.digest):
                raise Damaged("it is not the segment that the checkpoint names")
            if before and found.header.prev not in ("", before):
                raise Damaged("it does not follow the segment before it")
            return found

        found = self._journal.read(names.segment(number), FRAME_AT_MOST + FIRST_READ, parse)
        if found is None:
            raise lost_segment(self._journal.where, number)
        self._digests[number] = found.digest
        return found

    def digest(self, number: int) -> str:
        """Return the digest of a segment that this process has read or written, else ""."""
        return self._digests.get(number, "")

    def have(self, segment: Segment, size: int, now: float) -> None:
        """Record that this segment was written. size: size of the segment in bytes. now: seconds
        since 1970.
        """
        self._digests[segment.number] = segment.digest
        self.sizes[segment.number] = size
        self.times[segment.number] = now

    def forget(self, number: int) -> None:
        """Record that this segment was removed."""
        self._digests.pop(number, None)
        self.sizes.pop(number, None)
        self.times.pop(number, None)

    def _checked(self, number: int, header: SegmentHeader) -> SegmentHeader:
        if header.log != self._journal.uuid or header.number != number:
            raise Damaged("it belongs to another log, or to another place in it")
        return header


def segment_rows(
    segment: Segment, today: Reading, read_as: Callable[[Reading], Reading] | None = None
) -> LoggedRows:
    """Return the rows of a segment. today, read_as: see `LoggedRows`."""
    header = segment.header
    return LoggedRows(segment.received, header.reading, today, header.number, read_as)
