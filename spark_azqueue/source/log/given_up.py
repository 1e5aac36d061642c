"""Batches of the driver's log that fail again and again: given up, and the guilty message found."""

from __future__ import annotations

import logging

from spark_azqueue.journal.refusals import another_writer
from spark_azqueue.options.choices import DeleteAfter
from spark_azqueue.service.last_failure import found
from spark_azqueue.service.messages import Lease, MessageKey

from ..driver.engine import DriverLeasing
from ..refusals import abandoned
from ..suspects import IsolationRule
from .log import WriteAheadLog
from .outcomes import BatchOutcome
from .segment import Segment
from .state import ProgressKeeper

log = logging.getLogger(__name__)

DELETE_AFTER = "deleteAfter"
"""The option, as a segment's header keeps it."""


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
        self._rule = IsolationRule.of(engine.config)
        self._suspects, self._holder, self._builder = engine.suspects, engine.holder, engine.builder
        self._deletes_at_once = deletes_at_once
        self._log = wal
        self._to_be_said: set[int] = set()  # deleted before a commit; their headers do not say so
        self._tried: set[int] = set()  # batches of other processes that are run again in this one

    def taken_over(self, segment: Segment) -> None:
        """Once for each segment whose messages are held: do the rest if it was given up."""
        if self._deletes_at_once and not _says_deleted(segment):
            self._to_be_said.add(segment.number)
        outcome = self._log.outcomes.on(segment.number)
        if outcome is BatchOutcome.SPLIT:
            self._release(segment.number, len(segment.received))
            self._to_come |= {lease.key: lease for _, lease in segment.received}
            return
        for _, lease in segment.received:
            self._to_come.pop(lease.key, None)
        if outcome is BatchOutcome.POISON:
            self._engine.settle(segment.number)

    def go_on(self) -> None:
        """Once, after the log was taken over: resume with what the run before had found."""
        self._builder.come_again([*self._to_come.values()])
        if self._rule is not None:
            self._suspects.restore(self._log.outcomes.newest_findings)

    def may_settle(self, number: int) -> bool:
        """May this batch's messages be deleted? Not if it was given up.

        The answer holds for ever: a process that gives up batches cannot do so with this one.
        """
        was_given_up = self.is_given_up(number)
        is_open = self._rule is not None or self._log.outcomes.has_attempts(number)
        if not (is_open or number in self._to_be_said):
            return not was_given_up
        outcomes = self._log.outcomes
        if outcomes.on(number) is None:
            keys, repeats = self._engine.keys_of(number), outcomes.attempts(number)
            self._suspects.batch_committed(number, keys, repeats)
        final, _ = outcomes.decide(number, BatchOutcome.COMMITTED, self._suspects.findings)
        self._log.check_claim()
        if final.gives_up and not was_given_up:  # its rows were delivered here, and not elsewhere
            raise another_writer(self._log.where)
        return not final.gives_up

    def give_back(self, number: int) -> bool:
        """Abandon this batch of this run, which gave no rows. True if its messages come again.

        Not with deleteAfter=log: they are deleted, and the log alone has them.
        """
        if self._deletes_at_once:
            return False
        self._log.check_claim()
        final, _ = self._log.outcomes.decide(number, BatchOutcome.SPLIT, self._suspects.findings)
        if final is BatchOutcome.SPLIT and (keys := self._engine.keys_of(number)):
            self._release(number, len(keys))
        return final is BatchOutcome.SPLIT

    def is_given_up(self, number: int) -> bool:
        """True if the batch is known to have no rows."""
        outcome = self._log.outcomes.on(number)
        return outcome is not None and outcome.gives_up

    def gives_up(self, segment: Segment, *, is_alone: bool) -> bool:
        """True if this batch has no rows: it was given up, or is now.

        is_alone: Spark's batch has no other segment.
        """
        number = segment.number
        if self.is_given_up(number):
            return True
        if number in self._tried:
            return False
        if self._rule is None or not self._may_give_up(segment):
            self._warn_if_deleted(segment)
            return False
        attempts = self._log.outcomes.replayed(number)
        if not self._suspects.is_cut(attempts, is_compared=segment.header.suspect):
            self._tried.add(number)
            return False
        outcome = self._decide(segment, attempts, is_alone=is_alone)
        if not outcome.gives_up:
            self._tried.add(number)
            return False
        self._carry_out(outcome, segment, attempts)
        return True

    def _decide(self, segment: Segment, attempts: int, *, is_alone: bool) -> BatchOutcome:
        """Make an outcome of a batch that failed, unless it has one."""
        number, suspects = segment.number, self._suspects
        keys = [message.key for message in segment.messages]
        # Of a suspect's batch it is unknown whether an earlier process that was asked ran it.
        times = 1 if segment.header.suspect else attempts
        error = found(f'"segment":"{segment.digest[:16]}')
        suspects.batch_failed(number, keys, times=times, is_alone=is_alone, error=error)
        self._log.check_claim()
        due = BatchOutcome.SPLIT
        is_poison = len(keys) == 1 and is_alone and suspects.is_poison(keys[0])
        if is_poison and self._builder.was_moved(segment.messages[0], suspects.why(keys[0])):
            due = BatchOutcome.POISON
            suspects.moved(keys[0])
        final, findings = self._log.outcomes.decide(number, due, suspects.findings)
        suspects.restore(findings)
        return final

    def _may_give_up(self, segment: Segment) -> bool:
        """False if its messages may be deleted already."""
        number = segment.number
        return (
            not _says_deleted(segment)
            and number > self._log.state.progress.committed
            and self._log.outcomes.on(number) is None
        )

    def _warn_if_deleted(self, segment: Segment) -> None:
        """Once, if a batch that may fail again cannot be given up."""
        number, committed = segment.number, self._log.state.progress.committed
        if self._rule is not None and number > committed:
            self._tried.add(number)
            log.warning(
                "maxDequeueCount cannot abandon batch %d, which runs again: its messages are"
                " deleted (by deleteAfter=log, or after a commit that was rolled back), so only the"
                " write-ahead log has them. If it keeps failing, mend your code",
                number,
            )

    def _carry_out(self, outcome: BatchOutcome, segment: Segment, attempts: int) -> None:
        if outcome is BatchOutcome.POISON:
            with self._holder.locked_ledger as ledger:
                ledger.counts.poison_moved += 1
            self._engine.settle(segment.number)
            return
        where = f"{self._log.where} (segment {segment.digest[:16]})"
        log.warning("%s", abandoned(where, segment.number, attempts, len(segment.received)))
        self._release(segment.number, len(segment.received))
        self._builder.come_again([lease for _, lease in segment.received])

    def _release(self, number: int, messages: int) -> None:
        """Release the messages of a batch, and forget them: they return, and are new then."""
        self._holder.release_batch(number)
        with self._holder.locked_ledger as ledger:
            until = ledger.hidden_until
        self._progress.released(messages, until)


def _says_deleted(segment: Segment) -> bool:
    """True if its messages were deleted as soon as it was written."""
    return segment.header.reading.get(DELETE_AFTER) == DeleteAfter.LOG.value
