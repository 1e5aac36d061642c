"""Finds the queues for the next plan, and chooses the limits of each slot."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import pairwise

from spark_azqueue.options.choices import QueuePriority
from spark_azqueue.options.log import MOST_STORED_BYTES, ExecutorsConfig
from spark_azqueue.options.source_config import SourceConfig
from spark_azqueue.service.messages import MAX_PER_REQUEST, QueueRef
from spark_azqueue.service.queues.calls import Peek, Peeked
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.service.queues.flow import answers_of

from ..batches.batch import TARGET_ALONE_S, BatchSize
from ..intake.backlog import Isolation
from ..intake.polling import Pace, in_turn
from .objects import Closed, Looked, SlotReport
from .plan import MOST_MESSAGES, MOST_QUEUES_OF_PLAN, Learned, Plan, Slot

log = logging.getLogger(__name__)


class ReadyQueues:
    """Finds out which queues have messages.

    The state is lost at a restart: a new process peeks at every queue.
    """

    def __init__(
        self,
        client: QueueClient,
        isolation: Isolation,
        longest_pause_s: float,
        clock: Callable[[], float],
        vanished: Callable[[QueueRef], bool],
    ) -> None:
        """vanished: called for a queue that does not exist; returns True if the other queues may
        still be read."""
        self._client = client
        self._isolation = isolation
        self._longest_pause_s = longest_pause_s
        self._clock = clock
        self._vanished = vanished
        self._paces: dict[QueueRef, Pace] = {}
        self._more: set[QueueRef] = set()  # queues whose last slot reached its limits
        self._emptied: set[QueueRef] = set()  # queues that their last slot emptied
        self._turns: dict[QueueRef, int] = {}  # number of the last plan that read the queue
        self._read: set[QueueRef] = set()  # queues that an availableNow run has read completely
        self._cutoff: int | None = None

    def only_until(self, cutoff: int) -> None:
        """Ignore messages that were inserted after this time. cutoff: microseconds since 1970."""
        self._cutoff = cutoff

    def read_from(self, queues: Sequence[QueueRef]) -> None:
        """Peek only at these queues from now on."""
        self._paces = {queue: self._paces.get(queue, Pace()) for queue in queues}
        self._more &= set(queues)
        self._turns = {queue: turn for queue, turn in self._turns.items() if queue in self._paces}

    def seconds_until_due(self) -> float:
        """Return the seconds until the next queue may be peeked at; 0 if a queue may be peeked at
        now."""
        soonest = min(
            (pace.not_before for queue, pace in self._paces.items() if queue not in self._read),
            default=math.inf,
        )
        return max(0.0, soonest - self._clock())

    def was_emptied(self, queue: QueueRef) -> bool:
        """Return True if the last slot that had this queue read the queue until it was empty."""
        return queue in self._emptied

    def last_turn(self, queue: QueueRef) -> int:
        """Return the number of the last plan that read this queue, or 0 if unknown.

        If a slot reached its limits before it dequeued from this queue, the slot has not read the
        queue.
        """
        return self._turns.get(queue, 0)

    def on_plan_closed(self, plan: Plan, looked: Mapping[str, Looked], *, ran_here: bool) -> None:
        """Record that a plan is closed.

        looked: state of each queue by name, for queues that tasks read. ran_here: this process
        issued the plan. If another process issued the plan, no empty queue is paused: a run that
        peeks only once (trigger once, or availableNow on Spark 4.0 and 4.1) would miss a paused
        queue.
        """
        now = self._clock()
        for queue in plan.queues:
            if queue not in self._paces:
                continue
            saw = looked.get(queue.name)
            found = saw is not None and saw.got > 0
            if saw is not None:
                if found or saw.drained:
                    self._turns[queue] = plan.number
                (self._more.discard if saw.drained else self._more.add)(queue)
                (self._emptied.add if saw.drained else self._emptied.discard)(queue)
                is_of_run = self._cutoff is not None and plan.cutoff == self._cutoff
                if is_of_run and saw.drained and not found:
                    self._read.add(queue)
            if ran_here:
                self._paces[queue] = self._paces[queue].rest(
                    found=found, now=now, longest_s=self._longest_pause_s
                )

    def look_again(self) -> None:
        """Forget the results of earlier peeks, so that the next call of `with_messages` peeks at
        every queue.
        """
        self._paces = dict.fromkeys(self._paces, Pace())
        self._read.clear()

    def with_messages(self) -> list[QueueRef]:
        """Peek at the queues that are due. Returns the queues that have messages, in the order of
        the option 'queue'.

        An availableNow run peeks at all queues at once, since the run ends if no queue has
        messages. Raises ServiceError, also QueueNotFound for a queue that the option gives by name.
        """
        now = self._clock()
        due = [
            queue
            for queue, pace in self._paces.items()
            if self._is_due(pace, now) and queue not in self._more and queue not in self._read
        ]
        found = self._peeked(due)
        for queue in due:
            if queue not in found:
                self._paces[queue] = self._paces[queue].rest(
                    found=False, now=now, longest_s=self._longest_pause_s
                )
        more = {queue for queue in self._more if self._is_due(self._paces[queue], now)}
        return [queue for queue in self._paces if queue in found or queue in more]

    def _is_due(self, pace: Pace, now: float) -> bool:
        return self._cutoff is not None or pace.is_due(now)

    def _peeked(self, queues: Collection[QueueRef]) -> set[QueueRef]:
        count = 1 if self._cutoff is None else MAX_PER_REQUEST
        calls = [(queue, Peek(queue, count)) for queue in queues]
        answers = answers_of(self._client, calls, self._vanished)
        return {queue for queue, peeked in answers if self._has_new(queue, peeked)}

    def _has_new(self, queue: QueueRef, peeked: Peeked) -> bool:
        messages = [
            message
            for message in peeked.messages
            if not self._isolation.may_be_abandoned(message, peeked.answered_at)
        ]
        if self._cutoff is None:
            return bool(messages)
        if any(message.insertion_time <= self._cutoff for message in messages):
            return True
        if len(peeked.messages) < MAX_PER_REQUEST:
            self._read.add(queue)
            return False
        return (
            True  # older messages may follow a full page of newer messages, so a task must dequeue
        )


class PlanSizing:
    """Chooses the sizes of slots, and learns from the tasks of earlier plans."""

    def __init__(
        self, config: SourceConfig, executors: ExecutorsConfig, clock: Callable[[], float]
    ) -> None:
        """clock: monotonic seconds."""
        self._config = config
        self._most_bytes = executors.max_bytes
        self._clock = clock
        self._width = Width(executors.slots)
        self._size = BatchSize(config.max_messages, config.min_messages, TARGET_ALONE_S)
        self._learned: dict[str, Learned] = {}
        self._began = 0.0

    @property
    def width(self) -> int:
        """Maximum number of slots in the next plan."""
        return self._width.slots

    def begins(self) -> None:
        """Record that Spark gets a batch now."""
        self._began = self._clock()

    def on_plan_closed(
        self, closed: Closed, looked: Mapping[str, Looked], *, ran_here: bool
    ) -> None:
        """Record that a plan is closed.

        looked: state of each queue by name. ran_here: this process issued the plan, so it has
        measured how long the batch took.
        """
        self._learned |= {name: each.limits for name, each in looked.items() if each.limits}
        fullest = max(
            (
                each.messages / slot.messages
                for each, slot in zip(closed.slots, closed.plan.slots, strict=True)
                if each is not None
            ),
            default=0.0,
        )
        if ran_here:
            self._size.batch_began(int(fullest * self._size.most), self._began, self._size.most)
            self._size.batch_ended(self._clock())
        elif closed.settled:
            most = max(slot.messages for slot in closed.plan.slots)
            took_s = max(each.counts.took_cs for each in closed.settled) / 100
            self._size.resumed(int(fullest * most), most, took_s)
        slots = self._width.slots
        self._width.on_plan_closed(closed.settled)
        if self._width.slots != slots:
            self._size.forget()

    def slots(self, queues: Sequence[QueueRef], most: int) -> tuple[Slot, ...]:
        """Distribute these queues (at least one) over slots. most: maximum number of messages in
        all slots.
        """
        of_slot = self._size.most
        if self._config.messages_per_partition:
            of_slot = min(of_slot, self._config.messages_per_partition)
        return slots_of(
            queues,
            self._width.slots,
            most=most,
            most_of_slot=of_slot,
            most_bytes=self._most_bytes,
            bytes_of_slot=self._config.max_bytes,
            learned=self._learned,
        )

    def limits(self, queues: Sequence[QueueRef]) -> dict[str, Learned]:
        """Return the learned limits of these queues, by name."""
        return {
            each.name: self._learned[each.name] for each in queues if each.name in self._learned
        }


FIRST_WIDTH = 8
"""Maximum number of slots in the first plan of a run, unless an option sets this number."""

_LONG_CS = 50
"""Minimum duration, in hundredths of a second, of tasks from which the number of parallel tasks is
learned.

Spark starts the tasks of a stage some tenths of a second apart, so a short task may end before the
last task starts.
"""

_IN_A_ROW = 3
"""The number of slots is reduced after this many consecutive plans in which tasks waited for a free
core.

In a single plan, tasks may wait for another reason, for example while a worker starts.
"""

_TRY_AGAIN_AFTER = 50
"""Number of plans after which a reduced number of slots is increased, as a trial."""


def chosen_queues(
    with_messages: Sequence[QueueRef],
    was_emptied: Callable[[QueueRef], bool],
    last_turn: Callable[[QueueRef], int],
    priority: QueuePriority,
    number: int,
    slots: int,
    most: int,
) -> list[QueueRef]:
    """Choose the queues of plan `number`. The first queues of all slots come first.

    with_messages: queues that have messages, in the order of the option 'queue'. was_emptied:
    returns True if the last slot that had a queue read the queue until it was empty. last_turn:
    returns the number of the last plan that read the queue. slots: maximum number of slots in the
    plan. most: maximum number of messages in all slots. With queuePriority=strict, the result ends
    with the first queue that was not emptied.
    """
    queues = list(with_messages)
    if priority is QueuePriority.STRICT:
        full = (place for place, queue in enumerate(queues) if not was_emptied(queue))
        queues = queues[: next(full, len(queues)) + 1]
        return queues[: min(MOST_QUEUES_OF_PLAN, most)]
    queues = sorted(in_turn(queues, number, min(slots, most)), key=last_turn)
    return queues[: min(MOST_QUEUES_OF_PLAN, most)]


def slots_of(
    queues: Sequence[QueueRef],
    width: int,
    *,
    most: int,
    most_of_slot: int,
    most_bytes: int | None,
    bytes_of_slot: int,
    learned: Mapping[str, Learned],
) -> tuple[Slot, ...]:
    """Distribute these queues (at least one) over `width` slots; each queue is in one slot.

    most: maximum number of messages in all slots, at least the number of queues. most_of_slot,
    bytes_of_slot: maximum messages and bytes of one slot. most_bytes: maximum bytes of all slots,
    or None for no limit. learned: learned limits by queue name. Slots with faster queues get more
    messages, so that all slots take about the same time.
    """
    count = max(1, min(width, len(queues)))
    weights = _weights(queues, learned)
    if len(set(weights.values())) == 1:
        dealt = [tuple(queues[place::count]) for place in range(count)]
    else:  # a slot reads all its queues at one rate, so queues of similar speed share a slot
        dealt = _neighbours(sorted(queues, key=weights.__getitem__), count)
        dealt = [tuple(queue for queue in queues if queue in mine) for mine in dealt]
    parts = [sum(weights[queue] for queue in mine) for mine in dealt]
    whole = sum(parts)
    share = min(most / whole, most_of_slot / max(parts))
    slots = []
    for mine, part in zip(dealt, parts, strict=True):
        size = bytes_of_slot
        if most_bytes is not None:
            size = int(most_bytes * part / whole)
        messages = max(1, min(int(share * part), most_of_slot, MOST_MESSAGES))
        slots.append(Slot(mine, messages, max(1, min(size, MOST_STORED_BYTES))))
    return tuple(slots)


def _weights(queues: Sequence[QueueRef], learned: Mapping[str, Learned]) -> dict[QueueRef, float]:
    """Return the relative speed of each queue.

    Each measured speed is moved halfway to the mean, because measurements vary.
    """
    rates = [each.per_s if (each := learned.get(queue.name)) else None for queue in queues]
    most = max((rate for rate in rates if rate), default=1)
    full = [rate or most for rate in rates]
    mean = sum(full) / len(full)
    return {queue: (rate + mean) / 2 for queue, rate in zip(queues, full, strict=True)}


def _neighbours(queues: Sequence[QueueRef], count: int) -> list[tuple[QueueRef, ...]]:
    """Split the queues into `count` consecutive parts whose lengths differ by at most one."""
    edges = [len(queues) * place // count for place in range(count + 1)]
    return [tuple(queues[begin:end]) for begin, end in pairwise(edges)]


class Width:
    """Maximum number of slots in a plan: set by an option, or learned from the number of tasks that
    ran at the same time.
    """

    def __init__(self, fixed: int | None) -> None:
        self.slots = fixed or FIRST_WIDTH
        self._fixed = fixed is not None
        self._rest = 0
        self._at_once: list[int] = []  # parallel tasks, in consecutive plans with waiting tasks

    def on_plan_closed(self, settled: Iterable[SlotReport]) -> None:
        """Learn from the slots of a closed plan."""
        if self._fixed:
            return
        times = [(each.counts.began_cs, each.counts.took_cs) for each in settled if each.messages]
        if len(times) < 2 or any(took < _LONG_CS for _, took in times):
            return
        at_once = most_at_once(times)
        self._rest = max(0, self._rest - 1)
        if at_once == len(times):
            self._at_once.clear()
            if len(times) >= self.slots and not self._rest:
                self.slots *= 2
            return
        self._at_once.append(at_once)
        if len(self._at_once) == _IN_A_ROW:
            self.slots = max(self._at_once)
            self._at_once.clear()
            self._rest = _TRY_AGAIN_AFTER


def most_at_once(times: Iterable[tuple[int, int]]) -> int:
    """Return the maximum number of tasks that ran at the same time.

    times: start time and duration of each task.
    """
    edges = []
    for began, took in times:
        edges += [(began, 1), (began + max(took, 1), -1)]
    now = most = 0
    for _, change in sorted(edges):
        now += change
        most = max(most, now)
    return most
