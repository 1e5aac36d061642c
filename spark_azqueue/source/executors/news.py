"""Which queues have messages for the next plan: what tasks reported, and a peek at the others.

A queue whose slot ended full has more. The others are peeked at, each at its own pace: an empty one
less and less often, and so one whose messages others take. Used by one thread.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Mapping, Sequence

from spark_azqueue.service.messages import MAX_PER_REQUEST, QueueRef
from spark_azqueue.service.queues.calls import Peek, Peeked
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.service.queues.flow import answers_of

from ..batches.polling import Pace
from ..isolation import Isolation
from .plan import Plan
from .segment import Looked

log = logging.getLogger(__name__)


class ReadyQueues:
    """Not kept over a restart: a new process peeks at every queue."""

    def __init__(
        self,
        client: QueueClient,
        isolation: Isolation,
        longest_pause_s: float,
        clock: Callable[[], float],
        vanished: Callable[[QueueRef], bool],
    ) -> None:
        """vanished: told of a queue that does not exist; true if the others may be read on."""
        self._client = client
        self._isolation = isolation
        self._longest_pause_s = longest_pause_s
        self._clock = clock
        self._vanished = vanished
        self._paces: dict[QueueRef, Pace] = {}
        self._more: set[QueueRef] = set()  # their slots ended full
        self._emptied: set[QueueRef] = set()  # their slots ended empty
        self._turns: dict[QueueRef, int] = {}  # the number of the last plan that has read it
        self._read: set[QueueRef] = set()  # an availableNow run has all of them
        self._cutoff: int | None = None

    def only_until(self, cutoff: int) -> None:
        """Messages inserted later are none of this run's. cutoff: microseconds since 1970."""
        self._cutoff = cutoff

    def read_from(self, queues: Sequence[QueueRef]) -> None:
        """From now on look at these queues."""
        self._paces = {queue: self._paces.get(queue, Pace()) for queue in queues}
        self._more &= set(queues)
        self._turns = {queue: turn for queue, turn in self._turns.items() if queue in self._paces}

    def seconds_until_due(self) -> float:
        """How long until some queue may be looked at again (0 = now)."""
        soonest = min(
            (pace.not_before for queue, pace in self._paces.items() if queue not in self._read),
            default=math.inf,
        )
        return max(0.0, soonest - self._clock())

    def was_emptied(self, queue: QueueRef) -> bool:
        """True if its last slot read it until it was empty."""
        return queue in self._emptied

    def last_turn(self, queue: QueueRef) -> int:
        """The number of the last plan that has read it, 0 if this process knows of none.

        A slot that was full before it came to one of its queues has not read that.
        """
        return self._turns.get(queue, 0)

    def heard(self, plan: Plan, looked: Mapping[str, Looked]) -> None:
        """A plan has ended. looked: what its tasks saw of each queue, by name, if they ran."""
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
            self._paces[queue] = self._paces[queue].rest(
                found=found, now=now, longest_s=self._longest_pause_s
            )

    def look_again(self) -> None:
        """Look at every queue as if it had never been looked at."""
        self._paces = dict.fromkeys(self._paces, Pace())
        self._read.clear()

    def with_messages(self) -> list[QueueRef]:
        """The queues that have messages, in their order. Peeks at those that are due.

        An availableNow run looks at all of them at once, since it ends if none has messages.
        Raises ServiceError, also QueueNotFound for a queue that is given by name.
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
        return {queue for queue, peeked in answers if self._is_news(queue, peeked)}

    def _is_news(self, queue: QueueRef, peeked: Peeked) -> bool:
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
        return True  # a page of newer ones: older ones may be behind it, and a task finds out
