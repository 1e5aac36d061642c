"""Who may share a batch with whom, and who is guilty."""

import pytest
from refs import ORDERS, ref

from spark_azqueue.service.messages import Lease, Message
from spark_azqueue.source.batches.poison import Suspects, group_limit


def message(name, count=1):
    return Message(ORDERS, name, name, 0, 0, count)


def after_a_failure(maximum):
    """What a run knows that began with a batch of two that had failed."""
    suspects = Suspects(maximum)
    suspects.batch_failed([Lease(ORDERS, "a", "r"), Lease(ORDERS, "b", "r")])
    return suspects


@pytest.mark.parametrize(
    ("most", "maximum", "limits"),
    [
        (1024, 5, [1024, 256, 64, 16, 4, 1, 1]),
        (1024, 2, [1024, 32, 1, 1]),
        (1000, 3, [1000, 100, 10, 1]),
        (64, 1, [64, 1, 1]),
        (1, 5, [1, 1, 1, 1, 1, 1]),
    ],
)
def test_groups_grow_smaller_with_every_delivery(most, maximum, limits):
    counts = range(1, len(limits) + 1)
    assert [group_limit(count, most, maximum) for count in counts] == limits


@pytest.mark.parametrize(
    ("counts", "most", "maximum", "chosen"),
    [
        ([1, 1, 1], 2, 5, [0, 1]),  # nobody came back: as many as there may be
        ([1, 3, 1, 2], 64, None, [0, 1, 2, 3]),  # nobody is suspected
        ([1, 9, 1, 9], 64, 3, [1]),  # over the maximum: alone
        ([1, 2, 1, 2], 64, 3, [1, 3]),  # suspects first, and among themselves
        ([2, 3, 2, 2], 64, 3, [1, 0, 2, 3]),  # the worst sets the size: 4
        ([2, 4, 2, 2], 64, 3, [1]),
        ([], 64, 3, []),
    ],
)
def test_the_worst_suspect_chooses_the_company(counts, most, maximum, chosen):
    waiting = [message(str(place), count) for place, count in enumerate(counts)]
    assert after_a_failure(maximum).choose(waiting, most) == [waiting[place] for place in chosen]


@pytest.mark.parametrize(
    ("counts", "most", "maximum", "more"),
    [
        ([], 64, 3, 64),
        ([1] * 10, 64, 3, 54),
        ([2] * 10, 64, 3, 6),  # a group of 16
        ([4] * 10, 64, 3, -9),  # alone: nothing more is needed
        ([4] * 10, 64, None, 54),
    ],
)
def test_no_more_is_dequeued_than_the_group_needs(counts, most, maximum, more):
    waiting = [message(str(n), count) for n, count in enumerate(counts)]
    assert after_a_failure(maximum).room(waiting, most) == more


def test_never_more_wait_than_make_a_batch_however_small_the_suspects_group_is():
    waiting = [message("suspect", 2), *(message(str(n)) for n in range(63))]

    assert after_a_failure(5).room(waiting, 64) == 0
    assert after_a_failure(5).room(waiting[:-4], 64) == 4


@pytest.mark.parametrize(
    ("count", "failed_alone", "maximum", "guilty"),
    [
        (6, True, 5, True),
        (5, True, 5, False),  # not over the maximum yet
        (99, False, 5, False),  # a count alone proves nothing
        (99, True, None, False),  # nobody asked for it
    ],
)
def test_guilty_is_who_failed_alone_and_came_too_often(count, failed_alone, maximum, guilty):
    suspects = Suspects(maximum)
    for key in [(ORDERS, "x")] if failed_alone else [(ORDERS, "y"), (ref("returns"), "x")]:
        suspects.batch_failed([Lease(*key, "r")])
    assert suspects.is_poison(message("x", count)) is guilty


def test_in_a_run_without_a_failure_nobody_is_a_suspect():
    waiting = [message("suspect", 9), message("other")]

    assert Suspects(3).choose(waiting, 64) == waiting
    assert Suspects(3).room(waiting, 64) == 62
