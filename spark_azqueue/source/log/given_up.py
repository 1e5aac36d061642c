"""Abandons batches of the driver's log that keep failing, and finds the message that makes them
fail.
"""

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
"""Name of the option deleteAfter in a segment's header."""


class FailedBatches:
    """Decides which batches to abandon, if earlier processes wrote them and Spark asks for them
    again.

    Used by one thread.

    Its methods raise LogConflict, LogDamaged, ServiceError. After an error, either nothing was
    decided, or the decision is in the log and the next run carries it out.
    """

    def __init__(
        self,
        engine: DriverLeasing,
        wal: WriteAheadLog,
        progress: ProgressKeeper,
        *,
        deletes_at_once: bool,
    ) -> None:
        """deletes_at_once: deleteAfter is log."""
        self._engine = engine
        self._progress = progress
        # messages released at the start that are in no new batch yet
        self._to_come: dict[MessageKey, Lease] = {}
        self._rule = IsolationRule.of(engine.config)
        self._suspects, self._holder, self._builder = engine.suspects, engine.holder, engine.builder
        self._deletes_at_once = deletes_at_once
        self._log = wal
        # batches whose messages are deleted before the commit, although the header does not say so
        self._to_be_said: set[int] = set()
        # batches of other processes that this process tries to run
        self._tried: set[int] = set()

    def taken_over(self, segment: Segment) -> None:
        """Release or settle the messages of this segment, if its batch was abandoned.

        Called once for each segment whose messages are held.
        """
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
        """Load the findings of earlier runs about suspects. Called once, after the takeover of the
        log.
        """
        self._builder.come_again([*self._to_come.values()])
        if self._rule is not None:
            self._suspects.restore(self._log.outcomes.newest_findings)

    def may_settle(self, number: int) -> bool:
        """Return True if this batch's messages may be deleted: the batch was not abandoned.

        After this method has returned True, no process can abandon the batch.
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
        if (
            final.gives_up and not was_given_up
        ):  # another process abandoned the batch, but its rows were delivered here
            raise another_writer(self._log.where)
        return not final.gives_up

    def give_back(self, number: int) -> bool:
        """Abandon this batch of this run, which delivered no rows. Returns True if its messages are
        delivered again.

        With deleteAfter=log, returns False and abandons nothing: the messages are deleted, and only
        the log has them.
        """
        if self._deletes_at_once:
            return False
        self._log.check_claim()
        final, _ = self._log.outcomes.decide(number, BatchOutcome.SPLIT, self._suspects.findings)
        if final is BatchOutcome.SPLIT and (keys := self._engine.keys_of(number)):
            self._release(number, len(keys))
        return final is BatchOutcome.SPLIT

    def is_given_up(self, number: int) -> bool:
        """Return True if the batch was abandoned. An abandoned batch has no rows."""
        outcome = self._log.outcomes.on(number)
        return outcome is not None and outcome.gives_up

    def gives_up(self, segment: Segment, *, is_alone: bool) -> bool:
        """Abandon this batch if it failed too often. Returns True if the batch is abandoned, now or
        before.

        is_alone: Spark reads this segment as a batch of its own.
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
        """Return the outcome of a failed batch. Decides the outcome if the batch has none."""
        number, suspects = segment.number, self._suspects
        keys = [message.key for message in segment.messages]
        # All attempts to run a batch of suspects count as one failure, because it is unknown
        # whether the earlier processes did run the batch.
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
        """Return False if the messages of the batch may already be deleted."""
        number = segment.number
        return (
            not _says_deleted(segment)
            and number > self._log.state.progress.committed
            and self._log.outcomes.on(number) is None
        )

    def _warn_if_deleted(self, segment: Segment) -> None:
        """Log a warning, once, that this batch cannot be abandoned, if it is not committed."""
        number, committed = segment.number, self._log.state.progress.committed
        if self._rule is not None and number > committed:
            self._tried.add(number)
            log.warning(
                "maxDequeueCount cannot abandon batch %d, which runs again: its messages are"
                " deleted (by deleteAfter=log, or after a commit that was rolled back), so only the"
                " write-ahead log has them. If it keeps failing, fix your code",
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
        """Release the messages of a batch, and remove the messages from the ledger.

        The next dequeue of these messages is treated like the first.
        """
        self._holder.release_batch(number)
        with self._holder.locked_ledger as ledger:
            until = ledger.hidden_until
        self._progress.released(messages, until)


def _says_deleted(segment: Segment) -> bool:
    """Return True if the segment's messages were deleted as soon as the segment was written."""
    return segment.header.reading.get(DELETE_AFTER) == DeleteAfter.LOG.value
