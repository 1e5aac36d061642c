"""The batches of a query with a log: taken over from earlier runs, written, read back, settled."""

from __future__ import annotations

import logging
from collections.abc import Callable

from spark_azqueue.conditions import Condition
from spark_azqueue.errors import (
    AzQueueError,
    CheckpointMismatch,
    LogConflict,
    LostSegment,
    ServiceError,
)
from spark_azqueue.metrics.report import LogReport
from spark_azqueue.options.choices import DeleteAfter, LogStart
from spark_azqueue.options.log import LogConfig
from spark_azqueue.service.messages import MAX_VISIBILITY_S

from ..batches.batch import Batch
from ..columns import Columns
from ..engine import Engine
from ..leases.timing import RENEWED_S
from ..offsets import OffsetJson
from .bodies import SegmentBodies
from .failures import DELETE_AFTER, FailedBatches
from .header import FirstBatch, Header, Progress
from .log import Contents, WriteAheadLog
from .offsets import LogOffset
from .progress import ProgressKeeper
from .replay import partitions_of, reading_options
from .segment import Segment
from .standing import Standing, first_segment

log = logging.getLogger(__name__)


def _leased_s(progress: Progress) -> int:
    """For how long the process that wrote it may have leased messages at most."""
    return min(progress.leased_s, MAX_VISIBILITY_S) or RENEWED_S


class LoggedBatches:
    """Batch n is segment n of the log. What survives a restart is in the log.

    Used by one thread at a time: a batch that is written ahead is waited for before anything else.

    What it raises: CheckpointMismatch, LogConflict, LogDamaged, LostSegment, ServiceError.
    """

    def __init__(
        self,
        engine: Engine,
        columns: Columns,
        settings: LogConfig,
        wal: WriteAheadLog,
        progress: ProgressKeeper,
        clock: Callable[[], float],
        bodies: SegmentBodies | None = None,
    ) -> None:
        """bodies: with largeBody=blob, what deletes the blobs of segments that are removed."""
        self._engine = engine
        self._columns = columns
        self._config = engine.config
        self._settings = settings
        self._deletes_at_once = settings.delete_after is DeleteAfter.LOG
        self._log = wal
        self._progress = progress
        self._failures = FailedBatches(engine, wal, progress, deletes_at_once=self._deletes_at_once)
        self._bodies = bodies
        self._clock = clock
        self._put_s: float | None = None  # what the newest put took
        self._is_checked = False
        self._is_taken_over = False
        self._refused: Exception | None = None  # why a log that was claimed was not taken over
        self._found: dict[int, Segment | None] = {}  # read before the log is taken over
        self._first: Segment | None = None  # the first to be given out, read when it was restored
        self._partitions: dict[int, list[bytes]] = {}  # of segments written and not yet committed
        self._offsets: dict[int, LogOffset] = {}
        self.after = 0
        """No batch up to this one is given out."""

    @property
    def head(self) -> int:
        """The newest batch that stands."""
        return self._log.standing.head

    @property
    def is_ahead(self) -> bool:
        """True if Spark was not known to have named the newest batch when the run began."""
        return self._log.standing.head > self._log.standing.progress.named

    @property
    def first_of_all(self) -> int | None:
        """With writeAheadLogStart=earliest, what a new checkpoint gets first from a used log."""
        standing = self._log.standing
        is_used = standing.progress.committed > standing.floor < standing.head
        is_wanted = self._settings.start is LogStart.EARLIEST and not self._is_checked
        return standing.floor + 1 if is_used and is_wanted else None

    def take_over(
        self, start: LogOffset | None, end: LogOffset | None = None, *, is_ours: bool = False
    ) -> None:
        """Once: become the log's writer, and hold the messages that earlier runs left in it.

        start: where the query goes on, None if Spark has not said. end, is_ours: see `check_start`.
        """
        if self._is_taken_over:
            return
        if self._refused:
            raise self._refused
        try:
            self._take_over(start, end, is_ours=is_ours)
        except Exception as error:
            if self._log.is_claimed:  # what was restored is a part: no call may go on from there
                self._refused = error
            raise
        self._is_taken_over = True

    def _take_over(self, start: LogOffset | None, end: LogOffset | None, *, is_ours: bool) -> None:
        self._log.open()
        # A log that an offset names has segments: with none, it is behind the checkpoint.
        floor = 0 if start is None or start.is_of_log else start.number
        self._check(self._log.survey(floor), start, end, is_ours=is_ours)  # a refusal stops nobody
        standing = self._log.claim(floor)
        self._check(standing, start, end, is_ours=is_ours)
        holder = self._engine.holder
        for owed in standing.progress.owed:
            holder.restore_owed(owed.key, owed.fingerprint, owed.expires)
        if standing.progress.owed:
            holder.may_be_hidden(self._hidden_until(standing.progress))
        if standing.progress.hidden:
            until = standing.progress.hidden_until - self._engine.service_is_ahead
            self._engine.may_be_hidden(standing.progress.hidden, until)
            self._progress.released(standing.progress.hidden, until)
        self._engine.forget_expired()
        headers = [each.header.progress for each in self._found.values() if each]
        leased_before = max(map(_leased_s, (standing.progress, *headers)))
        leased_s = max(leased_before, holder.longest_s())
        for number in standing.not_done:
            if segment := self._found.pop(number):
                ahead_s = self._engine.service_is_ahead
                holder.restore(segment.messages, number, ahead_s, leased_s)
                if number == self.after + 1:
                    self._first = segment
                self._failures.taken_over(segment)
        self._found.clear()  # another process may have ended deletes since some were read
        self._failures.go_on()
        self._progress.restored(standing.progress, standing.not_done)
        if self._bodies:
            self._bodies.go_on()
        if holder.longest_s() > max(leased_before, RENEWED_S):
            self.mark()  # before anything is renewed: the next process has to know it
        if start:
            self.check_start(start, end, is_ours=is_ours)
            if start.is_of_log:
                self.compare(start)

    def _check(
        self, standing: Standing, start: LogOffset | None, end: LogOffset | None, *, is_ours: bool
    ) -> None:
        """May a query that starts there use this log? Changes nothing in it.

        Reads the segments whose messages are to be held, each once: a segment never changes.
        """
        if start:
            self.after = self._first_segment(standing, start, end, is_ours=is_ours)
        if self._log.newest:
            self._check_queues(self._log.newest)
        for number in standing.not_done:
            if number not in self._found:
                segment = self._found[number] = self._segment(number)
                if segment:
                    self._check_holds(segment)

    def _hidden_until(self, progress: Progress) -> float:
        """Until when owed messages of earlier runs may be hidden, in our clock."""
        until = progress.hidden_until - self._engine.service_is_ahead
        if progress.has_ended and self._log.claim_number == progress.claim + 1:
            return until
        # A process that was killed may have leased one more of them just before.
        return max(until, self._clock() + max(_leased_s(progress), self._engine.holder.longest_s()))

    def check_start(
        self, start: LogOffset, end: LogOffset | None = None, *, is_ours: bool = False
    ) -> None:
        """Once: may a query go on from here? Then its checkpoint knows this log.

        end: of the batch that Spark asks for, if it does. is_ours: this run gave it to Spark.
        """
        if self._is_checked:
            return
        standing = self._log.standing
        self.after = self._first_segment(standing, start, end, is_ours=is_ours)
        if self.after > start.number:
            log.warning("batches %d to %d are not given out", start.number + 1, self.after)
        self._log.skip_to(start.number)
        self._is_checked = True
        if not start.is_of_log:
            first = FirstBatch(self.after, end.number if end else self.after + 1)
            is_news = standing.head > standing.floor and self._progress.began != first
            self._progress.began = first
            if is_news:  # else a rollback to the first batch would not know where it begins
                self.mark()

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

    def _first_segment(
        self, standing: Standing, start: LogOffset, end: LogOffset | None, *, is_ours: bool
    ) -> int:
        self._check_log(start)
        return first_segment(
            start,
            standing,
            self._log.where,
            choice=self._settings.start,
            lose=not self._settings.fail_on_data_loss,
            end=end,
            is_ours=is_ours,
        )

    def delete_logged(self) -> None:
        """With deleteAfter=log, begin the deletes of what stands in the log.

        Not before Spark has said where it is: a start that is refused deletes nothing.
        """
        if self._deletes_at_once and self._is_checked:
            self._settle(self.head)

    def compare(self, position: LogOffset) -> None:
        """Check that the segment is the one that the checkpoint names."""
        self._check_log(position)
        if position.number > self._log.standing.floor:
            if self._log.digest(position.number)[:16] != position.segment:
                self._segment(position.number, position.segment)
            self._log.skip_to(position.number)

    def write(self, number: int, batch: Batch) -> OffsetJson:
        """Put a new batch into the log. Returns its offset.

        After a refused put its messages are released. After a put without an answer they are not:
        the segment may stand, or appear later.
        """
        contents = Contents(
            self._engine.holder.with_newest_receipts(batch.messages),
            batch.cut,
            batch.oldest,
            tuple(dict.fromkeys((*self._config.queues, *(m.queue for m in batch.messages)))),
            {**reading_options(self._config), DELETE_AFTER: self._settings.delete_after.value},
            batch.suspect,
        )
        self._engine.forget_expired()
        began = self._clock()
        try:
            segment = self._log.put(contents, self._progress.now())
        except LogConflict:
            if self.head < number:  # the number is another process's, and what is in it is its own
                self._engine.holder.give_back_batch(number)
            raise
        except ServiceError as error:
            if self.head < number and not error.may_have_taken_effect:
                self._engine.holder.give_back_batch(number)
            raise
        self._put_s = self._clock() - began
        self._progress.written(number)
        self._partitions[number] = batch.partitions
        if self._bodies:
            self._bodies.go_on()
        self.delete_logged()
        return self._known(segment).to_json()

    def offset(self, number: int) -> OffsetJson:
        """The offset behind a batch that stands."""
        known = self._offsets.get(number)
        return (known or self._known(self._log.segment(number))).to_json()

    def rows_of(self, numbers: range) -> list[bytes]:
        """The partitions of these segments, which are one batch of Spark: the same at every call.

        None of a segment that was given up, or is given up now because it failed too often.
        """
        alone = len(numbers) == 1
        return [part for number in numbers for part in self._rows(number, is_alone=alone)]

    def _rows(self, number: int, *, is_alone: bool) -> list[bytes]:
        """A segment's partitions, from memory or from the log."""
        if number in self._partitions:
            return self._partitions[number]
        if self._failures.is_given_up(number):
            return []
        segment = self._first if self._first and self._first.number == number else None
        segment = segment or self._segment(number)
        self._first = None
        if segment is None:
            self._engine.holder.forget(number)
            return []
        if self._failures.gives_up(segment, is_alone=is_alone):
            return []
        log.info("batch %d is read from the log: %d messages", number, len(segment.messages))
        return partitions_of(segment, self._columns, self._config)

    def committed(self, number: int) -> None:
        """The batches up to this one are committed: delete their messages, unless that was done."""
        self._progress.proven(number)
        self._settle(number)
        for kept in (self._partitions, self._offsets):
            for each in [each for each in kept if each < number]:
                del kept[each]
        self._partitions.pop(number, None)

    def finish_bodies(self, timeout_s: float) -> None:
        """Wait this long for the deletes of blobs that have begun."""
        if self._bodies:
            self._bodies.finish(timeout_s)

    def named(self, number: int) -> None:
        """Spark has named this batch: its checkpoint has it."""
        self._progress.named(number)

    def report(self) -> LogReport | None:
        """The log's state, None before it is claimed. Sends nothing."""
        if not self._log.is_claimed:
            return None
        standing = self._log.standing
        sizes = list(self._log.sizes.values())  # a batch may be written ahead at the same time
        known, owed = self._engine.holder.known()
        return LogReport(
            segments=len(sizes),
            bytes=sum(sizes),
            uncommitted=standing.head - max(self._progress.committed, standing.floor),
            known=known,
            owed=owed,
            put_seconds=None if self._put_s is None else round(self._put_s, 3),
        )

    def mark(self) -> None:
        """Write down how far deleting has come, if that is news."""
        self._log.mark(self._progress.now())

    def mark_if_due(self, *, at_once: bool = False, has_ended: bool = False) -> None:
        """The same, seldom, and best effort: a mark only saves work.

        has_ended: it is the last one of this process. Writes nothing if the log was not taken over
        as a whole: a start that is refused must not change what the next one finds.
        """
        if not self._is_taken_over or not (at_once or self._progress.is_due()):
            return
        try:
            self._log.mark(self._progress.now(has_ended=has_ended))
        except AzQueueError as error:
            log.warning("could not note how far deleting has come: %s", error)

    def _settle(self, number: int) -> None:
        for each in self._progress.kept_up_to(number):
            if self._failures.may_settle(each):
                self._engine.settle(each)
            self._progress.to_settle(each)  # after that, so that it is repeated if it fails

    def _known(self, segment: Segment) -> LogOffset:
        offset = LogOffset(
            self._config.account.name,
            segment.number,
            self._log.uuid,
            segment.digest[:16],
            len(segment.messages),
            segment.header.oldest,
        )
        self._offsets[segment.number] = offset
        return offset

    def _segment(self, number: int, digest: str = "") -> Segment | None:
        """Read a segment; None if it is lost, with failOnDataLoss=false."""
        try:
            segment = self._log.segment(number, digest)
        except LostSegment as error:
            if self._settings.fail_on_data_loss:
                raise
            then = "were deleted" if self._deletes_at_once else "come again"
            log.warning("%s: its batch is empty, and its messages %s", error, then)
            return None
        self._known(segment)
        return segment

    # ── is it the right log? ──────────────────────────────────────────────────────────────────────

    def _check_log(self, position: LogOffset) -> None:
        if position.is_of_log and position.log != self._log.uuid:
            raise CheckpointMismatch(
                f"the checkpoint belongs to another write-ahead log than {self._log.where}: name"
                " its folder, or start with a new checkpointLocation and a new output",
                condition=Condition.LOG_CHECKPOINT_MISMATCH,
            )

    def _check_queues(self, newest: Header) -> None:
        """Does the query read any of the queues from which the newest segment was made?"""
        if not any(map(self._config.selection.includes, newest.queues)):
            names = sorted(queue.name for queue in newest.queues)
            raise CheckpointMismatch(
                f"the write-ahead log {self._log.where} was written from the queues {names}, and"
                " option 'queue' names none of them: is it the folder of another query?",
                condition=Condition.LOG_CHECKPOINT_MISMATCH,
            )

    def _check_holds(self, segment: Segment) -> None:
        """Its messages are to be deleted: does this query read their queues?"""
        queues = {message.queue for message in segment.messages}
        names = sorted(q.name for q in queues if not self._config.selection.includes(q))
        if names:
            raise CheckpointMismatch(
                f"batch {segment.number} of the write-ahead log {self._log.where} has messages of"
                f" {names}, which are not deleted yet and which option 'queue' does not name any"
                " more: add it until they are (an availableNow run does it)",
                condition=Condition.LOG_CHECKPOINT_MISMATCH,
            )
