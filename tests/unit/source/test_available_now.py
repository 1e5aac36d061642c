"""What belongs to an availableNow run, and when a queue counts as read."""

import pytest
from refs import ORDERS

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
    assert "gave out 1000000 messages that are not deleted" in told
