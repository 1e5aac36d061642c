"""Looks at queues: how many requests, how wide, and what becomes of pages nobody waited for."""

import math
import time

import pytest
from doubles import OneByOne, page_of
from limited import Limited
from queues import OneQueue
from refs import ORDERS, ref

from spark_azqueue.errors import AccessDenied, Outcome, QueueNotFound
from spark_azqueue.options.account import read_account
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.source.batches.receiver import Receiver
from spark_azqueue.testing import Fault

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
        return page_of(self.ref, range(self.left, self.left + got), count)


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


def never(queue):
    """No queue counts as read before its first empty page."""
    return False


def drain(pages, seen):
    for page in pages:
        seen.extend(lease for _, lease in page.received)


def got(pages):
    return sum(len(page.received) for page in pages)


def test_a_look_at_an_empty_queue_is_one_request():
    stock = Stock("orders", 0)

    assert got(look(receiver(stock))) == 0
    assert stock.asked == [32]


def test_a_look_ends_with_the_first_short_page():
    stock = Stock("orders", 40)

    assert got(look(receiver(stock, parallelism=1))) == 40
    assert stock.asked == [32, 32]


def test_a_look_for_everything_ends_with_the_first_empty_page():
    stock = Stock("orders", 40)

    assert got(look(receiver(stock, parallelism=1), read=never)) == 40
    assert stock.asked == [32, 32, 32]


@pytest.mark.parametrize("room", [1, 31, 32, 33, 100, 1000])
@pytest.mark.parametrize("parallelism", [1, 3, 8])
def test_never_more_than_there_is_room_for(room, parallelism):
    stock = Stock("orders", PLENTY)

    assert got(look(receiver(stock, parallelism=parallelism), room)) == room


def test_without_room_nothing_is_asked():
    stock = Stock("orders", 5)

    assert look(receiver(stock), room=0) == []
    assert stock.asked == []


def test_a_full_queue_does_not_starve_another():
    full, other = Stock("a-queue", PLENTY), Stock("b-queue", 5)

    pages = look(receiver(full, other), room=1024)

    assert got(pages) == 1024
    assert other.left == 0


def test_a_queue_that_counts_as_read_is_not_asked_again():
    first, second = Stock("a-queue", PLENTY), Stock("b-queue", 40)
    made = receiver(first, second, parallelism=1)

    pages = look(made, read=lambda queue: queue == first.ref and len(first.asked) == 2)

    assert first.asked == [32, 32]
    assert second.left == 0
    assert got(pages) == 64 + 40


def test_a_look_for_everything_asks_every_queue_however_few_requests_it_may_make_at_once():
    # Given more queues than requests, and a queue that is read after 32 pages with no news
    stocks = [Stock(f"queue-{n}", PLENTY) for n in range(9)] + [Stock("the-last", 50)]
    made = receiver(*stocks, parallelism=8)

    look(made, read=lambda queue: len({s.ref: s for s in stocks}[queue].asked) >= 32)

    assert stocks[-1].left == 0


def test_an_empty_queue_is_left_alone_for_longer_and_longer():
    clock, stock = Clock(), Stock("orders", 0)
    made = receiver(stock, clock=clock, longest=0.3)
    pauses = []
    for _ in range(16):
        look(made)
        pauses.append(made.seconds_until_due())
        clock.now += pauses[-1]

    assert pauses[0] == pytest.approx(0.1)
    assert pauses[-2:] == pytest.approx([0.3, 0.3])
    assert pauses == sorted(pauses, key=lambda each: round(each, 6))
    assert len(stock.asked) == 16


def test_a_queue_that_is_not_due_is_not_asked():
    clock, empty, full = Clock(), Stock("a-queue", 0), Stock("b-queue", 1000)
    made = receiver(empty, full, clock=clock)
    look(made, room=64)

    look(made, room=64)

    assert empty.asked == [32]
    assert made.seconds_until_due() == 0.0


def test_a_look_for_everything_asks_even_what_is_not_due():
    stock = Stock("orders", 0)
    made = receiver(stock)
    look(made)
    assert made.seconds_until_due() > 0

    look(made, read=never)

    assert stock.asked == [32, 32]


def test_pages_of_a_look_that_was_broken_off_are_orphans():
    # Given two queues whose pages come in together, one of them refused
    good, bad = Stock("a-queue", 5), Stock("b-queue", 0, error=AccessDenied("no"))
    made, seen = receiver(bad, good), []

    with pytest.raises(AccessDenied):
        drain(made.look(60, lambda: PLENTY), seen)

    # Then what the other one leased was seen or is among the orphans
    assert good.left == 0
    assert len(seen) + len(made.take_orphans()) == 5


def test_a_look_that_its_user_leaves_keeps_what_was_under_way():
    stock = Stock("orders", PLENTY)
    made = receiver(stock, parallelism=8)
    look(made, room=1000)  # wide by now
    before = stock.left

    pages = made.look(60, lambda: PLENTY)
    first = next(pages)
    pages.close()

    assert len(first.received) + len(made.take_orphans()) == before - stock.left


# ── over the wire ─────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def wired(fake):
    fake.create_queue("orders")
    account = read_account({"secret.connectionString": fake.connection_string}, {})
    service = QueueClient(account)
    return Receiver(service, [ORDERS], 8, 1.0, time.monotonic), OneQueue(account, ORDERS)


def test_every_message_comes_once_however_many_requests_are_under_way(fake, wired):
    made, _ = wired
    ids = fake.put_many("orders", [str(n) for n in range(1000)])

    found = [m.message_id for page in look(made, read=never) for m, _ in page.received]

    assert sorted(found) == sorted(ids)
    assert fake.visible("orders") == 0


def test_whatever_was_leased_by_a_broken_look_can_be_given_back(fake, wired):
    # Given many requests under way, one of which is refused for good
    made, queue = wired
    fake.put_many("orders", [str(n) for n in range(1000)])
    look(made, room=512)
    fake.faults.add(Fault("dequeue", "forbidden", nth=8))
    seen = []

    with pytest.raises(AccessDenied):
        drain(made.look(60, lambda: PLENTY, read=never), seen)

    # Then every lease is either seen or an orphan, with a receipt that is good
    leased = seen + made.take_orphans()
    assert 512 + len(leased) + fake.visible("orders") == 1000
    assert all(queue.update(lease, 0)[0] is Outcome.OK for lease in leased)
    assert fake.visible("orders") == 1000 - 512


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


def test_as_many_as_it_takes_are_sixteen():
    stock = Stock("orders", PLENTY)
    service = Limited(lambda name: stock)
    made = Receiver(service, [stock.ref], None, 1.0, Clock())
    most = []
    flight = service.in_flight()
    ended = flight.ended
    flight.ended = lambda timeout_s=None: most.append(len(flight)) or ended(timeout_s)
    service.in_flight = lambda: flight

    look(made, room=4096)

    assert max(most) == 16


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


def test_without_a_queue_nothing_is_due():
    made = receiver()

    assert made.seconds_until_due() == math.inf
    assert look(made) == []
