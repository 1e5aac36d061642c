"""Each machine meets each disturbance of the simulated world, or says why it cannot."""

from __future__ import annotations

import pytest
from executors_walk import LOSING, MOVES
from world.disturbances import DISTURBANCES, LOSES, Disturbed

from . import test_clean_restarts, test_combined, test_drains, test_log_decoding, test_promises
from . import test_transaction_numbers as numbers
from . import test_transactions as transactions

MODULES = (test_promises, test_combined, test_log_decoding, test_clean_restarts, test_drains)
MACHINES = [each for module in MODULES for each in module.MACHINES]


@pytest.mark.parametrize("machine", [*MACHINES, transactions.Machine, numbers.Machine])
def test_what_a_machine_cannot_meet_has_a_reason(machine: type[Disturbed]) -> None:
    assert machine.without.keys() <= DISTURBANCES.keys()
    assert all(machine.without.values())


def test_the_walks_of_executors_meet_all() -> None:
    assert DISTURBANCES.keys() <= LOSING.keys()
    assert DISTURBANCES.keys() - MOVES.keys() == {LOSES}
