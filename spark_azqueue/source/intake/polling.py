"""Polling: decides how often each queue is asked for messages, and which queue is asked next.

A queue with a backlog gets many parallel requests, and an empty queue gets few. Queues with a
backlog get equal shares. With queuePriority=strict, the first queue with a backlog gets all
requests. This module reads no clock: its functions get the time as an argument.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Protocol

from spark_azqueue.options.choices import QueuePriority
from spark_azqueue.service.messages import Message, MessageKey, QueueRef

log = logging.getLogger(__name__)

FIRST_PAUSE_S = 0.1
"""Pause of a queue, in seconds, after the first pass that found no message in the queue."""

_PAUSE_PER_IDLE_S = 0.2
"""Later pauses are this fraction of the time for which the queue has been idle, but at most
`maxPollInterval`."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Pace of one queue.

    width: maximum number of requests in flight. not_before: time before which the queue is not
    asked again.

    idle_since: time since which no pass found a message in the queue; None if the last pass found
    messages.
    """

    width: int = 1
    idle_since: float | None = None
    not_before: float = 0.0

    def is_due(self, now: float) -> bool:
        """Return True if the queue may be asked now."""
        return self.not_before <= now

    def page(self, *, asked: int, got: int, widest: int) -> Pace:
        """Return the pace after a page: the width is doubled if the page was full, else the width
        is 1."""
        if got >= asked > 0:
            return Pace(min(self.width * 2, widest), None, self.not_before)
        return Pace(1, None if got else self.idle_since, self.not_before)

    def rest(self, *, found: bool, now: float, longest_s: float) -> Pace:
        """Return the pace after a pass. The queue is due at once, or after a longer pause if no
        message was found."""
        if found:
            return Pace(self.width, None, now)
        since = now if self.idle_since is None else self.idle_since
        pause = min(max(FIRST_PAUSE_S, _PAUSE_PER_IDLE_S * (now - since)), longest_s)
        return Pace(1, since, now + pause)


def in_turn(queues: Sequence[QueueRef], number: int, at_once: int) -> list[QueueRef]:
    """Return the order of queues for a process whose first batch is `number`, counted from 1.

    A process may run for only one batch, so the number of its first batch determines the first
    queue. A batch reads at least `at_once` queues. So the first queue of a batch is about `at_once`
    places after the first queue of the previous batch. With N queues, each queue is the first queue
    once in N batches.
    """
    if not queues:
        return []
    steps = range(min(at_once, len(queues)), 0, -1)
    step = next(step for step in steps if gcd(step, len(queues)) == 1)
    start = (number - 1) * step % len(queues)
    return [*queues[start:], *queues[:start]]


class Turns(Protocol):
    """Order of queues: decides which queues a pass asks, and which queue is next.

    A subclass may ignore the calls of `begin`, `asked` and `answered`.
    """

    def begin(self, number: int, at_once: int) -> None:
        """Record that batch `number` of at least `at_once` pages begins.

        The first call is made before any queue is asked, and determines the first queue.
        """
        return

    def read_from(self, queues: Sequence[QueueRef]) -> None:
        """Read these queues from now on."""

    def to_ask(self, paces: Mapping[QueueRef, Pace], now: float) -> list[QueueRef]:
        """Return the queues that a pass at this time may ask."""

    def next(self, queues: Iterable[QueueRef]) -> QueueRef:
        """Return the queue to ask next. `queues` is not empty."""

    def eligible(self, open_queues: Iterable[QueueRef]) -> list[QueueRef]:
        """Return the queues that may be asked now.

        `open_queues`: queues whose turn has not ended.
        """

    def ends(self, *, asked: int, got: int) -> bool:
        """Return True if a page of `got` messages ends its queue's turn. asked: number of messages
        requested."""

    def width_at_most(self, parallelism: int) -> int:
        """Return the maximum number of parallel requests of one queue."""

    def asked(self, queue: QueueRef, count: int) -> None:
        """Record that a request for `count` messages of this queue begins."""
        return

    def answered(self, queue: QueueRef, *, asked: int, got: int) -> None:
        """Record that a request for `asked` messages of this queue returned `got` messages."""
        return


def turns(priority: QueuePriority, queues: Sequence[QueueRef], most_credit: int) -> Turns:
    """Return the order of these queues by this priority. most_credit: see `FairTurns`."""
    if priority is QueuePriority.STRICT:
        return StrictTurns(queues)
    return FairTurns(queues, most_credit)


class StrictTurns(Turns):
    """Turns by priority: the first queue is read until it is empty, then the second queue, and so
    on.

    Only an empty page shows that a queue is empty; a page that is not full does not. A pass asks
    all queues up to the last due queue, even queues that are not due. So a queue keeps its priority
    even during its pause.
    """

    def __init__(self, queues: Sequence[QueueRef]) -> None:
        self._queues = tuple(queues)

    def read_from(self, queues: Sequence[QueueRef]) -> None:
        """From now on, read these queues in this order."""
        self._queues = tuple(queues)

    def to_ask(self, paces: Mapping[QueueRef, Pace], now: float) -> list[QueueRef]:
        """Return all queues up to the last due queue."""
        due = [place for place, queue in enumerate(self._queues) if paces[queue].is_due(now)]
        return list(self._queues[: due[-1] + 1]) if due else []

    def next(self, queues: Iterable[QueueRef]) -> QueueRef:
        """Return the first of these queues."""
        return min(queues, key=self._queues.index)

    def eligible(self, open_queues: Iterable[QueueRef]) -> list[QueueRef]:
        """Return the first of these queues, if any."""
        return sorted(open_queues, key=self._queues.index)[:1]

    def ends(self, *, asked: int, got: int) -> bool:
        """Return True for an empty page."""
        return got == 0

    def width_at_most(self, parallelism: int) -> int:
        """Return `parallelism`, because no other queue is asked at the same time."""
        return parallelism


class FairTurns:
    """Fair turns: queues with a backlog deliver equal numbers of messages.

    Each queue has a mark: the number of messages that were requested from the queue. The queue with
    the lowest mark is next. A queue that was empty resumes at the mark of the other queues, so that
    idle time earns no credit. (This is start-time fair queueing: Goyal, Vin, Cheng, SIGCOMM 1996.)
    Marks are lost at a restart, and the number of the first batch determines the first queue.

    most_credit: number of messages by which a queue may fall behind and still catch up.
    """

    def __init__(self, queues: Sequence[QueueRef], most_credit: int) -> None:
        self._marks = dict.fromkeys(queues, 0)  # the queue that was asked longest ago is first
        self._short: set[QueueRef] = set()
        self._most_credit = most_credit
        self._level = 0  # the highest mark at which a request has begun
        self._has_begun = False

    def begin(self, number: int, at_once: int) -> None:
        """If no queue was asked yet, use the order of `in_turn`."""
        if not self._has_begun:
            self._marks = dict.fromkeys(in_turn([*self._marks], number, at_once), 0)

    def read_from(self, queues: Sequence[QueueRef]) -> None:
        """From now on, read these queues.

        A queue that was read before keeps its mark. An added queue begins at the mark of the other
        queues.
        """
        if not self._has_begun:
            self._marks = dict.fromkeys(queues, 0)
            return
        wanted = dict.fromkeys(queues, 0)
        kept = {queue: mark for queue, mark in self._marks.items() if queue in wanted}
        self._short |= wanted.keys() - kept.keys()
        self._short &= wanted.keys()
        self._marks = kept | {queue: 0 for queue in queues if queue not in kept}

    def to_ask(self, paces: Mapping[QueueRef, Pace], now: float) -> list[QueueRef]:
        """Return the queues that are due."""
        return [queue for queue, pace in paces.items() if pace.is_due(now)]

    def eligible(self, open_queues: Iterable[QueueRef]) -> list[QueueRef]:
        """Return all of these queues."""
        return list(open_queues)

    def ends(self, *, asked: int, got: int) -> bool:
        """Return True for a page that is not full."""
        return got < asked

    def width_at_most(self, parallelism: int) -> int:
        """Return an equal share of the parallel requests, at least 1."""
        return max(1, parallelism // max(1, len(self._marks)))

    def next(self, queues: Iterable[QueueRef]) -> QueueRef:
        """Return the queue with the lowest mark.

        If marks are equal, returns the queue that was asked longest ago.
        """
        wanted = set(queues)
        return min((queue for queue in self._marks if queue in wanted), key=self._mark)

    def asked(self, queue: QueueRef, count: int) -> None:
        """Record that a request for `count` messages of this queue begins."""
        self._has_begun = True
        mark = self._mark(queue)
        del self._marks[queue]
        self._marks[queue] = mark + count
        self._level = max(self._level, mark)
        self._short.discard(queue)

    def answered(self, queue: QueueRef, *, asked: int, got: int) -> None:
        """Record that a request for `asked` messages of this queue returned `got` messages."""
        if queue not in self._marks:
            return  # this queue is not read any more
        self._marks[queue] -= asked - got
        if got < asked:
            self._short.add(queue)

    def _mark(self, queue: QueueRef) -> int:
        credit = 0 if queue in self._short else self._most_credit
        return max(self._marks[queue], self._level - credit)


ENOUGH_NEWER = 1_024
"""A queue counts as completely read after this many later or repeated messages in a row (see
`Cutoff`)."""

NEWER_AT_MOST = 32_768
"""A pass over a queue ends after this many later or repeated messages, even if the run waits for a
released message."""


HANDED_OUT_AT_MOST = 1_000_000
"""Maximum number of messages that a run delivers without deleting them. Their ids need about 200
MB."""


class Cutoff:
    """Limit of an availableNow run: decides which messages it delivers, and when a queue is
    completely read.

    A *later* message was inserted after the run began. A *repeated* message is received a second
    time in the same pass, because its lease ended during the pass. Later and repeated messages are
    counted for each queue.

    until: start of the run by the service's clock, in microseconds since 1970.
    """

    def __init__(self, until: int) -> None:
        self._until = until
        self._awaited: set[MessageKey] = set()
        self._met: set[MessageKey] = set()  # messages received in this pass that are not later
        self._in_a_row: Counter[QueueRef] = Counter()
        self._not_new: Counter[QueueRef] = Counter()
        self._is_full = False

    def wants(self, message: Message) -> bool:
        """Return True if the message was inserted before the run began, or in the same second."""
        key = message.key
        self._awaited.discard(key)
        older = message.insertion_time <= self._until
        if older and key not in self._met:
            self._met.add(key)
            self._in_a_row[message.queue] = 0
        else:
            self._in_a_row[message.queue] += 1
            self._not_new[message.queue] += 1
        return older

    @property
    def awaited(self) -> frozenset[MessageKey]:
        """Keys of messages that this run has released and has not received again yet."""
        return frozenset(self._awaited)

    def released(self, keys: Iterable[MessageKey]) -> None:
        """Record that this run has released messages and has to read them again."""
        self._awaited.update(keys)

    def is_full(self, handed_out: int) -> bool:
        """Return True if the run must end early, because it tracks too many delivered messages.

        handed_out: number of delivered messages whose delete the service has not confirmed.
        """
        if not self._is_full and handed_out >= HANDED_OUT_AT_MOST:
            self._is_full = True
            log.warning(
                "this availableNow run delivered %d messages that are not deleted, as with"
                " deleteOnCommit=false, and ends here: start it again for the rest",
                HANDED_OUT_AT_MOST,
            )
        return self._is_full

    def begin_look(self) -> None:
        """Reset the counts at the start of a pass over the queues."""
        self._met.clear()
        self._in_a_row.clear()
        self._not_new.clear()

    def read(self, queue: QueueRef) -> bool:
        """Return True if the pass over this queue may end, although the queue has returned no empty
        page."""
        if self._not_new[queue] >= NEWER_AT_MOST:
            return True
        if self._in_a_row[queue] < ENOUGH_NEWER:
            return False
        return not any(key.queue == queue for key in self._awaited)
