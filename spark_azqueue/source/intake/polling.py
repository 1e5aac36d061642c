"""How often a queue is asked, and which queue is asked next.

A queue with a backlog gets many requests at once, an empty one gets few. Queues with a backlog get
equal shares, or (queuePriority=strict) the first of them gets all. Time is an argument.
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
"""Further pauses are this part of the idle time, up to `maxPollInterval`."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How one queue is polled: `width` requests at once, the next not before `not_before`.

    idle_since: when a look first found nothing, None if the newest one found something.
    """

    width: int = 1
    idle_since: float | None = None
    not_before: float = 0.0

    def is_due(self, now: float) -> bool:
        """True if the queue may be asked now."""
        return self.not_before <= now

    def page(self, *, asked: int, got: int, widest: int) -> Pace:
        """After one page: twice as wide if it was full, otherwise one request at a time."""
        if got >= asked > 0:
            return Pace(min(self.width * 2, widest), None, self.not_before)
        return Pace(1, None if got else self.idle_since, self.not_before)

    def rest(self, *, found: bool, now: float, longest_s: float) -> Pace:
        """After a whole look at the queue: ask at once, or after a longer pause if it was empty."""
        if found:
            return Pace(self.width, None, now)
        since = now if self.idle_since is None else self.idle_since
        pause = min(max(FIRST_PAUSE_S, _PAUSE_PER_IDLE_S * (now - since)), longest_s)
        return Pace(1, since, now + pause)


def in_turn(queues: Sequence[QueueRef], number: int, at_once: int) -> list[QueueRef]:
    """These queues in the order in which a process asks them whose first batch is `number`, from 1.

    A query may run for one batch at a time, so its number decides which queue comes first: each
    batch begins about `at_once` queues further (those that a batch reads at least), and of as many
    batches as there are queues each begins with another one, whatever a batch really reads.
    """
    if not queues:
        return []
    steps = range(min(at_once, len(queues)), 0, -1)
    step = next(step for step in steps if gcd(step, len(queues)) == 1)
    start = (number - 1) * step % len(queues)
    return [*queues[start:], *queues[:start]]


class Turns(Protocol):
    """Which queues a look asks, and which of them is asked next. It may ignore reports."""

    def begin(self, number: int, at_once: int) -> None:
        """Batch `number` begins, of at least `at_once` pages. Decides if none was asked yet."""
        return

    def read_from(self, queues: Sequence[QueueRef]) -> None:
        """From now on these are the queues."""

    def to_ask(self, paces: Mapping[QueueRef, Pace], now: float) -> list[QueueRef]:
        """The queues that a look at this time may ask."""

    def next(self, queues: Iterable[QueueRef]) -> QueueRef:
        """Which of these queues (at least one) to ask now."""

    def eligible(self, open_queues: Iterable[QueueRef]) -> list[QueueRef]:
        """Which of the queues whose turn has not ended may be asked now."""

    def ends(self, *, asked: int, got: int) -> bool:
        """True if a page that brought `got` of `asked` messages ends the turn of its queue."""

    def width_at_most(self, parallelism: int) -> int:
        """How many of the requests under way one queue may have."""

    def asked(self, queue: QueueRef, count: int) -> None:
        """Note that a request for `count` messages of this queue begins."""
        return

    def answered(self, queue: QueueRef, *, asked: int, got: int) -> None:
        """Note that a request for `asked` messages of this queue brought `got`."""
        return


def turns(priority: QueuePriority, queues: Sequence[QueueRef], most_credit: int) -> Turns:
    """The turns of these queues. most_credit: see `FairTurns`."""
    if priority is QueuePriority.STRICT:
        return StrictTurns(queues)
    return FairTurns(queues, most_credit)


class StrictTurns(Turns):
    """The first queue is asked until it is empty, then the second, and so on.

    A page that is not full does not show that a queue is empty; only an empty page does. A look
    also asks the queues before the last one that is due, so that none is passed over while it
    rests.
    """

    def __init__(self, queues: Sequence[QueueRef]) -> None:
        self._queues = tuple(queues)

    def read_from(self, queues: Sequence[QueueRef]) -> None:
        """From now on these, in their order."""
        self._queues = tuple(queues)

    def to_ask(self, paces: Mapping[QueueRef, Pace], now: float) -> list[QueueRef]:
        """All queues up to the last one that is due."""
        due = [place for place, queue in enumerate(self._queues) if paces[queue].is_due(now)]
        return list(self._queues[: due[-1] + 1]) if due else []

    def next(self, queues: Iterable[QueueRef]) -> QueueRef:
        """The first of these queues."""
        return min(queues, key=self._queues.index)

    def eligible(self, open_queues: Iterable[QueueRef]) -> list[QueueRef]:
        """The first of these queues, if there is one."""
        return sorted(open_queues, key=self._queues.index)[:1]

    def ends(self, *, asked: int, got: int) -> bool:
        """True for an empty page."""
        return got == 0

    def width_at_most(self, parallelism: int) -> int:
        """All of them: no other queue is asked meanwhile."""
        return parallelism


class FairTurns:
    """Which queue is asked next, so that queues with a backlog get equal numbers of messages.

    Each queue has a mark: how many messages it was asked for. The queue with the lowest mark is
    next. A queue that ran short starts again level with the others, so that idle time earns no
    credit. (This is start-time fair queueing: Goyal, Vin, Cheng, SIGCOMM 1996.) Marks are not kept
    over a restart; then the number of the batch says which queue is first.

    most_credit: how many messages a queue may lag behind and still make up for it.
    """

    def __init__(self, queues: Sequence[QueueRef], most_credit: int) -> None:
        self._marks = dict.fromkeys(queues, 0)  # the one asked longest ago comes first
        self._short: set[QueueRef] = set()
        self._most_credit = most_credit
        self._level = 0  # the highest mark at which a request has begun
        self._has_begun = False

    def begin(self, number: int, at_once: int) -> None:
        """If no queue was asked yet, begin with the one whose turn it is, see `in_turn`."""
        if not self._has_begun:
            self._marks = dict.fromkeys(in_turn([*self._marks], number, at_once), 0)

    def read_from(self, queues: Sequence[QueueRef]) -> None:
        """From now on these. Those that were there keep their marks, new ones begin level."""
        if not self._has_begun:
            self._marks = dict.fromkeys(queues, 0)
            return
        wanted = dict.fromkeys(queues, 0)
        kept = {queue: mark for queue, mark in self._marks.items() if queue in wanted}
        self._short |= wanted.keys() - kept.keys()
        self._short &= wanted.keys()
        self._marks = kept | {queue: 0 for queue in queues if queue not in kept}

    def to_ask(self, paces: Mapping[QueueRef, Pace], now: float) -> list[QueueRef]:
        """The queues that are due."""
        return [queue for queue, pace in paces.items() if pace.is_due(now)]

    def eligible(self, open_queues: Iterable[QueueRef]) -> list[QueueRef]:
        """All of them."""
        return list(open_queues)

    def ends(self, *, asked: int, got: int) -> bool:
        """True for a page that is not full."""
        return got < asked

    def width_at_most(self, parallelism: int) -> int:
        """An equal part, at least one."""
        return max(1, parallelism // max(1, len(self._marks)))

    def next(self, queues: Iterable[QueueRef]) -> QueueRef:
        """Which of these queues (at least one) to ask now; of equals, the one asked longest ago."""
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
            return  # it is not read any more
        self._marks[queue] -= asked - got
        if got < asked:
            self._short.add(queue)

    def _mark(self, queue: QueueRef) -> int:
        credit = 0 if queue in self._short else self._most_credit
        return max(self._marks[queue], self._level - credit)


ENOUGH_NEWER = 1_024
"""After this many messages in a row with nothing new (see `Cutoff`), a queue counts as read."""

NEWER_AT_MOST = 32_768
"""After this many with nothing new, a look at a queue ends, even if a released one is awaited."""


HANDED_OUT_AT_MOST = 1_000_000
"""How many messages a run delivers without deleting them (about 200 MB of ids)."""


class Cutoff:
    """Tells which messages a run wants, and when a queue holds none of them any more.

    A message is nothing new if it was inserted after the run began, or if it came before in the
    same look (its lease ended meanwhile). Each queue has its own counts.

    until: microseconds since 1970, service's clock.
    """

    def __init__(self, until: int) -> None:
        self._until = until
        self._awaited: set[MessageKey] = set()
        self._met: set[MessageKey] = set()  # older messages of this look
        self._in_a_row: Counter[QueueRef] = Counter()
        self._not_new: Counter[QueueRef] = Counter()
        self._is_full = False

    def wants(self, message: Message) -> bool:
        """True if this message was inserted before the run began, or in the same second."""
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
        """Messages that were released in this run, and did not come since."""
        return frozenset(self._awaited)

    def released(self, keys: Iterable[MessageKey]) -> None:
        """Note that a replay in this run released these messages: the run has to read them."""
        self._awaited.update(keys)

    def is_full(self, handed_out: int) -> bool:
        """True if the run has delivered all that it can remember: it ends early.

        handed_out: how many of these messages are not known to be deleted.
        """
        if not self._is_full and handed_out >= HANDED_OUT_AT_MOST:
            self._is_full = True
            log.warning(
                "this availableNow run gave out %d messages that are not deleted, as with"
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
