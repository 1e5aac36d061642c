"""leaseOn=executors: what a task makes of the pages that it gets."""

from __future__ import annotations

from doubles import OneByOne
from executors_setting import ACCOUNT, CONFIG

from spark_azqueue.service.messages import Lease, Message, QueueRef, Received
from spark_azqueue.service.queues.calls import Page
from spark_azqueue.service.queues.concurrency import Limits
from spark_azqueue.source.executors.leasing import Leasing
from spark_azqueue.source.executors.names import PlanId
from spark_azqueue.source.executors.objects import SeenMessages
from spark_azqueue.source.executors.plan import Plan, Slot

QUEUE = QueueRef(ACCOUNT, "aaa")
PLAN = Plan(ACCOUNT, "a" * 32, PlanId(1, "b" * 32), (Slot((QUEUE,), 9, 1_000),))


class Answers(OneByOne):
    """One answer with a message that was delivered so often each time, in this order."""

    throttled = 0

    def __init__(self, *counts: int) -> None:
        super().__init__(lambda _: self)
        self.limits = Limits()
        self._counts = counts

    def dequeue(self, count: int, visibility_s: int) -> Page:
        counts, self._counts = self._counts, ()
        received = (
            Received(
                Message(QUEUE, "an-id", "YQ==", 0, 0, n), Lease(QUEUE, "an-id", f"receipt {n}")
            )
            for n in counts
        )
        return Page(tuple(received), count, 0.0, 0, QUEUE)


def receipt(*counts: int) -> str:
    made = Leasing(CONFIG, PLAN, PLAN.slots[0], SeenMessages(), Answers(*counts))  # type: ignore[arg-type]
    (received,) = made.lease().received
    return received.lease.pop_receipt


def test_the_newest_receipt_counts_whichever_page_comes_first() -> None:
    """Pages come in parallel. The receipt of an older delivery is dead: no delete would succeed."""
    assert receipt(1, 2) == "receipt 2"
    assert receipt(2, 1) == "receipt 2"
