"""What belongs to an availableNow run, and when a queue counts as read."""

import pytest
from refs import ORDERS, ref

from spark_azqueue.service.messages import Message, MessageKey
from spark_azqueue.source.intake.polling import (
    ENOUGH_NEWER,
    HANDED_OUT_AT_MOST,
    NEWER_AT_MOST,
    Cutoff,
)

START = 1_700_000_000_000_000


def message(number, inserted=START, queue=ORDERS):
    return Message(queue, f"m{number}", "T", inserted, 0, 1)


def newer(cutoff, count, begin=0, queue=ORDERS):
    later = START + 1_000_000
    return [cutoff.wants(message(n, later, queue)) for n in range(begin, begin + count)]


@pytest.mark.parametrize(
    ("inserted", "wanted"),
    [
        (START - 1_000_000, True),
        (START, True),  # the second in which the run began
        (START + 1_000_000, False),
        (0, True),
    ],
)
def test_a_run_wants_what_was_there_when_it_began(inserted, wanted):
    assert Cutoff(START).wants(message(1, inserted)) is wanted


def test_a_look_goes_on_until_enough_newer_ones_in_a_row():
    cutoff = Cutoff(START)

    assert newer(cutoff, ENOUGH_NEWER - 1) == [False] * (ENOUGH_NEWER - 1)
    assert not cutoff.read(ORDERS)
    newer(cutoff, 1)
    assert cutoff.read(ORDERS)


def test_each_queue_is_counted_by_itself():
    cutoff = Cutoff(START)

    newer(cutoff, ENOUGH_NEWER - 1, queue=ORDERS)
    newer(cutoff, ENOUGH_NEWER, queue=ref("returns"))

    assert cutoff.read(ref("returns"))
    assert not cutoff.read(ORDERS)
    assert not cutoff.read(ref("never asked"))


def test_an_older_one_of_another_queue_does_not_begin_the_row_again():
    cutoff = Cutoff(START)
    newer(cutoff, ENOUGH_NEWER)

    cutoff.wants(message(1, queue=ref("returns")))

    assert cutoff.read(ORDERS)


def test_an_older_one_between_them_begins_the_row_again():
    cutoff = Cutoff(START)
    newer(cutoff, ENOUGH_NEWER - 1)

    cutoff.wants(message(1))
    newer(cutoff, ENOUGH_NEWER - 1)

    assert not cutoff.read(ORDERS)


def test_older_ones_that_come_again_in_one_look_are_no_news():
    # Given leases that end while the look goes on: the same 100 messages come in every page
    cutoff = Cutoff(START)

    for n in range(ENOUGH_NEWER + 100):
        assert not cutoff.read(ORDERS)
        assert cutoff.wants(message(n % 100))

    assert cutoff.read(ORDERS)


def test_many_older_ones_that_come_once_do_not_end_a_look():
    cutoff = Cutoff(START)

    for n in range(2 * NEWER_AT_MOST):
        cutoff.wants(message(n))

    assert not cutoff.read(ORDERS)


def test_a_new_look_counts_again():
    cutoff = Cutoff(START)
    newer(cutoff, ENOUGH_NEWER)

    cutoff.begin_look()

    assert not cutoff.read(ORDERS)


def test_a_look_goes_on_while_a_released_message_is_awaited():
    # Given a run that released two messages of a batch which a crash left unfinished
    cutoff = Cutoff(START)
    cutoff.released([MessageKey(ORDERS, "m1"), MessageKey(ORDERS, "m2")])

    # When enough newer ones came, and then one of the two
    newer(cutoff, ENOUGH_NEWER, begin=10)
    assert not cutoff.read(ORDERS)
    cutoff.wants(message(1))
    newer(cutoff, ENOUGH_NEWER, begin=10)
    assert not cutoff.read(ORDERS)

    # Then it is the second one that ends the waiting
    cutoff.wants(message(2))
    newer(cutoff, ENOUGH_NEWER, begin=10)
    assert cutoff.read(ORDERS)


def test_only_the_queue_of_a_released_message_waits_for_it():
    cutoff = Cutoff(START)
    cutoff.released([MessageKey(ref("returns"), "m1")])

    newer(cutoff, ENOUGH_NEWER, begin=10, queue=ORDERS)
    newer(cutoff, ENOUGH_NEWER, begin=10, queue=ref("returns"))

    assert cutoff.read(ORDERS)
    assert not cutoff.read(ref("returns"))


def test_a_released_message_that_never_comes_does_not_hold_a_look_for_ever():
    cutoff = Cutoff(START)
    cutoff.released([MessageKey(ORDERS, "deleted by somebody")])

    newer(cutoff, NEWER_AT_MOST)

    assert cutoff.read(ORDERS)


def test_a_run_that_is_full_stays_full_and_says_so_once(caplog):
    cutoff = Cutoff(0)
    assert not cutoff.is_full(HANDED_OUT_AT_MOST - 1)
    assert not caplog.messages

    assert cutoff.is_full(HANDED_OUT_AT_MOST)
    assert cutoff.is_full(HANDED_OUT_AT_MOST - 1)

    (told,) = caplog.messages
    assert "delivered 1000000 messages that are not deleted" in told
