"""Work of a task for one slot of a plan. The source's guarantees depend on the order of the steps.

1. If a segment exists for this slot: continue with step 5. If the plan is closed or cleaned: fail.
   An attempt that may not be the only attempt leaves a mark, then checks once more whether a
   segment exists: a driver that closed the plan before the mark was visible has put a tombstone,
   and a driver that closes the plan later sees the mark.
2. Dequeue for some seconds. A slot that retries messages does not dequeue, but reads messages of an
   abandoned plan, see `segment_again`. If the current options decode bodies differently than the
   plan's options: put a tombstone, and deliver no row.
3. Decode. A body that does not decode is copied to its poison queue, then deleted. With
   onUndecodable=fail: release all messages, and fail.
4. Put a segment of the messages that have rows. If another attempt has put a segment before:
   release the leased messages, and use the segment of the other attempt.
5. If the slot has no report yet and the plan is cleaned: fail.
6. If the slot has no report yet, delete the messages by the receipts in the segment, and store a
   report with the pending deletes.
7. Deliver the rows.

A task may be killed after each step, or may pause and resume after its plan is closed. Two tasks of
a slot may run at the same time. So a message is deleted only after it is in a segment or in a
poison queue, and a row is delivered only after every delete of the slot has a final answer.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from spark_azqueue.errors import ServiceError
from spark_azqueue.journal.refusals import tell_loss
from spark_azqueue.options.source_config import SourceConfig
from spark_azqueue.service.messages import ENDLESS_US, UNKNOWN_TIME, Lease, Received
from spark_azqueue.service.queues.client import QueueClient

from ..logged.undecodable import LoggedRows, Reading
from ..refusals import check_held, lost_slot, lost_slot_to_split, removed_under_task
from . import names
from .folder import PlanFolder, tombstone
from .leasing import (
    Leased,
    Leasing,
    delete_all,
    release,
    settle_slot,
    slot_rows,
    without_deletes,
    without_undecodable,
)
from .objects import Counts, SlotHeader, SlotReport, SlotSegment, report_bytes_at_most
from .plan import Plan

_LATER_ATTEMPT_WAITS_S = 2.0
_LOOK_AGAIN_S = 0.25


class SlotTask:
    """One attempt of a task at one slot. Attempts share no state in memory.

    `segment` raises ServiceError; UndecodableBody and TooManyPoison (see `without_undecodable`);
    LostSegment or LogDamaged if objects of the folder are missing or damaged; CheckpointMismatch
    for another folder. After an error, Spark repeats the task.
    """

    def __init__(
        self,
        config: SourceConfig,
        plan: Plan,
        slot: int,
        folder: PlanFolder,
        client: QueueClient,
        *,
        is_repeated: bool = False,
        lose: bool = False,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """is_repeated: Spark says that this is not the first attempt. lose: failOnDataLoss is
        false.
        """
        self._config = config
        self._plan = plan
        self._slot = slot
        self._folder = folder
        self._client = client
        self._is_repeated = is_repeated
        self._lose = lose
        self._clock = clock
        self._sleep = sleep
        self._attempt = uuid.uuid4().hex

    def segment(self) -> SlotSegment:
        """Return the segment of this slot after every delete has a final answer. The segment never
        changes.
        """
        return self._given()[0]

    def rows(self) -> LoggedRows:
        """Return the rows of the slot, the same in every call.

        The rows raise UndecodableBody, see `LoggedRows`.
        """
        return self._given()[1]

    def _given(self) -> tuple[SlotSegment, LoggedRows]:
        self._folder.recognise(self._plan)
        found = self._found()
        if found is None and self._leaves_mark:
            is_repeated = self._is_repeated
            self._folder.note_begun(self._plan, self._slot, self._attempt, is_repeated=is_repeated)
            found = self._folder.segment(self._plan, self._slot)
        leased: Leased | None = None
        if found is None:
            if self.is_lost():
                return self._nothing(tombstone(self._plan, self._slot, self._attempt))
            began = self._clock()
            segment, size, leased = self._put()
        else:
            segment, size = found
        if segment.header.tombstone:
            self.is_lost()  # a driver that is fenced may have put the tombstone into a cleaned plan
            return self._nothing(segment)
        done = self._folder.settled(self._plan, self._slot)
        if done is None:
            self.check_floor()
            self._check_held(segment)
        rows = slot_rows(segment, Reading.of(self._config))
        if done is not None:
            return segment, rows
        answered = self._settled(segment, size, leased.copies if leased else ())
        if leased is not None:  # the deletes may take much of the task's time
            counts = replace(answered.counts, took_cs=self._since_cs(began))
            answered = replace(answered, counts=counts)
        self._folder.put_settled(self._plan, self._slot, answered)
        return segment, rows

    def _nothing(self, segment: SlotSegment) -> tuple[SlotSegment, LoggedRows]:
        return segment, slot_rows(segment, Reading.of(self._config))

    @property
    def _leaves_mark(self) -> bool:
        """Return True if this attempt must leave a mark before it dequeues messages.

        If an attempt is killed, its messages stay leased for a while, and an availableNow run must
        wait for these messages. A second job or a retried stage numbers its attempts from 0 again,
        so attempt 0 need not be the first attempt. So in an availableNow run every attempt leaves a
        mark.
        """
        leases = self._plan.slots[self._slot].again is None
        return leases and (self._is_repeated or self._plan.cutoff is not None)

    def _since_cs(self, began: float) -> int:
        return int((self._clock() - began) * 100)

    def _found(self) -> tuple[SlotSegment, int] | None:
        """Return the segment of this slot, or None if no segment was put.

        If this is not the first attempt, waits a moment for the segment of an earlier attempt.
        """
        until = self._clock() + (_LATER_ATTEMPT_WAITS_S if self._is_repeated else 0.0)
        while True:
            found = self._folder.segment(self._plan, self._slot)
            if found is not None or self._clock() >= until:
                return found
            self._sleep(_LOOK_AGAIN_S)

    def is_lost(self) -> bool:
        """Return True if the plan is closed or removed. A segment must not be put into such a plan.

        Called if no segment exists, before a message is leased. Raises LostSegment in place of
        returning True, unless `lose` is set.
        """
        plan = self._plan
        is_over = plan.number <= self._folder.floor()
        if not is_over and self._folder.following(plan.id) is not None:
            is_over = self._folder.segment(plan, self._slot) is None
        if not is_over:
            return False
        error = lost_slot(self._folder.where, self._slot, plan.number)
        tell_loss(error, lose=self._lose)
        return True

    def check_floor(self) -> None:
        """Raise LostSegment if the plan is being removed. The rows of such a plan are not kept.

        Called before the first delete.
        """
        if self._plan.number <= self._folder.floor():
            raise removed_under_task(self._folder.where, self._plan.number)

    def _check_held(self, segment: SlotSegment) -> None:
        """Raise an error if the query does not read the queue of a message in this segment. Called
        before the first delete.

        A slot that retries messages has nothing to delete.
        """
        if self._plan.slots[self._slot].again is None:
            selection, where = self._config.selection, self._folder.where
            check_held(selection, segment.received, self._plan.number, where)

    def _settled(self, segment: SlotSegment, size: int, copies: Sequence[Lease]) -> SlotReport:
        if self._plan.slots[self._slot].again is not None:
            return without_deletes(segment, size)
        return settle_slot(self._config, self._client, segment, size, copies)

    def _put(self) -> tuple[SlotSegment, int, Leased | None]:
        """Put the segment of this slot.

        Returns the stored segment, its size in bytes, and the leased messages. In place of the
        leased messages, returns None if another attempt put the segment.
        """
        plan = self._plan
        if plan.slots[self._slot].again is not None:
            ours = segment_again(
                self._config, self._folder, plan, self._slot, self._attempt, lose=self._lose
            )
        elif self.decides_as_planned:
            return self._lease_and_put()
        else:
            ours = tombstone(plan, self._slot, self._attempt)
        created, size = self._folder.put_segment(ours)
        if created:
            return ours, size, None
        return *self._folder.first_segment(self._plan, self._slot), None

    @property
    def decides_as_planned(self) -> bool:
        """Return False if options that control decoding have changed since the plan was made.

        An earlier attempt may have dead-lettered a body that would have a row with the new options.
        So this attempt leases no messages, and the next plan reads the messages with the new
        options.
        """
        return self._plan.reading == Reading.of(self._config).options

    def _lease_and_put(self) -> tuple[SlotSegment, int, Leased | None]:
        plan = self._plan
        known = self._folder.known(plan)
        began, began_cs = self._clock(), int(time.time() * 100)
        leasing = Leasing(
            self._config, plan, plan.slots[self._slot], known, self._client, self._clock
        )
        leased = leasing.lease()
        within_s = began + plan.lease_s / 2 - self._clock()  # the put needs the rest of the lease
        leased = without_undecodable(self._config, self._client, leased, within_s, self._clock)
        counts = replace(leased.counts, began_cs=began_cs, took_cs=self._since_cs(began))
        ours = SlotSegment(self._header(leased, counts), leased.received)
        try:
            created, size = self._folder.put_segment(ours)
        except ServiceError as error:
            if not error.may_have_taken_effect:  # otherwise the segment may exist, or appear later
                release(self._client, leased.leases)
            raise
        release(self._client, leased.unwanted)
        if created:
            return ours, size, leased
        segment, size = self._folder.first_segment(plan, self._slot)
        if (
            segment.header.attempt == self._attempt
        ):  # the first try worked, and its retry was refused
            return segment, size, leased
        self.give_up(leased, segment)
        return segment, size, None

    def give_up(self, leased: Leased, winner: SlotSegment) -> None:
        """Delete leased messages that are in the segment of a faster attempt, and release the other
        leased messages.

        winner: segment of the faster attempt. The receipts in this segment are stale, since the
        current attempt leased the messages later. A message is also released if its text was
        updated after the faster attempt leased the message, or if its text is damaged.
        """
        stand = {message.key: message.text for message, _ in winner.received if message.is_whole}
        twice, rest = list[Lease](), list(leased.copies)
        for message, lease in leased.received:
            is_held = message.is_whole and stand.get(message.key) == message.text
            (twice if is_held else rest).append(lease)
        if twice:
            self.check_floor()
            delete_all(self._config, self._client, twice)
        release(self._client, rest)

    def _header(self, leased: Leased, counts: Counts) -> SlotHeader:
        received = leased.received
        return SlotHeader(
            self._plan.log,
            self._plan.id,
            self._slot,
            self._plan.account,
            self._attempt,
            messages=len(received),
            until=_until(received),
            repeated=self._is_repeated,
            oldest=_least(message.insertion_time for message, _ in received),
            expires=_least(
                message.expiration_time
                for message, _ in received
                if message.expiration_time < ENDLESS_US
            ),
            queues=self._plan.slots[self._slot].queues,
            reading=Reading.of(self._config).options,
            looked=leased.looked,
            counts=counts,
        )


def _until(received: tuple[Received, ...]) -> int:
    """Return the time at which the first lease ends, in seconds since 1970; 0 if the end of any
    lease is unknown."""
    ends = [message.next_visible_time or 0 for message, _ in received]
    return min(ends, default=0) // 1_000_000


def _least(times: Iterable[int]) -> int | None:
    """Return the earliest of these times in seconds, or None if `times` is empty."""
    return min((time // 1_000_000 for time in times if time != UNKNOWN_TIME), default=None)


def segment_again(
    config: SourceConfig,
    folder: PlanFolder,
    plan: Plan,
    slot: int,
    attempt: str,
    *,
    lose: bool,
) -> SlotSegment:
    """Return the segment of a slot that retries messages.

    The segment is the same for every attempt, except for the header's field `attempt`. Raises
    ServiceError, LogDamaged; also LostSegment if the stored messages were removed, unless `lose` is
    set.
    """
    part = plan.slots[slot].again
    assert part is not None
    header = SlotHeader(
        plan.log,
        plan.id,
        slot,
        plan.account,
        attempt,
        reading=Reading.of(config).options,
    )
    source = folder.segment_of(part.plan, part.slot)
    size = report_bytes_at_most(len(source[0].received)) if source else 0
    if source is None or folder.settled_of(part.plan, part.slot, size) is None:
        error = lost_slot_to_split(folder.where, part.slot, part.plan.number, plan.number)
        tell_loss(error, lose=lose)
        return SlotSegment(header, ())
    segment, _ = source
    stored = segment.header
    if part.end > len(segment.received):
        name = names.slot(part.plan, part.slot)
        raise folder.damaged(name, f"batch {plan.number} needs other messages of it")
    received = segment.received[part.first : part.end]
    return SlotSegment(
        replace(
            header,
            messages=len(received),
            oldest=stored.oldest,
            expires=stored.expires,
            queues=stored.queues,
            reading=stored.reading,
        ),
        received,
    )
