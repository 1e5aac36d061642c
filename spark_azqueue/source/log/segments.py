"""The segments in a log's folder: read, and checked to be the ones that are expected."""

from __future__ import annotations

import math

from spark_azqueue.errors import LostSegment
from spark_azqueue.journal.codec import Damaged
from spark_azqueue.journal.frame import FIRST_READ, FRAME_AT_MOST
from spark_azqueue.journal.journal import Journal

from . import names
from .header import SegmentHeader
from .segment import Segment, decode, decode_header, header_size


class Segments:
    """Used by one thread. Raises LostSegment, LogDamaged and ServiceError."""

    def __init__(self, journal: Journal) -> None:
        """journal: the log that they belong to; every segment is to have its id."""
        self._journal = journal
        self._digests: dict[int, str] = {}
        self.sizes: dict[int, int] = {}
        """Bytes of each segment in the folder: listed, or put since."""
        self.times: dict[int, float] = {}
        """When each of them was stored, seconds since 1970."""

    def list(self) -> None:
        """Find out which segments stand."""
        entries = self._journal.store.entries(names.SEGMENTS)
        found = {names.number_in(each.name): each for each in entries}
        self.sizes = {number: each.size for number, each in found.items() if number}
        # Of unknown age: it counts as new, and stays. One without bytes is gone meanwhile.
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
                raise self._lost(number)
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
        """Read a segment. digest: the first half of its digest, if known."""

        def parse(data: bytes) -> Segment:
            found = decode(data)
            self._checked(number, found.header)
            before, after = self._digests.get(number - 1), self._digests.get(number)
            if not found.digest.startswith(digest) or after not in (None, found.digest):
                raise Damaged("it is not the segment that the checkpoint names")
            if before and found.header.prev not in ("", before):
                raise Damaged("it does not follow the segment before it")
            return found

        found = self._journal.read(names.segment(number), FRAME_AT_MOST + FIRST_READ, parse)
        if found is None:
            raise self._lost(number)
        self._digests[number] = found.digest
        return found

    def digest(self, number: int) -> str:
        """The digest of a segment that this process has read or written, "" if it has not."""
        return self._digests.get(number, "")

    def have(self, segment: Segment, size: int, now: float) -> None:
        """This one was written, with so many bytes. now: seconds since 1970."""
        self._digests[segment.number] = segment.digest
        self.sizes[segment.number] = size
        self.times[segment.number] = now

    def forget(self, number: int) -> None:
        """This one was removed."""
        self._digests.pop(number, None)
        self.sizes.pop(number, None)
        self.times.pop(number, None)

    def _checked(self, number: int, header: SegmentHeader) -> SegmentHeader:
        if header.log != self._journal.uuid or header.number != number:
            raise Damaged("it belongs to another log, or to another place in it")
        return header

    def _lost(self, number: int) -> LostSegment:
        return LostSegment(
            f"segment {number} of the write-ahead log {self._journal.where} does not exist: restore"
            " it (did a lifecycle rule delete it?), or set failOnDataLoss=false to go on without"
            " its rows"
        )
