"""What belongs to an availableNow run."""

import pytest

from spark_azqueue.cutoff import ENOUGH_NEWER, NEWER_AT_MOST, Cutoff
from spark_azqueue.messages import Message

START = 1_700_000_000_000_000


def message(number, inserted):
    return Message("orders", f"m{number}", "T", inserted, 0, 1)


def newer(cutoff, count, begin=0):
    return [cutoff.wants(message(n, START + 1_000_000)) for n in range(begin, begin + count)]


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
    assert not cutoff.reached
    newer(cutoff, 1)
    assert cutoff.reached


def test_an_older_one_between_them_begins_the_row_anew():
    cutoff = Cutoff(START)
    newer(cutoff, ENOUGH_NEWER - 1)

    cutoff.wants(message(1, START))
    newer(cutoff, ENOUGH_NEWER - 1)

    assert not cutoff.reached


def test_a_new_look_counts_anew():
    cutoff = Cutoff(START)
    newer(cutoff, ENOUGH_NEWER)

    cutoff.begin_look()

    assert not cutoff.reached


def test_a_look_goes_on_while_a_released_message_is_awaited():
    # Given a run that released two messages of a batch which a crash left unfinished
    cutoff = Cutoff(START)
    cutoff.released(["m1", "m2"])

    # When enough newer ones came, and then one of the two
    newer(cutoff, ENOUGH_NEWER, begin=10)
    assert not cutoff.reached
    cutoff.wants(message(1, START))
    newer(cutoff, ENOUGH_NEWER, begin=10)
    assert not cutoff.reached

    # Then it is the second one that ends the waiting
    cutoff.wants(message(2, START))
    newer(cutoff, ENOUGH_NEWER, begin=10)
    assert cutoff.reached


def test_a_released_message_that_never_comes_does_not_hold_a_look_for_ever():
    cutoff = Cutoff(START)
    cutoff.released(["deleted by somebody"])

    newer(cutoff, NEWER_AT_MOST)

    assert cutoff.reached


def test_what_the_run_gave_out_it_does_not_want_again():
    cutoff = Cutoff(START)
    cutoff.gave_out(["m1"])

    assert cutoff.was_given_out(message(1, START))
    assert not cutoff.was_given_out(message(2, START))
