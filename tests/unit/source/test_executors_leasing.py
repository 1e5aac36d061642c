"""leaseOn=executors: what a task makes of the pages that it gets."""

from __future__ import annotations

from doubles import OneByOne
from executors_setting import ACCOUNT, CONFIG

from spark_azqueue.journal.pending import PendingDelete, fingerprint
from spark_azqueue.service.messages import Lease, Message, QueueRef, Received
from spark_azqueue.service.queues.calls import Page
from spark_azqueue.service.wire.concurrency import Limits
from spark_azqueue.source.executors.leasing import Leased, Leasing
from spark_azqueue.source.executors.names import PlanId
from spark_azqueue.source.executors.objects import SeenMessages
from spark_azqueue.source.executors.plan import Plan, Slot

QUEUE = QueueRef(ACCOUNT, "aaa")
PLAN = Plan(ACCOUNT, "a" * 32, PlanId(1, "b" * 32), (Slot((QUEUE,), 9, 1_000),))


class Answers(OneByOne):
    """One answer with these messages, each leased by a receipt that names its dequeue count."""

    throttled = 0

    def __init__(self, *messages: Message) -> None:
        super().__init__(lambda _: self)
        self.limits = Limits()
        self._messages = messages

    def dequeue(self, count: int, visibility_s: int) -> Page:
        messages, self._messages = self._messages, ()
        received = (
            Received(each, Lease(QUEUE, each.message_id, f"receipt {each.dequeue_count}"))
            for each in messages
        )
        return Page(tuple(received), count, 0.0, 0, QUEUE)


def leased(*messages: Message, seen: SeenMessages = SeenMessages()) -> Leased:  # noqa: B008
    return Leasing(CONFIG, PLAN, PLAN.slots[0], seen, Answers(*messages)).lease()  # type: ignore[arg-type]


def receipt(*counts: int) -> str:
    (received,) = leased(*(Message(QUEUE, "an-id", "YQ==", 0, 0, n) for n in counts)).received
    return received.lease.pop_receipt


def test_the_newest_receipt_counts_whichever_page_comes_first() -> None:
    """Pages come in parallel. The receipt of an older delivery is dead: no delete would succeed."""
    assert receipt(1, 2) == "receipt 2"
    assert receipt(2, 1) == "receipt 2"


def test_a_known_message_in_a_damaged_answer_gives_no_row_and_is_not_deleted() -> None:
    """Whether its text was updated is unknown. It is judged when it comes back."""
    damaged = Message(QUEUE, "an-id", "?", 0, 0, 2, intact=False)
    seen = SeenMessages([PendingDelete(damaged.key, fingerprint("YQ=="), 0)])

    found = leased(damaged, seen=seen)

    assert (found.received, found.copies, found.unwanted) == ((), (), ())
    assert leased(damaged).received, "it is decoded before it is stored"


def test_a_queue_whose_messages_did_not_fit_was_not_read_to_its_end() -> None:
    """A page has more bytes than the slot: what goes back is there for the next plan."""
    text = "YWFh" * 150
    messages = [Message(QUEUE, f"id-{number}", text, 0, 0, 1) for number in range(3)]

    found = leased(*messages)

    assert len(found.received) == 1
    assert len(found.unwanted) == 2
    assert not found.looked[QUEUE.name].drained
    assert leased(messages[0]).looked[QUEUE.name].drained
