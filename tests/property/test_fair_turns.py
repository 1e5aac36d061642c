"""Queues that all have a backlog get equal shares, whatever the size of a batch is.

The receiver runs over queues that are never short; some of them come and go. Only the requests
count here, so one thread and no clock are enough.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from doubles import OneByOne
from hypothesis import given, settings
from hypothesis import strategies as st
from refs import ref

from spark_azqueue.service.messages import MAX_PER_REQUEST, Lease, Message, Received
from spark_azqueue.service.queues.calls import Page
from spark_azqueue.source.batches.polling import FairTurns
from spark_azqueue.source.batches.receiver import Receiver


class Endless:
    """A queue that is never short, or always empty."""

    def __init__(self, name: str) -> None:
        self.ref = ref(name)
        self.empty = False
        self.requests = 0
        self.given = 0

    def dequeue(self, count: int, visibility_s: int) -> Page:
        self.requests += 1
        count_given = 0 if self.empty else count
        first, self.given = self.given, self.given + count_given
        messages = (
            Received(
                Message(self.ref, str(first + n), "T", 0, 0, 1),
                Lease(self.ref, str(first + n), "r"),
            )
            for n in range(count_given)
        )
        return Page(tuple(messages), count, 0.0)


def batch(receiver: Receiver, most: int) -> Counter[str]:
    """One batch of up to so many messages: how many came from which queue."""
    came: Counter[str] = Counter()
    for page in receiver.look(60, lambda: most - sum(came.values())):
        came.update(message.queue.name for message, _ in page.received)
    return came


def a_receiver(queues: list[Endless], parallelism: int, clock: Any = None) -> Receiver:
    by_ref = {queue.ref: queue for queue in queues}
    return Receiver(
        OneByOne(by_ref.__getitem__), list(by_ref), parallelism, 1.0, clock or (lambda: 0.0)
    )


@given(
    queues=st.integers(2, 12),
    parallelism=st.integers(1, 16),
    batches=st.lists(st.integers(1, 400), min_size=1, max_size=60),
)
@settings(max_examples=200, deadline=None)
def test_over_any_batches_each_queue_gets_an_equal_share(
    queues: int, parallelism: int, batches: list[int]
) -> None:
    stocks = [Endless(f"queue-{n}") for n in range(queues)]
    receiver = a_receiver(stocks, parallelism)
    shares: list[Counter[str]] = [Counter()]
    for most in batches:
        came = batch(receiver, most)
        assert sum(came.values()) == most
        shares.append(shares[-1] + came)

    # Over every run of batches, not only from the start. Two queues differ by a page each, and by
    # what one more request at once brings while the other is still asked for one.
    bound = MAX_PER_REQUEST * (2 + max(1, parallelism // queues))
    for begin in range(len(shares)):
        for end in range(begin + 1, len(shares)):
            counts = [shares[end][q.ref.name] - shares[begin][q.ref.name] for q in stocks]
            assert max(counts) - min(counts) <= bound


@given(most=st.integers(1, 200), queues=st.integers(1, 9))
@settings(deadline=None)
def test_an_idle_queue_costs_one_request_when_it_is_due(most: int, queues: int) -> None:
    now = [0.0]
    stocks = [Endless(f"queue-{n}") for n in range(queues)]
    for stock in stocks[1:]:
        stock.empty = True
    receiver = a_receiver(stocks, 8, lambda: now[0])

    for _ in range(10):
        batch(receiver, most)
    assert all(stock.requests <= 1 for stock in stocks[1:]), "not due again yet"

    now[0] += 0.1
    for _ in range(10):
        batch(receiver, most)
    assert all(stock.requests == 2 for stock in stocks[1:])
    assert stocks[0].given == 20 * most


@given(quiet=st.integers(1, 100))
@settings(deadline=None, max_examples=30)
def test_a_quiet_time_earns_no_credit(quiet: int) -> None:
    """A queue that was empty for long does not push the others aside when messages come."""
    now = [0.0]
    steady, comes_late = Endless("a-queue"), Endless("b-queue")
    comes_late.empty = True
    receiver = a_receiver([steady, comes_late], 2, lambda: now[0])
    for _ in range(quiet):
        now[0] += 10
        batch(receiver, 64)

    comes_late.empty = False
    now[0] += 10
    came: Counter[str] = sum((batch(receiver, 64) for _ in range(10)), Counter())

    assert abs(came["a-queue"] - came["b-queue"]) <= 2 * MAX_PER_REQUEST


def test_a_slow_queue_makes_up_for_a_bounded_lag_only() -> None:
    quick, slow = ref("quick"), ref("slow")
    turns = FairTurns([quick, slow], most_credit=100)
    turns.asked(slow, 32)
    for _ in range(50):
        turns.asked(quick, 32)

    slow_ones = 0
    while turns.next([quick, slow]) == slow:
        turns.asked(slow, 32)
        slow_ones += 1

    assert slow_ones <= 100 // 32 + 2
