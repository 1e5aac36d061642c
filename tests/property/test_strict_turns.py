"""With queuePriority=strict each batch takes all it can from the first queue, then from the second.

The receiver runs over queues to which messages come between batches, and which may answer with
fewer messages than they have, as the service does.
"""

from __future__ import annotations

from collections import Counter

from budget import EXAMPLES
from doubles import OneByOne, page_of
from hypothesis import given, settings
from hypothesis import strategies as st
from limited import Limited
from refs import ref

from spark_azqueue.options.choices import QueuePriority
from spark_azqueue.service.messages import MAX_PER_REQUEST, QueueRef
from spark_azqueue.service.queues.calls import Page
from spark_azqueue.source.batches.receiver import Receiver
from spark_azqueue.source.intake.polling import Pace, StrictTurns

NAMES = ("urgent", "usual", "whenever")


class Stock:
    """A queue with so many messages. It writes down which queue was asked, and what came."""

    def __init__(self, name: str, short_by: list[int], events: list[tuple[str, int]]) -> None:
        self.ref = ref(name)
        self.left = 0
        self.given = 0
        self._short_by = short_by
        self._events = events

    def dequeue(self, count: int, visibility_s: int) -> Page:
        most = min(count, self.left)
        short = self._short_by[len(self._events) % len(self._short_by)]
        got = max(min(most, 1), most - short)
        self._events.append((self.ref.name, got))
        self.left -= got
        first, self.given = self.given, self.given + got
        return page_of(self.ref, range(first, self.given), count)


counts = st.integers(0, 300)


@given(
    arrivals=st.lists(st.tuples(counts, counts, counts), min_size=1, max_size=15),
    short_by=st.lists(st.integers(0, MAX_PER_REQUEST), min_size=1, max_size=7),
    most=st.integers(1, 400),
    parallelism=st.integers(1, 16),
    pause=st.sampled_from([0.0, 0.05, 10.0]),
)
@settings(max_examples=10 * EXAMPLES)
def test_a_batch_takes_from_a_queue_only_what_those_before_it_leave(
    arrivals: list[tuple[int, int, int]],
    short_by: list[int],
    most: int,
    parallelism: int,
    pause: float,
) -> None:
    now = [0.0]
    events: list[tuple[str, int]] = []
    stocks = [Stock(name, short_by, events) for name in NAMES]
    by_ref = {stock.ref: stock for stock in stocks}
    receiver = Receiver(
        OneByOne(by_ref.__getitem__),
        list(by_ref),
        parallelism,
        1.0,
        lambda: now[0],
        QueuePriority.STRICT,
    )

    for come in arrivals:
        now[0] += pause
        for stock, count in zip(stocks, come, strict=True):
            stock.left += count
        before = {stock.ref.name: stock.left for stock in stocks}
        events.clear()
        came: Counter[str] = Counter()
        for page in receiver.look(60, lambda came=came: most - sum(came.values())):  # type: ignore[misc]
            came.update(message.queue.name for message, _ in page.received)

        room = most
        for place, name in enumerate(NAMES):
            if came[name]:
                # Nothing was passed over, and each queue before this one was seen to be empty.
                assert all((earlier, 0) in events for earlier in NAMES[:place])
                assert came[name] == min(before[name], room)
            room -= came[name]


@given(due=st.lists(st.booleans(), min_size=3, max_size=3))
def test_a_queue_that_rests_is_asked_before_one_that_is_due(due: list[bool]) -> None:
    queues: list[QueueRef] = [ref(name) for name in NAMES]
    paces = {
        queue: Pace(not_before=0.0 if is_due else 5.0)
        for queue, is_due in zip(queues, due, strict=True)
    }

    asked = StrictTurns(queues).to_ask(paces, 1.0)

    last = max((place for place, is_due in enumerate(due) if is_due), default=-1)
    assert asked == queues[: last + 1]


def test_all_requests_under_way_may_go_to_the_first_queue() -> None:
    events: list[tuple[str, int]] = []
    stocks = [Stock(name, [0], events) for name in NAMES]
    for stock in stocks:
        stock.left = 10_000
    by_ref = {stock.ref: stock for stock in stocks}
    client = Limited(by_ref.__getitem__)
    receiver = Receiver(client, list(by_ref), 8, 1.0, lambda: 0.0, QueuePriority.STRICT)
    taken = [0]
    for page in receiver.look(60, lambda: 3_000 - taken[0]):
        taken[0] += len(page.received)

    assert stocks[0].given == 3_000
    assert {name for name, _ in events} == {"urgent"}
    assert client.most_under_way == 8
