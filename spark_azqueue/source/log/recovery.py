"""Makes this run the writer of a log that earlier runs wrote.

Decides whether the query may use the log, and which messages of earlier runs the query must delete.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

from spark_azqueue.options.log import LogConfig
from spark_azqueue.service.messages import MAX_VISIBILITY_S, Lease

from ..driver.engine import DriverLeasing
from ..leases.timing import RENEWED_S
from ..refusals import (
    begun_again_behind,
    check_held,
    check_not_empty,
    check_queues_of_log,
    of_another,
)
from .given_up import FailedBatches
from .log import SegmentReader, WriteAheadLog
from .progress import FirstBatch, LogProgress
from .segment import Segment
from .state import LogOffset, LogState, ProgressKeeper, first_segment

log = logging.getLogger(__name__)


class Asked(NamedTuple):
    """Position of the query, which Spark passes in a call.

    end: end of the batch that Spark asks for; None if it asks for no batch.
    """

    start: LogOffset
    end: LogOffset | None = None


class LogRecovery:
    """Makes this run the writer of the log, once. Used by one thread at a time.

    Its methods raise CheckpointMismatch, LogConflict, LogDamaged, LostSegment, ServiceError.
    """

    def __init__(
        self,
        engine: DriverLeasing,
        settings: LogConfig,
        wal: WriteAheadLog,
        progress: ProgressKeeper,
        failures: FailedBatches,
        segments: SegmentReader,
        clock: Callable[[], float],
    ) -> None:
        self._engine = engine
        self._config, self._holder = engine.config, engine.holder
        self._settings = settings
        self._log = wal
        self._progress = progress
        self._failures = failures
        self._segments = segments
        self._clock = clock
        # segments read before the takeover
        self._found: dict[int, Segment | None] = {}
        self.after = 0
        """Batches up to this number are not delivered."""
        self.is_done = False
        """True if the takeover is complete.

        This process then writes the log and holds the messages of earlier runs, and the checkpoint
        fits the log.
        """

    def take_over(self, asked: Asked) -> bool:
        """Become the log's only writer, and take over the leases of messages of earlier runs.

        Returns False if this process had already taken over the log. After an error, the next call
        repeats every step.
        """
        if self.is_done:
            return False
        newest = asked.end or asked.start
        if newest.is_of_log:
            is_empty = not self._log.identify()
            check_not_empty(self._log.where, newest.number, is_empty=is_empty)
        self._log.open()
        # The checkpoint is compared twice. The comparison before the claim ensures that a refused
        # start does not stop a running query. The comparison after the claim is needed because the
        # running query may have written in the meantime. If an offset names the log, the log must
        # have segments; a log without segments would be behind the checkpoint.
        floor = 0 if asked.start.is_of_log else asked.start.number
        self._check(self._log.survey(floor), asked)
        state = self._log.claim(floor)
        self._check(state, asked)
        leased_before_s = self._restore(state)
        self._failures.go_on()
        self._progress.restored(state.progress, state.not_done)
        if self._holder.lengths.longest_s() > max(leased_before_s, RENEWED_S):
            self._mark()  # before any renewal, because the next process must know the longest lease
        self._fits(asked)
        if asked.start.is_of_log:
            self.compare(asked.start)
        self.is_done = True  # last
        return True

    def _restore(self, state: LogState) -> int:
        """Hold the messages that the log names.

        Returns the longest lease of earlier runs in seconds.
        """
        holder, progress = self._holder, state.progress
        with holder.locked_ledger as ledger:
            for pending in progress.pending:
                ledger.restore_pending(
                    Lease(*pending.key, ""), pending.fingerprint, pending.expires
                )
            if progress.pending:
                ledger.hide_until(self._hidden_until(progress))
        if progress.hidden:
            until = progress.hidden_until - self._engine.service_is_ahead
            self._engine.may_be_hidden(progress.hidden, until)
            self._progress.released(progress.hidden, until)
        self._engine.forget_expired()
        headers = [each.header.progress for each in self._found.values() if each]
        leased_before_s = max(map(_leased_s, (progress, *headers)))
        leased_s = max(leased_before_s, holder.lengths.longest_s())
        for number in state.not_done:
            if segment := self._found.pop(number):
                ahead_s = self._engine.service_is_ahead
                holder.restore(segment.received, number, ahead_s, leased_s)
                if number == self.after + 1:
                    self._segments.keep(segment)
                self._failures.taken_over(segment)
        # do not reuse them: another process may have deleted messages since the segments were read
        self._found.clear()
        return leased_before_s

    def _hidden_until(self, progress: LogProgress) -> float:
        """Return the end of the last lease on a message with a pending delete, by this machine's
        clock.
        """
        until = progress.hidden_until - self._engine.service_is_ahead
        if progress.has_ended and self._log.claim_number == progress.claim + 1:
            return until
        # A process that was killed may have dequeued such a message just before the kill.
        longest_s = self._holder.lengths.longest_s()
        return max(until, self._clock() + max(_leased_s(progress), longest_s))

    # ── does the checkpoint fit? ──────────────────────────────────────────────────────────────────

    def check_forward(self, start: LogOffset, end: LogOffset) -> None:
        """Raise CheckpointMismatch if `end` is not after `start`."""
        if start.is_of_log and end.number <= start.number:
            raise begun_again_behind(self._log.where, start.number, end.number)

    def compare(self, position: LogOffset) -> None:
        """Check that the segment at this position has the digest that the checkpoint names."""
        self._check_log(position)
        if position.number > self._log.state.floor:
            if self._log.segments.digest(position.number)[:16] != position.segment:
                self._segments.read(position.number, position.segment)
            self._log.skip_to(position.number)

    def _fits(self, asked: Asked) -> None:
        start, end = asked
        state = self._log.state
        self.after = self._first_segment(state, asked)
        if self.after > start.number:
            log.warning("batches %d to %d are not delivered", start.number + 1, self.after)
        if not start.is_of_log:
            first = FirstBatch(self.after, end.number if end else self.after + 1)
            is_new = state.head > state.floor and self._progress.began != first
            self._progress.began = first
            if is_new:  # needed if the checkpoint is rolled back to its first batch
                self._mark()

    def _first_segment(self, state: LogState, asked: Asked) -> int:
        self._check_log(asked.start)
        return first_segment(
            asked.start,
            state,
            self._log.where,
            choice=self._settings.start,
            lose=not self._settings.fail_on_data_loss,
            end=asked.end,
        )

    def _mark(self) -> None:
        self._log.mark(self._progress.now())

    # ── is it the right log? ──────────────────────────────────────────────────────────────────────

    def _check(self, state: LogState, asked: Asked) -> None:
        """Raise an error if a query at this position must not use this log.

        Changes nothing in the log.

        Reads the segments whose messages this query must hold. Each segment is read once, since a
        segment never changes.
        """
        self.after = self._first_segment(state, asked)
        if self._log.newest:
            queues = self._log.newest.queues
            check_queues_of_log(self._config.selection, queues, self._log.where)
        for number in state.not_done:
            if number not in self._found:
                segment = self._found[number] = self._segments.read(number)
                if segment:
                    check_held(self._config.selection, segment.received, number, self._log.where)

    def _check_log(self, position: LogOffset) -> None:
        if position.is_of_log and position.log != self._log.uuid:
            raise of_another(self._log.where)


def _leased_s(progress: LogProgress) -> int:
    """Return the longest lease that the writer of this progress requests, in seconds."""
    return min(progress.leased_s, MAX_VISIBILITY_S) or RENEWED_S
