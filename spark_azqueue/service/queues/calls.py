"""The calls to a queue as values: dequeue, peek, delete, update, release, put, count.

These calls are in one file, because they share the code that writes requests. The calls that check
a permission are in `reach.py`. The calls that create and list queues are in `management.py`.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, TypeVar

from spark_azqueue.errors import Outcome, ServiceError
from spark_azqueue.service import fields

from ..answers import CONTRIBUTOR, PROCESSOR, SENDER, unreadable_answer
from ..incoming import Answer
from ..messages import Delay, Lease, Message, QueueRef, Received, seconds_of
from ..redaction import shown
from ..wire.calls import Call, Request, escaped
from ..wire.concurrency import Turn
from .xml import Placed, document, read_messages, read_peeked, read_placed

T = TypeVar("T", covariant=True)

log = logging.getLogger(__name__)

MAX_COUNT = 10**15 - 1
"""Highest message count that is accepted in an answer. No queue has more messages."""


@dataclass(frozen=True, slots=True)
class Page:
    """Result of one dequeue of up to `asked` messages. `sent_at`: monotonic time of the request.

    answered_at: see `answered_at`. queue: the queue that was read.
    """

    received: tuple[Received, ...]
    asked: int
    sent_at: float
    answered_at: int | None = None
    queue: QueueRef | None = None


class Peeked(NamedTuple):
    """Result of one peek. answered_at: see `answered_at`."""

    messages: tuple[Message, ...]
    answered_at: int | None = None


def answered_at(answer: Answer) -> int | None:
    """Return the time of an answer by the service's clock, in microseconds since 1970, rounded to
    whole seconds.

    Returns None if the answer has no readable time.
    """
    at = fields.moment(answer.headers.get("date", ""))
    return None if at is None else at * 1_000_000


@dataclass(frozen=True, slots=True)
class Dequeue(Call[Page]):
    """Lease up to `count` messages (1 to 32) for `visibility_s` seconds (1 s to 7 days).

    If the answer is lost, the messages stay invisible for `visibility_s` seconds, and then become
    visible again. No message is lost.
    """

    queue: QueueRef
    count: int
    visibility_s: int
    kind: ClassVar[str] = "dequeue"
    doing: ClassVar[str] = "dequeue from"
    needs: ClassVar[str] = PROCESSOR
    turn: ClassVar[Turn] = Turn.AHEAD

    def request(self, now: float) -> Request:
        query = f"numofmessages={self.count}&visibilitytimeout={self.visibility_s}"
        return Request("GET", ("messages",), query)

    def result(self, answer: Answer) -> Page:
        received = read_messages(self.queue, answer.body)
        return Page(tuple(received), self.count, answer.sent_at, answered_at(answer), self.queue)


@dataclass(frozen=True, slots=True)
class Peek(Call[Peeked]):
    """Read up to `count` (1 to 32) visible messages. Leases and dequeue counts do not change."""

    queue: QueueRef
    count: int
    kind: ClassVar[str] = "peek"
    doing: ClassVar[str] = "peek into"

    def request(self, now: float) -> Request:
        return Request("GET", ("messages",), f"numofmessages={self.count}&peekonly=true")

    def result(self, answer: Answer) -> Peeked:
        return Peeked(tuple(read_peeked(self.queue, answer.body)), answered_at(answer))


@dataclass(frozen=True, slots=True)
class _ByReceipt(Call[T]):
    lease: Lease
    by_receipt: ClassVar[bool] = True
    verb: ClassVar[str] = ""

    @property
    def queue(self) -> QueueRef:
        return self.lease.queue

    @property
    def doing(self) -> str:
        return f"{self.verb} message {shown(self.lease.message_id, 64)} in"

    def _path(self) -> tuple[str, ...]:
        return ("messages", self.lease.message_id)

    def _receipt(self) -> str:
        return "popreceipt=" + escaped(self.lease.pop_receipt)


@dataclass(frozen=True, slots=True)
class _Deletes(_ByReceipt[T]):
    kind: ClassVar[str] = "delete"
    verb: ClassVar[str] = "delete"
    needs: ClassVar[str] = PROCESSOR

    def request(self, now: float) -> Request:
        return Request("DELETE", self._path(), self._receipt())


@dataclass(frozen=True, slots=True)
class Delete(_Deletes[Outcome]):
    """Delete a message by its receipt. Returns OK, GONE, LOST or PROBABLY.

    PROBABLY: the service refused this attempt, and an earlier attempt got no answer. Either the
    earlier attempt deleted the message, or another consumer has leased the message. (With
    leaseOn=executors, the time of the refusal shows which is the case: see `DatedDelete`.) After a
    lease has ended, its receipt stays valid until another consumer dequeues the message.
    """

    def result(self, answer: Answer) -> Outcome:
        return Outcome.OK

    def refused(self, error: ServiceError) -> Outcome:
        return Outcome.PROBABLY if error.unanswered else error.outcome


class Deleted(NamedTuple):
    """Outcome of a delete. `at`: time of a refusal by the service's clock, in seconds since 1970.

    `at` is None if the delete was not refused, or if the answer has no readable time.
    """

    outcome: Outcome
    at: int | None = None


@dataclass(frozen=True, slots=True)
class DatedDelete(_Deletes[Deleted]):
    """Like `Delete`, but also returns the time of a refusal."""

    def result(self, answer: Answer) -> Deleted:
        return Deleted(Outcome.OK)

    def refused(self, error: ServiceError) -> Deleted:
        outcome = Outcome.PROBABLY if error.unanswered else error.outcome
        return Deleted(outcome, fields.moment(error.date or ""))


@dataclass(frozen=True, slots=True)
class Update(_ByReceipt["tuple[Outcome, Lease | None]"]):
    """Make the message invisible for `visibility_s` seconds; 0 releases the message. If `text` is
    None, the message keeps its text.

    Returns the outcome and, if OK, the lease with its new receipt; the old receipt is invalid. If
    the answer has no readable receipt, the lease is lost, although the update took effect.
    """

    visibility_s: Delay
    text: str | None = None
    kind: ClassVar[str] = "update"
    verb: ClassVar[str] = "update"
    needs: ClassVar[str] = CONTRIBUTOR

    def request(self, now: float) -> Request:
        query = f"{self._receipt()}&visibilitytimeout={seconds_of(self.visibility_s, now)}"
        body = None if self.text is None else document(self.text)
        return Request("PUT", self._path(), query, body)

    def result(self, answer: Answer) -> tuple[Outcome, Lease | None]:
        receipt = answer.headers.get("x-ms-popreceipt", "")
        if not fields.is_receipt(receipt):
            log.warning(
                "the answer to an update of message %s in queue '%s' holds no pop receipt: the"
                " lease is lost",
                shown(self.lease.message_id, 64),
                self.queue.name,
            )
            return Outcome.OK, None
        return Outcome.OK, Lease(self.queue, self.lease.message_id, receipt)

    def refused(self, error: ServiceError) -> tuple[Outcome, Lease | None]:
        return error.outcome, None


@dataclass(frozen=True, slots=True)
class Release(_ByReceipt[Outcome]):
    """Make the message visible, now or later.

    After a success, the receipt is stale, and the new receipt is not returned. A refusal means that
    the receipt was already stale.
    """

    delay: Delay = 0
    kind: ClassVar[str] = "update"
    verb: ClassVar[str] = "release"
    needs: ClassVar[str] = CONTRIBUTOR

    def request(self, now: float) -> Request:
        seconds = seconds_of(self.delay, now)
        return Request("PUT", self._path(), f"{self._receipt()}&visibilitytimeout={seconds}")

    def result(self, answer: Answer) -> Outcome:
        return Outcome.OK

    def refused(self, error: ServiceError) -> Outcome:
        return error.outcome


@dataclass(frozen=True, slots=True)
class Show(Release):
    """Publish a prepared message, which makes it visible. Returns OK, GONE, LOST or PROBABLY.

    Only the sender has the receipt. So a refusal means that an earlier update by the sender took
    effect, the message has expired, or the queue was cleared. PROBABLY: an earlier attempt of this
    call got no answer.
    """

    verb: ClassVar[str] = "show"

    def refused(self, error: ServiceError) -> Outcome:
        return Outcome.PROBABLY if error.unanswered else error.outcome


@dataclass(frozen=True, slots=True)
class Put(Call["Lease | None"]):
    """Enqueue a text. A retry after a lost answer may enqueue the text twice.

    delay_s: seconds until the message is visible. ttl_s: seconds until the message expires; -1
    means never, None means 7 days. wants_lease: True to return the lease from the answer. Its
    receipt is valid until a consumer dequeues or updates the message. Returns None without
    `wants_lease`, and if the lease in the answer is not readable.
    """

    queue: QueueRef
    text: str
    delay_s: Delay = 0
    ttl_s: int | None = None
    wants_lease: bool = False
    kind: ClassVar[str] = "put"
    doing: ClassVar[str] = "put into"
    needs: ClassVar[str] = SENDER

    def request(self, now: float) -> Request:
        delay = seconds_of(self.delay_s, now)
        query = [f"visibilitytimeout={delay}"] if delay else []
        if self.ttl_s is not None:
            query.append(f"messagettl={self.ttl_s}")
        return Request("POST", ("messages",), "&".join(query), document(self.text))

    def result(self, answer: Answer) -> Lease | None:
        if not self.wants_lease:
            return None
        placed = self.placed(answer)
        return placed.lease if placed else None

    def placed(self, answer: Answer) -> Placed | None:
        """Return the new message's lease and times; None if they are not readable in the answer."""
        return read_placed(self.queue, answer.body)


@dataclass(frozen=True, slots=True)
class Count(Call[int]):
    """Return the approximate number of messages in the queue, including invisible messages."""

    queue: QueueRef
    kind: ClassVar[str] = "count"
    doing: ClassVar[str] = "count the messages of"

    def request(self, now: float) -> Request:
        return Request("GET", (), "comp=metadata")

    def result(self, answer: Answer) -> int:
        written = answer.headers.get("x-ms-approximate-messages-count", "")
        count = fields.count(written, MAX_COUNT)
        if count is None:
            raise unreadable_answer(
                f"{self.doing} queue '{self.queue.name}'",
                "the answer holds no count; is there a proxy on the way?",
            )
        return count
