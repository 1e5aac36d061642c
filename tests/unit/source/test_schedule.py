"""Which of many leases is to be renewed next."""

import pytest

from spark_azqueue.source.leases.timing import Schedule


class Expected(dict):
    """What is valid now: key -> time."""

    def valid(self, key, at):
        return self.get(key) == at


def key(number):
    return ("orders", f"m{number}")


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
