"""Calls of an engine (Spark or another engine) to a consumer, and the commits that they prove.

Apache Spark runs one batch after the other. Spark requests the next offset only after the previous
batch is in Spark's commit log. So `latestOffset(start=N)` and `partitions(N, M)` prove that N is
committed. Another engine may plan a batch before the previous batch is committed. So with another
engine, only these calls prove a commit:

- `commit(M)` proves all offsets up to M;
- if an earlier run returned offset s, this run's first `partitions(s, e)` with s != e proves s,
  because an engine repeats its oldest unfinished batch first.

A batch of an earlier run whose commit is not proven is delivered again.

An engine calls `commit(N)` only when it builds the next batch. So if there is no message and N is
not proven, `latest` returns a *closing offset*: N with one more field. The batch of a closing
offset is empty. When the engine builds this batch, it commits N. If batch N still runs at that
time, another closing offset follows after a pause. Each pause is twice as long as the pause before.
While suspects are isolated, a consumer makes no further batch until the last batch is proven. So
each batch fails or succeeds alone.

Spark 4.0 and 4.1 do not pass the start; `BareCalls` infers the start from their calls.

With any engine, if a batch is committed without a call of `partitions`, the sink skipped the batch.
If this run made the batch, the source stops with an error and does not delete the batch's messages.
(A log also delivers batches of earlier runs. The sink may skip such a batch, because it may already
have the batch's rows.)
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import math
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from spark_azqueue.errors import AzQueueError, CheckpointMismatch
from spark_azqueue.metrics.report import Report
from spark_azqueue.metrics.source_progress import CLOSING
from spark_azqueue.service.retry import LAST_WORDS_S

from .calls import BareCalls, Wanted
from .consumer import Consumer
from .offsets import OffsetJson
from .refusals import new_or_wrapper, skipped_batch

log = logging.getLogger(__name__)

_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0
"""Longest pause between two closing offsets of one batch, in seconds."""

_WAITS = 5
_RELEASED_IN_S = 30.0
_OPEN_AT_MOST = 64
"""Maximum number of batches of a run whose commit is not proven. At this number, the source reads
no message until a batch is committed."""


def plans_ahead() -> bool:
    """Return True if the engine may plan a batch before the previous batch is committed.

    The result is True on every kind of Databricks: serverless compute runs several batches of a
    pipeline at the same time, and a source cannot detect whether compute is serverless.
    """
    return (
        "DATABRICKS_RUNTIME_VERSION" in os.environ
        or Path("/databricks/DBR_VERSION").exists()
        or importlib.util.find_spec("pyspark.databricks") is not None
    )


class EngineCalls:
    """Passes an engine's calls to the consumer of one run. Used by one thread."""

    def __init__(
        self,
        consumer: Consumer,
        *,
        plans_ahead: bool,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """plans_ahead: True if the engine may plan a batch before the previous batch is committed.

        clock: returns monotonic time in seconds. sleep: waits for a number of seconds.
        """
        self._consumer = consumer
        self._plans_ahead = plans_ahead
        self._clock, self._sleep = clock, sleep
        self._waits = 0  # number of closing offsets that an availableNow run has waited for
        self._closes_at = -math.inf  # earliest time of the next closing offset
        self._pause_s = _FIRST_PAUSE_S
        self._proven = 0  # the newest batch that is proven committed
        self._open: dict[int, _Open] = {}  # batches of this run whose commit is not proven
        self._bare = BareCalls(consumer.initial)
        self._handed_out = (0, 0)  # numbers of the newest two batches
        self._reported = 0  # the newest batch that `commit` named
        self._has_planned = False
        self._unread: OffsetJson | None = None  # committed, but its rows were never requested
        self._is_told = False

    @property
    def initial(self) -> OffsetJson:
        """Offset of a query that has read nothing."""
        return self._consumer.initial

    def freeze_cutoff(self) -> None:
        """From now on, read only messages that were inserted before this call."""
        self._waits = _WAITS
        self._consumer.freeze_cutoff()

    def latest(self, start: Mapping[str, Any] | None, most: int | None) -> OffsetJson:
        """Settle the batches that are proven committed. Return the offset of the next batch.

        start: the offset where the next batch begins; None on Spark 4.0 and 4.1, which do not pass
        a start. most: maximum number of messages in the next batch.

        If there are no messages, returns the start or a closing offset. Raises CheckpointMismatch
        if a batch was committed, but its rows were never requested.
        """
        is_new = start is None and self._bare.is_new
        again, wanted, before = self._asked(start, most)
        self._check_unread()
        if again is not None:
            return dict(again)
        if self._is_full():
            return self._closing(before)
        try:
            offset = self._consumer.latest(wanted)
        except CheckpointMismatch as error:
            if is_new:
                raise new_or_wrapper(error) from None
            raise
        if offset == wanted.start:
            return self._closing(before) if wanted.may_run else before
        self._closes_at, self._pause_s = -math.inf, _FIRST_PAUSE_S
        number = _number(offset)
        self._open.setdefault(number, _Open(wanted.start, offset))
        self._handed_out = (self._handed_out[-1], number)
        self._bare.answered(offset)
        return offset

    def _asked(
        self, start: Mapping[str, Any] | None, most: int | None
    ) -> tuple[OffsetJson | None, Wanted, OffsetJson]:
        """Return the offset to return again (or None), the requested batch, and the start that
        Spark passed."""
        is_proven = True
        if start is None:
            again = self._bare.asked()
            before, is_proven = self._bare.start, self._bare.is_proven
        else:
            before = dict(start)
            again = self._answer_from(before)
            if not self._plans_ahead:
                self._warn_if_late(_number(before))
        may_run = self._plans_ahead and _number(before) > self._proven
        if is_proven and not self._plans_ahead:
            self._prove(before)
        is_last = (start is None or most is None) and self._handed_out == (0, 0)
        wanted = Wanted(_plain(before), most, is_proven and not may_run, may_run, is_last)
        return again, wanted, before

    def _answer_from(self, start: OffsetJson) -> OffsetJson | None:
        """Return the offset that this run has already returned for this start, or None."""
        plain = _plain(start)
        return next((each.offset for each in self._open.values() if each.start == plain), None)

    def plan(self, start: Mapping[str, Any], end: OffsetJson) -> list[bytes]:
        """Return the input of each task of the batch from `start` to `end`; see `Consumer.plan`.

        Raises InvalidOption if Spark 4.0 or 4.1 passes its checkpoint's offset too late.
        """
        is_batch = start != end
        is_first = is_batch and not self._has_planned
        self._bare.planned(start, end)
        if is_batch:
            self._has_planned = True
            if not self._plans_ahead or (is_first and _number(start) not in self._open):
                self._prove(start)
        self._check_unread()
        first, last = _plain(start), _plain(end)
        if is_batch and first == last:
            return []
        handed_out = self._open.get(_number(last))
        if handed_out is not None and handed_out.offset == last:
            handed_out.is_planned = True  # also at a start of Spark 4.0 or 4.1
        is_proven = not self._plans_ahead or _number(start) <= self._proven
        return self._consumer.plan(first, last, is_proven=is_proven)

    def committed(self, offset: Mapping[str, Any]) -> None:
        """Record that the engine has committed this offset and all earlier offsets."""
        self._reported = max(self._reported, _number(offset))
        self._prove(offset)
        with contextlib.suppress(CheckpointMismatch):  # the next call raises it
            self._check_unread()
            self._consumer.committed(_plain(offset))

    def report(self) -> Report:
        """Return the backlog, the held messages and this run's counters."""
        return self._consumer.report()

    def close(self) -> None:
        """Within seconds, stop renewing, finish due deletes, and release undelivered messages."""
        for each in self._open.values():
            if not each.is_planned:
                self._give_back_at_the_end(each.offset)
        self._consumer.close()

    def _give_back_at_the_end(self, offset: OffsetJson) -> None:
        try:
            self._consumer.give_back(offset, LAST_WORDS_S)
        except (AzQueueError, TimeoutError, RuntimeError) as error:
            log.warning(
                "batch %d was not delivered, and its messages could not be released: %s",
                _number(offset),
                error,
            )

    def _closing(self, before: OffsetJson) -> OffsetJson:
        """Return the closing offset that follows `before`. During the pause, return `before`."""
        if (left := self._closes_at - self._clock()) > 0:
            if not self._waits:
                return before
            self._waits -= 1
            self._sleep(left)
        self._closes_at = self._clock() + self._pause_s
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
        number = before.get(CLOSING, 0)
        closing = {**before, CLOSING: number + 1 if type(number) is int else 1}
        self._bare.answered(closing)
        return closing

    # ── proofs ────────────────────────────────────────────────────────────────────────────────────

    def _prove(self, offset: Mapping[str, Any]) -> None:
        proven = self._proven = max(self._proven, _number(offset))
        for number in [each for each in self._open if each <= proven]:
            if self._open[number].is_planned:
                del self._open[number]
            elif self._unread is None:
                self._unread = self._open[number].offset

    def _check_unread(self) -> None:
        while (unread := self._unread) is not None:
            is_in_queue = self._consumer.give_back(unread, _RELEASED_IN_S)
            if is_in_queue is not None:
                raise skipped_batch(_number(unread), is_in_queue=is_in_queue)
            del self._open[_number(unread)]  # an earlier run may have delivered this batch
            self._unread = None
            self._prove({"batch": self._proven})

    def _is_full(self) -> bool:
        if len(self._open) < _OPEN_AT_MOST:
            return False
        if not self._is_told:
            log.warning(
                "%d batches were delivered, and none of them is known to be committed: no further"
                " message is read until the engine commits one",
                len(self._open),
            )
        self._is_told = True
        return True

    def _warn_if_late(self, start: int) -> None:
        """Log a warning, once, if the engine did not report the commit of the batch before
        `start`."""
        before, newest = self._handed_out
        if self._is_told or start != newest or before <= self._reported:
            return
        self._is_told = True
        log.warning(
            "the engine asks for the batch after %d and has not reported batch %d as committed."
            " With asynchronous progress tracking that is usual, and nothing is lost. An engine"
            " that runs batches at the same time can lose the rows of a batch that fails: set"
            " writeAheadLog, which keeps them",
            start,
            before,
        )


class _Open:
    """A batch of this run whose commit is not proven yet."""

    def __init__(self, start: OffsetJson, offset: OffsetJson) -> None:
        self.start, self.offset = start, offset
        self.is_planned = False


def _plain(offset: Mapping[str, Any]) -> OffsetJson:
    return {name: value for name, value in offset.items() if name != CLOSING}


def _number(offset: Mapping[str, Any]) -> int:
    """Return the batch's number; 0 for a damaged offset, which the consumer refuses later."""
    number = offset.get("batch")
    return number if type(number) is int else 0
