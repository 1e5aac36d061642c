"""Taking over a log that earlier runs wrote: whether this query may, and what it holds then.

Batches that fail again and again are given up here, too: each is asked for again by a new run.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Callable
from typing import NamedTuple

from spark_azqueue.conditions import Condition
from spark_azqueue.errors import CheckpointMismatch
from spark_azqueue.journal.claim import taken
from spark_azqueue.journal.refusals import check_held, check_not_empty, check_queues, of_another
from spark_azqueue.options.choices import DeleteAfter, LogStart
from spark_azqueue.options.log import LogConfig
from spark_azqueue.service.messages import MAX_VISIBILITY_S, Lease, MessageKey

from ..engine import DriverLeasing
from ..leases.timing import RENEWED_S
from .log import SegmentReader, WriteAheadLog
from .progress import FirstBatch, LogProgress
from .segment import Segment
from .state import LogOffset, LogState, ProgressKeeper, first_segment
from .verdicts import BatchOutcome, verdict_due

DELETE_AFTER = "deleteAfter"
"""The option, as a segment's header keeps it."""

MOST_STEPS = 5
"""In how many steps suspects are isolated at most: 1,024 are handed out as 256, 64, 16, 4 and 1."""


def isolation_steps(max_dequeue_count: int | None) -> int | None:
    """In how many steps a query with a log isolates; None if poison handling is off.

    Without a log each failure raises the dequeue count. With one, only those after the first batch
    was given up do.
    """
    return None if max_dequeue_count is None else min(max_dequeue_count, MOST_STEPS)


class FailedBatches:
    """Decides about batches of other processes that Spark asks for again. Used by one thread.

    What it raises: LogConflict, LogDamaged, ServiceError. Then nothing was decided, or what was
    decided is in the log, and the next run does the rest.
    """

    def __init__(
        self,
        engine: DriverLeasing,
        wal: WriteAheadLog,
        progress: ProgressKeeper,
        *,
        deletes_at_once: bool,
    ) -> None:
        """deletes_at_once: deleteAfter=log."""
        self._engine = engine
        self._progress = progress
        self._to_come: dict[MessageKey, Lease] = {}  # released at the start, and in no batch since
        self._maximum = engine.config.max_dequeue_count
        self._deletes_at_once = deletes_at_once
        self._log = wal
        self._to_be_said: set[int] = set()  # deleted before a commit; their headers do not say so
        self._tried: set[int] = set()  # batches of other processes that get another try in this one

    def taken_over(self, segment: Segment) -> None:
        """Once for each segment whose messages are held: do the rest if it was given up."""
        if self._deletes_at_once and not _says_deleted(segment):
            self._to_be_said.add(segment.number)
        verdict = self._log.verdicts.on(segment.number)
        if verdict is BatchOutcome.SPLIT:
            self._release(segment)
            self._to_come |= {lease.key: lease for _, lease in segment.received}
            return
        for _, lease in segment.received:
            self._to_come.pop(lease.key, None)
        if verdict is BatchOutcome.POISON:
            self._engine.settle(segment.number)

    def go_on(self) -> None:
        """Once, after the log was taken over: isolate if the run before was about to."""
        if self._to_come:
            self._engine.builder.isolate([*self._to_come.values()])
        newest = self._log.newest
        if newest is None or self._maximum is None:
            return
        last = (newest.number - 1, newest.number)  # one may have been written ahead
        if newest.suspect or any(self._log.verdicts.on(n) is BatchOutcome.SPLIT for n in last):
            self._engine.builder.isolate()

    def may_settle(self, number: int) -> bool:
        """May this batch's messages be deleted? Not if it was given up.

        The answer holds for ever: a process that gives up batches cannot do so with this one.
        """
        was_given_up = self.is_given_up(number)
        is_open = self._maximum is not None or self._log.verdicts.has_tries(number)
        if not (is_open or number in self._to_be_said):
            return not was_given_up
        stands = self._log.verdicts.decide(number, BatchOutcome.COMMITTED)
        self._log.check_claim()
        if stands.gives_up and not was_given_up:  # its rows were handed out here, and not elsewhere
            raise taken(self._log.where)
        return not stands.gives_up

    def is_given_up(self, number: int) -> bool:
        """True if the batch is known to have no rows."""
        verdict = self._log.verdicts.on(number)
        return verdict is not None and verdict.gives_up

    def gives_up(self, segment: Segment, *, is_alone: bool) -> bool:
        """True if this batch has no rows: it was given up, or is now.

        is_alone: Spark's batch has no other segment.
        """
        number = segment.number
        if self.is_given_up(number):
            return True
        if not self._may_give_up(segment) or number in self._tried:
            return False
        assert self._maximum is not None
        replays = self._log.verdicts.replayed(number)
        header = segment.header
        is_single = is_alone and header.messages == 1
        due = verdict_due(replays, self._maximum, is_suspect=header.suspect, is_single=is_single)
        if due:
            self._log.check_claim()
            if due is BatchOutcome.POISON:
                ((message, _),) = segment.received
                reason = f"batch {number} failed {replays} times with it alone"
                self._engine.builder.copy_to_poison_queue(message, reason)
            due = self._log.verdicts.decide(number, due)
        if due is None or not due.gives_up:
            self._tried.add(number)
            return False
        self._carry_out(due, segment, replays)
        return True

    def _may_give_up(self, segment: Segment) -> bool:
        """False if its messages may be deleted already."""
        number = segment.number
        return (
            self._maximum is not None
            and not _says_deleted(segment)
            and number > self._log.state.progress.committed
            and self._log.verdicts.on(number) is None
        )

    def _carry_out(self, verdict: BatchOutcome, segment: Segment, replays: int) -> None:
        if verdict is BatchOutcome.POISON:
            with self._engine.holder.ledger as ledger:
                ledger.counts.poison_moved += 1
            self._engine.settle(segment.number)
            return
        log.warning(
            "batch %d of the write-ahead log %s (segment %s) failed %d times and is given up: it"
            " has no rows, and its %d messages come again in other batches (at least once)",
            segment.number,
            self._log.where,
            segment.digest[:16],
            replays,
            len(segment.received),
        )
        self._release(segment)
        self._engine.builder.isolate([lease for _, lease in segment.received])

    def _release(self, segment: Segment) -> None:
        """Release its messages, and forget them: they come again, and are new then."""
        self._engine.holder.release_batch(segment.number)
        with self._engine.holder.ledger as ledger:
            until = ledger.hidden_until
        self._progress.released(len(segment.received), until)


def _says_deleted(segment: Segment) -> bool:
    """True if its messages were deleted as soon as it was written."""
    return segment.header.reading.get(DELETE_AFTER) == DeleteAfter.LOG.value


log = logging.getLogger(__name__)


class Asked(NamedTuple):
    """Where Spark says that the query is.

    end: of the batch that Spark asks for, if it does. is_ours: this run gave `end` to Spark.
    """

    start: LogOffset
    end: LogOffset | None = None
    is_ours: bool = False


class _RecoveryState(enum.Enum):
    NOT_BEGUN = "the log may belong to another process"
    TAKEN_OVER = "this process writes the log, and Spark has not said where it is"
    CHECKED = "and the checkpoint fits the log"


class LogRecovery:
    """Once in a run. Used by one thread at a time.

    What it raises: CheckpointMismatch, LogConflict, LogDamaged, LostSegment, ServiceError.
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
        self._config = engine.config
        self._settings = settings
        self._log = wal
        self._progress = progress
        self._failures = failures
        self._segments = segments
        self._clock = clock
        self._state = _RecoveryState.NOT_BEGUN
        self._found: dict[int, Segment | None] = {}  # read before the log is taken over
        self.after = 0
        """No batch up to this one is handed out."""

    @property
    def is_whole(self) -> bool:
        """True if this process writes the log, and holds all that earlier runs left in it."""
        return self._state is not _RecoveryState.NOT_BEGUN

    @property
    def is_checked(self) -> bool:
        """True if Spark has said where it is, and that fits the log."""
        return self._state is _RecoveryState.CHECKED

    @property
    def first_of_all(self) -> int | None:
        """With writeAheadLogStart=earliest, what a new checkpoint gets first from a used log."""
        state = self._log.state
        is_used = state.progress.committed > state.floor < state.head
        is_wanted = self._settings.start is LogStart.EARLIEST and not self.is_checked
        return state.floor + 1 if is_used and is_wanted else None

    def take_over(self, asked: Asked | None) -> bool:
        """Become the log's writer, and hold the messages that earlier runs left in it.

        asked: None if Spark has not said where it is. Returns False if that was done before. After
        an error the next call does all of it again.
        """
        if self.is_whole:
            return False
        newest = asked and (asked.end or asked.start)
        if newest and newest.is_of_log:
            is_empty = not self._log.identify()
            check_not_empty(self._log.where, newest.number, is_empty=is_empty)
        self._log.open()
        # The checkpoint is compared twice: before the claim, so that a start that is refused does
        # not stop a running query; and after it, since that query may have written meanwhile.
        # A log that an offset names has segments: with none, it is behind the checkpoint.
        floor = 0 if asked is None or asked.start.is_of_log else asked.start.number
        self._check(self._log.survey(floor), asked)
        state = self._log.claim(floor)
        self._check(state, asked)
        leased_before_s = self._restore(state)
        self._failures.go_on()
        self._progress.restored(state.progress, state.not_done)
        if self._engine.holder.lengths.longest_s() > max(leased_before_s, RENEWED_S):
            self._mark()  # before anything is renewed: the next process has to know it
        if asked:
            self._fits(asked)
            if asked.start.is_of_log:
                self.compare(asked.start)
        self._state = (
            _RecoveryState.CHECKED if asked else _RecoveryState.TAKEN_OVER
        )  # not before all of it is done
        return True

    def _restore(self, state: LogState) -> int:
        """Hold what the log says. Returns for how long earlier runs leased messages at most."""
        holder, progress = self._engine.holder, state.progress
        with holder.ledger as ledger:
            for owed in progress.owed:
                ledger.restore_owed(Lease(*owed.key, ""), owed.fingerprint, owed.expires)
            if progress.owed:
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
        self._found.clear()  # another process may have ended deletes since some were read
        return leased_before_s

    def _hidden_until(self, progress: LogProgress) -> float:
        """Until when owed messages of earlier runs may be hidden, in our clock."""
        until = progress.hidden_until - self._engine.service_is_ahead
        if progress.has_ended and self._log.claim_number == progress.claim + 1:
            return until
        # A process that was killed may have leased one more of them just before.
        longest_s = self._engine.holder.lengths.longest_s()
        return max(until, self._clock() + max(_leased_s(progress), longest_s))

    # ── does the checkpoint fit? ──────────────────────────────────────────────────────────────────

    def check_start(self, asked: Asked) -> None:
        """Once: may a query go on from here? Then its checkpoint knows this log."""
        if not self.is_checked:
            self._fits(asked)
            self._state = _RecoveryState.CHECKED

    def check_forward(self, start: LogOffset, end: LogOffset) -> None:
        """Raise CheckpointMismatch if Spark's next batch would lie behind the last one."""
        if start.is_of_log and end.number <= start.number:
            raise CheckpointMismatch(
                f"the checkpoint is at batch {start.number} of the write-ahead log"
                f" {self._log.where}, and writeAheadLogStart=earliest began again at batch"
                f" {end.number}: remove that option, which is for the first start only, and the"
                " newest file in the checkpoint's folder 'offsets'",
                condition=Condition.LOG_CHECKPOINT_MISMATCH,
            )

    def compare(self, position: LogOffset) -> None:
        """Check that the segment is the one that the checkpoint names."""
        self._check_log(position)
        if position.number > self._log.state.floor:
            if self._log.segments.digest(position.number)[:16] != position.segment:
                self._segments.read(position.number, position.segment)
            self._log.skip_to(position.number)

    def _fits(self, asked: Asked) -> None:
        start, end, _ = asked
        state = self._log.state
        self.after = self._first_segment(state, asked)
        if self.after > start.number:
            log.warning("batches %d to %d are not given out", start.number + 1, self.after)
        self._log.skip_to(start.number)
        if not start.is_of_log:
            first = FirstBatch(self.after, end.number if end else self.after + 1)
            is_new = state.head > state.floor and self._progress.began != first
            self._progress.began = first
            if is_new:  # else a rollback to the first batch would not know where it begins
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
            is_ours=asked.is_ours,
        )

    def _mark(self) -> None:
        self._log.mark(self._progress.now())

    # ── is it the right log? ──────────────────────────────────────────────────────────────────────

    def _check(self, state: LogState, asked: Asked | None) -> None:
        """May a query that starts there use this log? Changes nothing in it.

        Reads the segments whose messages are to be held, each once: a segment never changes.
        """
        if asked:
            self.after = self._first_segment(state, asked)
        if self._log.newest:
            check_queues(self._config.selection, self._log.newest.queues, self._log.where)
        for number in state.not_done:
            if number not in self._found:
                segment = self._found[number] = self._segments.read(number)
                if segment:
                    check_held(self._config.selection, segment.received, number, self._log.where)

    def _check_log(self, position: LogOffset) -> None:
        if position.is_of_log and position.log != self._log.uuid:
            raise of_another(self._log.where)


def _leased_s(progress: LogProgress) -> int:
    """For how long the process that wrote it may have leased messages at most."""
    return min(progress.leased_s, MAX_VISIBILITY_S) or RENEWED_S
