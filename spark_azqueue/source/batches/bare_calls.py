"""Spark 4.0 and 4.1 call `latestOffset()` bare: what it starts from, and whether that is proven.

They tell in other calls, see `commits.py`. Pure bookkeeping; the callers read the offsets.
"""

from __future__ import annotations

from ..offsets import OffsetJson


class BareCalls:
    """Remembers the newest offset that Spark has named, or was given."""

    def __init__(self, initial: OffsetJson) -> None:
        self._newest: OffsetJson = initial
        self._is_planned = False  # partitions(s, newest) with s != newest was called in this run
        self._was_asked = False  # latestOffset() was called bare in this run
        self._was_probed_first = False  # partitions(newest, newest) came before any such call

    @property
    def is_planned(self) -> bool:
        """True if partitions(s, newest) with another s was called in this run."""
        return self._is_planned

    def handed_out(self, offset: OffsetJson) -> None:
        """`latestOffset` is about to return this new offset."""
        self._newest, self._is_planned, self._was_probed_first = offset, False, False

    def start(self) -> tuple[OffsetJson, bool]:
        """For a bare call: where it starts, and whether that is proven to be committed."""
        self._was_asked = True
        return self._newest, self._is_planned or self._was_probed_first

    def probed(self, offset: OffsetJson) -> None:
        """partitions(offset, offset) was called before anything was handed out or planned."""
        self._newest = offset
        self._was_probed_first = not self._was_asked

    def planned(self, end: OffsetJson) -> None:
        """partitions(s, end) with another s was called."""
        self._newest, self._is_planned = end, True
