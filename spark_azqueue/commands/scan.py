"""Decides, for a run over a queue, what to do with each leased message, and when the run ends.

A run processes each message once. If a message is not moved or deleted, it is *kept*: it stays
leased until the run ends, so that the next dequeue returns other messages. Messages that are put
after the start of the run are not processed. Otherwise, a consumer that sends messages back
immediately would keep the run busy forever.
"""

from __future__ import annotations

import enum
import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from spark_azqueue.errors import InvalidRow
from spark_azqueue.options.choices import IsolationLevel
from spark_azqueue.service.encoding import Encoding
from spark_azqueue.service.envelopes import DeadLetterEnvelope, stored_text
from spark_azqueue.service.messages import (
    ENDLESS_US,
    MAX_PER_REQUEST,
    NEVER_EXPIRES,
    Lease,
    Message,
    QueueRef,
    Received,
)

from .filters import Filter, envelope_in

LEASE_S = 300
"""Seconds for which a run leases messages. If the run is killed, its messages stay invisible for up
to this time.
"""

MOST_KEPT = 100_000
"""Maximum number of messages that a run keeps. At this number, the run ends."""

MOST_EXPORTED = 500_000
"""Maximum number of messages that a run keeps if it exports messages. Such a run has only leases in
memory, about 200 MB.
"""

MOST_REMEMBERED = 500_000
"""Number of redriven dead letters that a run remembers to recognize duplicates: the newest ones,
which take about 60 MB.
"""

MOST_PAGES_WITHOUT_NEWS = 4
"""The run ends after this many consecutive answers that contain only messages which were put after
its start.
"""

_STEPS_PER_S = 4
_SPLIT_AT_ONCE = 4
"""Number of messages in a step if packed messages are split. The number is small because one
message may become a thousand messages.
"""
_MOST_SECONDS = 2**31 - 1


class ScanFate(enum.Enum):
    """What a run does with a message."""

    ACT = "move it, or delete it"
    FINISH = "delete it: its copy exists already"
    OTHER = "no match"
    UNDECIDED = "a pack that cannot be opened, or of which only some rows may be deleted"
    NEWER = "put after the start"
    YOUNG = "not old enough"
    OLD = "too old"
    DAMAGED = "its text cannot be read"
    SEEN = "looked at before"
    BEYOND = "more than were asked for"
    EXPIRING = "about to expire: a transaction may have abandoned it"


class End(enum.Enum):
    """Why a run ended."""

    DONE = "everything that could be dequeued was looked at"
    NEWER = "only newer messages came"
    ENOUGH = "as many as were asked for"
    TOO_MANY_KEPT = "too many messages stay"
    INTERRUPTED = "interrupted"
    FAILED = "an error"


@dataclass(frozen=True)
class TransferPlan:
    """What a run has to do. target: target queue; None to delete the messages.

    began: start of the run, in microseconds since 1970 by the service's clock. Messages that were
    put later are not processed. put_before, put_after: process only messages that were put before
    or after these times; None for no limit. rate: maximum number of messages per second; None for
    no limit. most: maximum number of messages; None for all messages. time_to_live: time to live of
    the copies, in seconds; None for the remaining time to live of the original. opens_envelopes:
    True to put the body of an envelope, not the envelope. most_kept: number of kept messages at
    which the run ends. isolation: with readCommitted, messages that a transaction may have
    abandoned are not processed. splits: True to put each row of a packed message as a message.
    """

    source: QueueRef
    began: int
    target: QueueRef | None = None
    only: Filter = field(default_factory=Filter)
    rate: int | None = None
    most: int | None = None
    time_to_live: int | None = None
    opens_envelopes: bool = False
    most_kept: int = MOST_KEPT
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED
    put_before: int | None = None
    put_after: int | None = None
    splits: bool = False

    @property
    def selects(self) -> bool:
        """True if a filter or a limit on the age selects the messages that the run processes."""
        return bool(self.only) or self.put_before is not None or self.put_after is not None

    def kept_for_its_age(self, message: Message) -> ScanFate | None:
        """Return why this message is not processed because of the time at which it was put; None if
        it may be processed.
        """
        at = message.insertion_time
        if at > self.began:
            return ScanFate.NEWER
        if self.put_before is not None and at > self.put_before:
            return ScanFate.YOUNG
        if self.put_after is not None and at < self.put_after:
            return ScanFate.OLD
        return None

    @property
    def encoding(self) -> Encoding:
        """Encoding of the bodies in the queue."""
        return self.only.encoding

    @property
    def step(self) -> int:
        """Maximum number of messages in a dequeue. Smaller if `rate` is low."""
        most = _SPLIT_AT_ONCE if self.splits else MAX_PER_REQUEST
        return most if self.rate is None else min(most, step_of(self.rate))


def step_of(rate: int) -> int:
    """Return the number of messages in a step, so that `rate` messages per second are spread
    evenly."""
    return min(MAX_PER_REQUEST, max(1, rate // _STEPS_PER_S))


@dataclass(frozen=True, slots=True)
class MessageCopy:
    """A message to put. ttl_s: see `Put`. was_envelope: True if the text was in an envelope.

    dead: digest that identifies the dead-lettered message or row; None without an envelope.
    """

    text: str
    ttl_s: int
    was_envelope: bool = False
    dead: bytes | None = None


def copy_of(message: Message, plan: TransferPlan, now: int) -> MessageCopy:
    """Return the copy of a message. now: microseconds since 1970, by the service's clock.

    Raises InvalidRow if an envelope must be opened and its body cannot be stored, or if the queue's
    messages are in base64, but the plan's encoding is not.
    """
    envelope = envelope_in(message.text, plan.encoding) if plan.opens_envelopes else None
    if plan.opens_envelopes and not envelope and envelope_in(message.text, Encoding.BASE64):
        raise InvalidRow("this envelope is in base64")
    text = message.text if envelope is None else stored_text(envelope, plan.encoding)
    ttl_s = plan.time_to_live
    if ttl_s is None:
        ttl_s = seconds_left(message.expiration_time, now)
    if envelope is None:
        return MessageCopy(text, ttl_s)
    return MessageCopy(text, ttl_s, was_envelope=True, dead=_dead(envelope, text))


def _dead(envelope: DeadLetterEnvelope, text: str) -> bytes:
    """Return a digest that is equal for two dead letters of the same message, or of the same row.

    The digest includes the text, because the id in an envelope can be forged, and because the
    message may have been updated before it was dead-lettered again.
    """
    what = repr((envelope.queue, envelope.message_id, envelope.row, text))
    return hashlib.blake2b(what.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def seconds_left(expires: int, now: int) -> int:
    """Return the remaining time to live of a message: whole seconds, rounded up; -1 if it never
    expires.
    """
    if expires >= ENDLESS_US:
        return NEVER_EXPIRES
    return min(_MOST_SECONDS, max(1, math.ceil((expires - now) / 1_000_000)))


@dataclass(slots=True)
class ScanCounts:
    """Counts of messages in a run.

    done: messages that were moved or deleted. opened: messages among `done` that were taken out of
    envelopes. twins: dead letters that were deleted without a copy, because another dead letter of
    the same message was put back. other, undecided, newer, young, old, damaged, beyond, expiring:
    see `ScanFate`. unseen: approximate number of messages that are in the queue at the end and that
    no dequeue returned; None if unknown. closed: envelopes that could not be opened. refused:
    messages whose copy the service refused. broken: lines and logged messages that cannot be sent.
    taken: messages that another consumer leased before the run could delete them. twice: messages
    that were copied, but not deleted. maybe_twice: number of further copies that may exist, one for
    each lost answer to a put. maybe_left: messages in `done` that may still exist, because their
    delete was refused after a lost answer. maybe_hidden: messages that may be leased, because the
    answer to a dequeue was lost. not_released: kept messages that could not be released, and become
    visible when their lease ends. left_hidden: prepared messages that the run could not delete,
    although their transaction is not recorded.
    """

    looked: int = 0
    done: int = 0
    opened: int = 0
    twins: int = 0
    other: int = 0
    undecided: int = 0
    newer: int = 0
    young: int = 0
    old: int = 0
    damaged: int = 0
    beyond: int = 0
    expiring: int = 0
    closed: int = 0
    refused: int = 0
    broken: int = 0
    taken: int = 0
    twice: int = 0
    maybe_twice: int = 0
    maybe_left: int = 0
    maybe_hidden: int = 0
    not_released: int = 0
    unseen: int | None = None
    left_hidden: int = 0

    def add(self, name: str, by: int = 1) -> None:
        """Add to the count of this name."""
        setattr(self, name, getattr(self, name) + by)

    @property
    def is_clean(self) -> bool:
        """True if every selected message was processed exactly once."""
        stay = (
            self.damaged,
            self.undecided,
            self.closed,
            self.refused,
            self.taken,
            self.not_released,
            self.broken,
        )
        return not any((*stay, self.twice, self.maybe_twice, self.maybe_left, self.maybe_hidden))


class Scan:
    """The state of a run. This class makes the decisions, and sends nothing."""

    def __init__(self, plan: TransferPlan) -> None:
        self.plan = plan
        self.tally = ScanCounts()
        self.kept: dict[str, Lease] = {}
        """Leases of the kept messages, by message id. The leases are released at the end."""
        # Messages that were copied and whose delete was not confirmed, by id: the name of the count
        # that includes the message, and its text.
        self._copied: dict[str, tuple[str, int]] = {}
        # Digests of dead letters that were put back. The first set has the newest digests, the
        # second set has older digests.
        self._put_back: tuple[set[bytes], set[bytes]] = (set(), set())
        self._without_news = 0
        self._again = 0  # number of messages that were dequeued again since the last new message
        self._begun = 0

    def wanted(self) -> int:
        """Return the number of messages that the next dequeue should request."""
        if self.plan.most is None or self.plan.selects:
            return self.plan.step
        return max(1, min(self.plan.step, self.plan.most - self._begun))

    def sort(
        self, page: Sequence[Received], answered_at: int | None = None
    ) -> list[tuple[Received, ScanFate]]:
        """Record the result of a dequeue.

        Returns the messages to move or delete. The run keeps the other messages.

        answered_at: time of the answer by the service's clock, in microseconds since 1970, or None
        if unknown.
        """
        found = [(each, self._fate_of(each.message, answered_at)) for each in page]
        fates = {fate for _, fate in found}
        for received, fate in found:
            if fate is not ScanFate.SEEN:
                self.tally.looked += 1
            if fate in _COUNTED:
                self.tally.add(fate.name.lower())
            if fate not in (ScanFate.ACT, ScanFate.FINISH):
                self.keep(received.lease)
        if fates - {ScanFate.SEEN, ScanFate.NEWER}:
            self._without_news = self._again = 0
        # leases have ended; other messages may follow these messages in the queue
        elif ScanFate.SEEN in fates:
            self._again += sum(fate is ScanFate.SEEN for _, fate in found)
        else:
            self._without_news += 1
        return [each for each in found if each[1] in (ScanFate.ACT, ScanFate.FINISH)]

    def keep(self, lease: Lease) -> None:
        """Keep a message leased until the end of the run, without processing it."""
        self.kept[lease.message_id] = lease

    def is_done(self, message: Message, *, is_sure: bool, was_envelope: bool = False) -> None:
        """Record that a message was deleted. is_sure: False if the delete was refused after the
        answer to an earlier attempt was lost.
        """
        counted, _ = self._copied.pop(message.message_id, ("", 0))
        if counted:  # the message was dequeued again, and it already had a copy
            self.tally.add(counted, -1)
        if counted != "maybe_twice":
            self.tally.done += 1
            self.tally.opened += was_envelope
        if not is_sure and self.plan.target is None:
            self.tally.maybe_left += 1
        elif not is_sure:
            self._count_copy(message, "maybe_twice")

    def is_put_back(self, copy: MessageCopy) -> None:
        """Record that the service confirmed the put of a copy."""
        if copy.dead is not None:
            self._put_back[0].add(copy.dead)
            if len(self._put_back[0]) >= MOST_REMEMBERED // 2:
                self._put_back = set(), self._put_back[0]

    def was_put_back(self, copy: MessageCopy) -> bool:
        """Return True if this run has already put back the message or row of this dead letter."""
        return any(copy.dead in each for each in self._put_back)

    def is_dropped(self, *, is_sure: bool) -> None:
        """Record that a twin (duplicate dead letter) was deleted. is_sure: see `is_done`."""
        self.tally.twins += 1
        self.tally.maybe_left += not is_sure

    def stands_twice(self, message: Message) -> None:
        """Record that a message is in both queues. If the message is dequeued again, the run
        deletes it without copying it.
        """
        if message.message_id not in self._copied:
            self._count_copy(message, "twice")

    def _count_copy(self, message: Message, count: str) -> None:
        self._copied[message.message_id] = count, hash(message.text)
        self.tally.add(count)

    def end_after(self, page: Sequence[Received]) -> End | None:
        """Return the reason why the run ends after this answer; None if the run continues."""
        if self.plan.most is not None and self._begun >= self.plan.most:
            return End.ENOUGH
        # In the second case, the last dequeues returned only kept messages, and all of them.
        if not page or self._again > len(self.kept):
            return End.DONE
        if self._without_news >= MOST_PAGES_WITHOUT_NEWS:
            return End.NEWER
        return End.TOO_MANY_KEPT if len(self.kept) >= self.plan.most_kept else None

    def _fate_of(self, message: Message, answered_at: int | None) -> ScanFate:
        if copied := self._copied.get(message.message_id):
            # The message was updated, and its new text has no copy.
            return ScanFate.FINISH if copied[1] == hash(message.text) else ScanFate.SEEN
        if message.message_id in self.kept:
            return ScanFate.SEEN
        if not message.intact:
            return ScanFate.DAMAGED
        if kept := self.plan.kept_for_its_age(message):
            return kept
        is_committed = self.plan.isolation is IsolationLevel.READ_COMMITTED
        if is_committed and message.is_in_its_last(answered_at):
            return ScanFate.EXPIRING
        if not (is_meant := self.plan.only.found_in(message.text)):
            return ScanFate.UNDECIDED if is_meant is None else ScanFate.OTHER
        if self.plan.most is not None and self._begun >= self.plan.most:
            return ScanFate.BEYOND
        self._begun += 1
        return ScanFate.ACT


_COUNTED = frozenset(ScanFate) - {ScanFate.ACT, ScanFate.FINISH, ScanFate.SEEN}
