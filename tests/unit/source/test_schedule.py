"""Which of many leases is to be renewed next."""

import random

import pytest

from spark_azqueue.source.leases.timing import Schedule


class Expected(dict):
    """What is valid now: key -> time."""

    def valid(self, key, at):
        return self.get(key) == at


def key(number):
    return ("orders", f"m{number}")


def test_nothing_is_expected():
    assert Schedule(Expected().valid).soonest() is None


def test_the_earliest_that_is_valid_comes_first():
    expected = Expected()
    schedule = Schedule(expected.valid)
    for number in random.Random(1).sample(range(100), 100):
        expected[key(number)] = float(number)
        schedule.add(key(number), float(number))

    order = []
    while (soonest := schedule.soonest()) is not None:
        order.append(soonest[0])
        del expected[soonest[1]]

    assert order == [float(number) for number in range(100)]


def test_a_key_that_is_expected_at_another_time_comes_then():
    expected = Expected({key(1): 5.0, key(2): 3.0})
    schedule = Schedule(expected.valid)
    for at in (1.0, 5.0, 2.0):
        schedule.add(key(1), at)
    schedule.add(key(2), 3.0)

    assert schedule.soonest() == (3.0, key(2))
    del expected[key(2)]
    assert schedule.soonest() == (5.0, key(1))
    assert schedule.soonest() == (5.0, key(1)), "asking changes nothing"


@pytest.mark.parametrize("held", [0, 10, 5_000])
def test_what_is_outdated_does_not_pile_up(held):
    expected = Expected({key(number): 1e9 for number in range(held)})
    schedule = Schedule(expected.valid)
    for number in range(held):
        schedule.add(key(number), 1e9)

    for number in range(50_000):  # messages that come and go
        schedule.add(("orders", f"gone{number}"), float(number))

    assert len(schedule) <= 3 * (held + 1_000)
    assert schedule.soonest() == ((1e9, min(expected)) if held else None)
