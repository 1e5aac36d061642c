"""Dequeues pages of messages: several requests are in flight, and each queue has its own pace.

The receiver does not look into the messages. Every leased page is either yielded, or kept for
`take_orphans`. Only one thread at a time may use a receiver.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Container, Iterator, Mapping, Sequence

from spark_azqueue.errors import QueueNotFound
from spark_azqueue.options.choices import QueuePriority
from spark_azqueue.service.messages import MAX_PER_REQUEST, Lease, QueueRef
from spark_azqueue.service.queues.calls import Dequeue, Page
from spark_azqueue.service.queues.client import InFlight, QueueClient
from spark_azqueue.service.retry import RECEIVE, RetryPolicy

from ..intake.polling import Pace, turns

_GRACE_S = 2.0
"""Longest wait, in seconds, for the pages in flight when a pass over the queues is interrupted."""

_MOST_CREDIT_PAGES = 4
"""Number of pages for each parallel request by which a slow queue may fall behind and still catch
up."""

_ENOUGH = 16
"""Number of parallel requests with parallelism=auto: 10,000 messages/s if a request takes 50 ms.
Together, the answers need up to 32 MiB of memory."""


class Receiver:
    """Dequeues from all queues that are due, in turns and in parallel."""

    def __init__(
        self,
        client: QueueClient,
        queues: Sequence[QueueRef],
        parallelism: int | None,
        longest_pause_s: float,
        clock: Callable[[], float],
        priority: QueuePriority = QueuePriority.FAIR,
        vanished: Callable[[QueueRef], bool] = lambda queue: False,
        retry: RetryPolicy = RECEIVE,
        backlogged: Container[QueueRef] = (),
    ) -> None:
        """parallelism: maximum number of requests at once.

        None for 16 requests, within the limit of each queue.

        vanished: called for a queue that does not exist; returns True if the pass may continue with
        the other queues. backlogged: queues with many messages, which get many requests from the
        start.
        """
        self._retry = retry
        self._backlogged = backlogged
        self._asks_limits = parallelism is None
        self._parallelism = _ENOUGH if parallelism is None else parallelism
        self._client = client
        self._vanished = vanished
        self._longest_pause_s = longest_pause_s
        self._clock = clock
        self._orphans: list[Lease] = []  # pages that an interrupted pass leased and did not yield
        self._paces: dict[QueueRef, Pace] = {}
        credit = _MOST_CREDIT_PAGES * self._parallelism * MAX_PER_REQUEST
        self._turns = turns(priority, queues, credit)
        self.read_from(queues)

    def read_from(self, queues: Sequence[QueueRef]) -> None:
        """Read these queues from now on. A queue that was read before keeps its pace."""
        before = self._paces
        self._turns.read_from(queues)
        self._widest = self._turns.width_at_most(self._parallelism)
        self._paces = {queue: before.get(queue) or self._first(queue) for queue in queues}

    def begin(self, number: int, most: int) -> None:
        """Record that batch `number` of up to `most` messages begins.

        The first call of a process uses `number` to choose the first queue.
        """
        self._turns.begin(number, -(-most // MAX_PER_REQUEST))

    def _first(self, queue: QueueRef) -> Pace:
        return Pace(self._widest if queue in self._backlogged else 1)

    def seconds_until_due(self) -> float:
        """Return the seconds until the first queue is due; 0 if a queue is due now."""
        soonest = min((pace.not_before for pace in self._paces.values()), default=math.inf)
        return max(0.0, soonest - self._clock())

    def take_orphans(self) -> list[Lease]:
        """Return the leases of pages that an interrupted pass received but did not yield.

        Each lease is returned only once.
        """
        orphans, self._orphans = self._orphans, []
        return orphans

    def look(
        self,
        visibility_s: int,
        room: Callable[[], int],
        *,
        read: Callable[[QueueRef], bool] | None = None,
    ) -> Iterator[Page]:
        """Make one pass over all due queues.

        Yields pages until the turns of all queues have ended, or `room` returns 0.

        room: returns the number of further messages to request; called before every request. read:
        if given, the pass asks every queue, even queues that are not due; a queue's turn ends with
        an empty page, or if `read(queue)` returns True. Without `read`, a page that is not full
        ends a queue's turn. With queuePriority=strict, only an empty page ends a queue's turn.

        Raises ServiceError if a dequeue fails after all retries. The caller must then call
        `take_orphans`.
        """
        now = self._clock()
        asked_now = self._paces if read is not None else self._turns.to_ask(self._paces, now)
        open_queues = dict.fromkeys(asked_now, 0)
        found: set[QueueRef] = set()
        looked: set[QueueRef] = set()
        asked = 0
        flight: InFlight[tuple[QueueRef, int], Page] = self._client.in_flight()
        arrived: deque[tuple[tuple[QueueRef, int], Page | Exception]] = deque()
        try:
            while True:
                if read is not None:
                    open_queues = {q: busy for q, busy in open_queues.items() if not read(q)}
                begun, waits = self._begin(flight, open_queues, room() - asked, visibility_s)
                for queue, count in begun:
                    open_queues[queue] += 1
                    looked.add(queue)
                    asked += count
                if not len(flight) and not waits:
                    return
                arrived.extend(flight.ended())
                while arrived:
                    (queue, count), page = arrived.popleft()
                    asked -= count
                    if isinstance(page, QueueNotFound) and self._vanished(queue):
                        open_queues.pop(queue, None)
                        continue
                    if isinstance(page, Exception):
                        raise page
                    got = len(page.received)
                    if got:
                        found.add(queue)
                    self._turns.answered(queue, asked=count, got=got)
                    self._paces[queue] = self._paces[queue].page(
                        asked=count, got=got, widest=self._widest
                    )
                    if queue in open_queues:
                        open_queues[queue] -= 1
                        ends = self._turns.ends(asked=count, got=got)
                        if got == 0 or (ends and read is None):
                            del open_queues[queue]
                    yield page
        finally:
            self._collect(arrived, flight)
            now = self._clock()
            for queue in looked:
                self._paces[queue] = self._paces[queue].rest(
                    found=queue in found, now=now, longest_s=self._longest_pause_s
                )

    def _begin(
        self,
        flight: InFlight[tuple[QueueRef, int], Page],
        open_queues: Mapping[QueueRef, int],
        room: int,
        visibility_s: int,
    ) -> tuple[list[tuple[QueueRef, int]], bool]:
        """Begin requests to the queues in turn. A queue has at most as many requests in flight as
        its width.

        Returns pairs of a queue and the number of messages requested, and True if a queue's limit
        delays a request.
        """
        begun: list[tuple[QueueRef, int]] = []
        waits = False
        wanted = {
            queue: self._paces[queue].width - open_queues[queue]
            for queue in self._turns.eligible(open_queues)
            if self._paces[queue].width > open_queues[queue]
        }
        while wanted and room > 0 and len(flight) < self._parallelism:
            queue = self._turns.next(wanted)
            count = min(MAX_PER_REQUEST, room)
            call = Dequeue(queue, count, visibility_s)
            if not self._asks_limits:
                flight.begin((queue, count), call, self._retry)
            elif not flight.try_begin((queue, count), call, self._retry):
                del wanted[queue]
                waits = True
                continue
            self._turns.asked(queue, count)
            begun.append((queue, count))
            room -= count
            wanted[queue] -= 1
            if not wanted[queue]:
                del wanted[queue]
        return begun, waits

    def _collect(
        self,
        arrived: deque[tuple[tuple[QueueRef, int], Page | Exception]],
        flight: InFlight[tuple[QueueRef, int], Page],
    ) -> None:
        deadline = time.monotonic() + _GRACE_S
        while len(flight) and (left := deadline - time.monotonic()) > 0:
            arrived.extend(flight.ended(left))
        flight.close()
        for _, page in arrived:
            if isinstance(page, Page):
                self._orphans.extend(each.lease for each in page.received)
