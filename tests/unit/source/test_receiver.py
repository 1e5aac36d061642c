"""Looks at queues: how many requests, how wide, and what becomes of pages nobody waited for."""

import pytest
from doubles import OneByOne
from limited import Limited
from refs import ref

from spark_azqueue.errors import QueueNotFound
from spark_azqueue.service.messages import Lease, Message, Received
from spark_azqueue.service.queues.calls import Page
from spark_azqueue.source.batches.receiver import Receiver

PLENTY = 10_000


class Stock:
    """A queue with so many messages in it."""

    def __init__(self, name, count, error=None):
        self.ref = ref(name)
        self.left = count
        self.asked = []
        self.error = error

    def dequeue(self, count, visibility_s):
        self.asked.append(count)
        if self.error:
            raise self.error
        got = min(count, self.left)
        self.left -= got
        ids = [f"{self.left + n}" for n in range(got)]
        received = (
            Received(Message(self.ref, each, "T", 0, 0, 1), Lease(self.ref, each, "r"))
            for each in ids
        )
        return Page(tuple(received), count, 0.0)


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def receiver(*queues, parallelism=8, longest=1.0, clock=None):
    by_ref = {queue.ref: queue for queue in queues}
    service = OneByOne(by_ref.__getitem__)
    return Receiver(service, list(by_ref), parallelism, longest, clock or Clock())


def look(made, room=PLENTY, **how):
    """One look with room for so many messages; returns the pages."""
    pages = []

    def left():
        return room - sum(len(page.received) for page in pages)

    for page in made.look(60, left, **how):
        pages.append(page)
    return pages


def got(pages):
    return sum(len(page.received) for page in pages)


@pytest.mark.parametrize("room", [1, 31, 32, 33, 100, 1000])
@pytest.mark.parametrize("parallelism", [1, 3, 8])
def test_never_more_than_there_is_room_for(room, parallelism):
    stock = Stock("orders", PLENTY)

    assert got(look(receiver(stock, parallelism=parallelism), room)) == room


# ── over the wire ─────────────────────────────────────────────────────────────────────────────────


def limited_receiver(stocks, *full):
    by_ref = {stock.ref: stock for stock in stocks}
    service = Limited(by_ref.__getitem__, *(stock.ref for stock in full))
    return service, Receiver(service, list(by_ref), None, 1.0, Clock())


def test_a_queue_at_its_limit_does_not_keep_others_from_being_asked():
    full, free = Stock("a-queue", 200), Stock("b-queue", 200)
    service, made = limited_receiver([full, free], full)

    assert got(look(made)) == 400

    asked = [call.queue.name for call in service.begun]
    assert asked.index("a-queue") >= 7, "when the other one was read"
    assert service.refused >= 1


def test_a_look_waits_for_the_limits_if_nothing_else_is_to_be_done():
    stock = Stock("orders", 40)
    service, made = limited_receiver([stock], stock)

    assert got(look(made)) == 40
    assert service.refused >= 1


def test_a_queue_that_may_go_ends_its_own_turn_only():
    gone = Stock("gone", 0, QueueNotFound("it is gone", status=404, code="QueueNotFound"))
    left = Stock("left", 40)
    by_ref = {queue.ref: queue for queue in (gone, left)}
    told = []

    def vanished(queue):
        told.append(queue)
        return True

    made = Receiver(OneByOne(by_ref.__getitem__), list(by_ref), 8, 1.0, Clock(), vanished=vanished)

    assert sum(len(page.received) for page in look(made)) == 40
    assert set(told) == {gone.ref}


def test_a_queue_that_has_to_be_there_ends_the_look_if_it_is_not():
    gone = Stock("gone", 0, QueueNotFound("it is gone", status=404, code="QueueNotFound"))

    with pytest.raises(QueueNotFound):
        look(receiver(gone, Stock("left", 40)))


def test_queues_can_be_exchanged_and_those_that_stay_keep_their_pace():
    clock = Clock()
    old, kept, new = Stock("old", 0), Stock("kept", 0), Stock("new", 5)
    by_ref = {queue.ref: queue for queue in (old, kept, new)}
    made = Receiver(OneByOne(by_ref.__getitem__), [old.ref, kept.ref], 8, 1.0, clock)
    assert look(made)[0].received == ()
    asked = len(kept.asked)

    made.read_from([kept.ref, new.ref])

    assert made.seconds_until_due() == 0
    assert sum(len(page.received) for page in look(made)) == 5
    assert len(old.asked) == 1
    assert len(kept.asked) == asked, "it rests"
