"""Polling: how often a queue is asked, and which queue is asked next.

A queue with a backlog gets many requests at once, an empty queue gets few. Queues with a backlog
get equal shares. With queuePriority=strict, the first queue with a backlog gets all requests. The
functions get the time as an argument.
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
"""Pause after the first look that found nothing."""

_PAUSE_PER_IDLE_S = 0.2
"""Further pauses / idle time of the queue; a pause is at most `maxPollInterval`."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Pace of one queue: `width` requests at once, the next look not before `not_before`.

    idle_since: time of the first look in a row that found nothing; None if the newest look found
    messages.
    """

    width: int = 1
    idle_since: float | None = None
    not_before: float = 0.0

    def is_due(self, now: float) -> bool:
        """True if the queue may be asked now."""
        return self.not_before <= now

    def page(self, *, asked: int, got: int, widest: int) -> Pace:
        """Return the pace after a page: twice the width if the page was full, else width 1."""
        if got >= asked > 0:
            return Pace(min(self.width * 2, widest), None, self.not_before)
        return Pace(1, None if got else self.idle_since, self.not_before)

    def rest(self, *, found: bool, now: float, longest_s: float) -> Pace:
        """Return the pace after a look: due at once, or after a longer pause if nothing came."""
        if found:
            return Pace(self.width, None, now)
        since = now if self.idle_since is None else self.idle_since
        pause = min(max(FIRST_PAUSE_S, _PAUSE_PER_IDLE_S * (now - since)), longest_s)
        return Pace(1, since, now + pause)


def in_turn(queues: Sequence[QueueRef], number: int, at_once: int) -> list[QueueRef]:
    """Return the order of queues in a process whose first batch is `number`, counted from 1.

    A process may run for a single batch, so the number of its first batch chooses the first queue.
    Each batch begins about `at_once` queues after the last batch's first, because a batch reads at
    least `at_once` queues. Over as many batches as there are queues, each queue is first once.
    """
    if not queues:
        return []
    steps = range(min(at_once, len(queues)), 0, -1)
    step = next(step for step in steps if gcd(step, len(queues)) == 1)
    start = (number - 1) * step % len(queues)
    return [*queues[start:], *queues[:start]]


class Turns(Protocol):
    """Order of queues: which queues a look asks, and which is next. A class may ignore reports."""

    def begin(self, number: int, at_once: int) -> None:
        """Note that batch `number` of at least `at_once` pages begins.

        The first call, before any queue is asked, chooses the first queue.
        """
        return

    def read_from(self, queues: Sequence[QueueRef]) -> None:
        """Read these queues from now on."""

    def to_ask(self, paces: Mapping[QueueRef, Pace], now: float) -> list[QueueRef]:
        """Return the queues that a look at this time may ask."""

    def next(self, queues: Iterable[QueueRef]) -> QueueRef:
        """Return the queue to ask next, of a list that is not empty."""

    def eligible(self, open_queues: Iterable[QueueRef]) -> list[QueueRef]:
        """Return the queues that may be asked now, of those whose turn has not ended."""

    def ends(self, *, asked: int, got: int) -> bool:
        """True if a page with `got` of `asked` messages ends the turn of its queue."""

    def width_at_most(self, parallelism: int) -> int:
        """Return the most parallel requests of one queue."""

    def asked(self, queue: QueueRef, count: int) -> None:
        """Note that a request for `count` messages of this queue begins."""
        return

    def answered(self, queue: QueueRef, *, asked: int, got: int) -> None:
        """Note that a request for `asked` messages of this queue brought `got`."""
        return


def turns(priority: QueuePriority, queues: Sequence[QueueRef], most_credit: int) -> Turns:
    """Return the turns of these queues. most_credit: see `FairTurns`."""
    if priority is QueuePriority.STRICT:
        return StrictTurns(queues)
    return FairTurns(queues, most_credit)


class StrictTurns(Turns):
    """Turns by priority: the first queue is read until it is empty, then the second, and so on.

    Only an empty page shows that a queue is empty: a page that is not full does not. A look asks
    all queues before the last due queue, so that a queue is not passed over while it pauses.
    """

    def __init__(self, queues: Sequence[QueueRef]) -> None:
        self._queues = tuple(queues)

    def read_from(self, queues: Sequence[QueueRef]) -> None:
        """Read these queues from now on, in this order."""
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
        """True for an empty page."""
        return got == 0

    def width_at_most(self, parallelism: int) -> int:
        """Return `parallelism`: no other queue is asked meanwhile."""
        return parallelism


class FairTurns:
    """Fair turns: queues with a backlog deliver equal numbers of messages.

    Each queue has a mark, the number of messages requested from it. The queue with the lowest mark
    is next. A queue that ran short resumes at the mark of the others, so that idle time earns no
    credit. (This is start-time fair queueing: Goyal, Vin, Cheng, SIGCOMM 1996.) Marks are not kept
    over a restart: the number of the first batch then chooses the first queue.

    most_credit: number of messages that a queue may fall behind and still catch up.
    """

    def __init__(self, queues: Sequence[QueueRef], most_credit: int) -> None:
        self._marks = dict.fromkeys(queues, 0)  # asked longest ago: first
        self._short: set[QueueRef] = set()
        self._most_credit = most_credit
        self._level = 0  # the highest mark at which a request has begun
        self._has_begun = False

    def begin(self, number: int, at_once: int) -> None:
        """If no queue was asked yet, set the order of `in_turn`."""
        if not self._has_begun:
            self._marks = dict.fromkeys(in_turn([*self._marks], number, at_once), 0)

    def read_from(self, queues: Sequence[QueueRef]) -> None:
        """Read these queues from now on. Known queues keep their marks, new ones begin level."""
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
        """Return all of the queues."""
        return list(open_queues)

    def ends(self, *, asked: int, got: int) -> bool:
        """True for a page that is not full."""
        return got < asked

    def width_at_most(self, parallelism: int) -> int:
        """Return an equal share of the requests, at least 1."""
        return max(1, parallelism // max(1, len(self._marks)))

    def next(self, queues: Iterable[QueueRef]) -> QueueRef:
        """Return the queue with the lowest mark; of equal marks, the queue asked longest ago."""
        wanted = set(queues)
        return min((queue for queue in self._marks if queue in wanted), key=self._mark)

    def asked(self, queue: QueueRef, count: int) -> None:
        """Note that a request for `count` messages of this queue begins."""
        self._has_begun = True
        mark = self._mark(queue)
        del self._marks[queue]
        self._marks[queue] = mark + count
        self._level = max(self._level, mark)
        self._short.discard(queue)

    def answered(self, queue: QueueRef, *, asked: int, got: int) -> None:
        """Note that a request for `asked` messages of this queue brought `got`."""
        if queue not in self._marks:
            return  # the queue is no longer read
        self._marks[queue] -= asked - got
        if got < asked:
            self._short.add(queue)

    def _mark(self, queue: QueueRef) -> int:
        credit = 0 if queue in self._short else self._most_credit
        return max(self._marks[queue], self._level - credit)


ENOUGH_NEWER = 1_024
"""Messages in a row that are not new (see `Cutoff`), after which a queue counts as read."""

NEWER_AT_MOST = 32_768
"""Messages that are not new, after which a look ends, even if a released message is awaited."""


HANDED_OUT_AT_MOST = 1_000_000
"""Most messages that a run delivers without deleting them (about 200 MB of ids)."""


class Cutoff:
    """Limit of an availableNow run: which messages it wants, and when a queue has no more of them.

    A message is not new if it was inserted after the run began, or if it was already received in
    the same look (its lease ended meanwhile). Each queue has its own counts.

    until: start of the run, microseconds since 1970, service's clock.
    """

    def __init__(self, until: int) -> None:
        self._until = until
        self._awaited: set[MessageKey] = set()
        self._met: set[MessageKey] = set()  # wanted messages of this look
        self._in_a_row: Counter[QueueRef] = Counter()
        self._not_new: Counter[QueueRef] = Counter()
        self._is_full = False

    def wants(self, message: Message) -> bool:
        """True if the message was inserted before the run began, or in the same second."""
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
        """Messages that this run has released and not received again."""
        return frozenset(self._awaited)

    def released(self, keys: Iterable[MessageKey]) -> None:
        """Note that this run released messages, so that it has to read them again."""
        self._awaited.update(keys)

    def is_full(self, handed_out: int) -> bool:
        """True if the run has to end early, because it tracks too many delivered messages.

        handed_out: number of delivered messages that are not known to be deleted.
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
        """Start the counts for a new look at the queues."""
        self._met.clear()
        self._in_a_row.clear()
        self._not_new.clear()

    def read(self, queue: QueueRef) -> bool:
        """True if a look at this queue may end before an empty page comes."""
        if self._not_new[queue] >= NEWER_AT_MOST:
            return True
        if self._in_a_row[queue] < ENOUGH_NEWER:
            return False
        return not any(key.queue == queue for key in self._awaited)
