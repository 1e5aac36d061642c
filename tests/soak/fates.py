"""How each run of the program is to end, by chance."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from processes import COMMIT, FROZEN, STOP, TWIN

# One deck is dealt out, then a new one is shuffled: every kind comes up, in any order.
_DECK = (*("everything",) * 3, *("java",) * 2, *("source",) * 2, "workers", "driver", FROZEN, STOP)
_EARLY = 0.35
"""Share of lives that end while the program starts: in its replay, or in its first batch."""
_SLOW = 0.25
"""Share of lives with slow batches under short leases, so that these are renewed."""


@dataclass(frozen=True)
class Fate:
    """How one life is to go. Early: `after_s` counts from the query's start, else from its first
    finished batch.
    """

    kind: str
    early: bool
    after_s: float
    slow: bool


LAST = Fate(STOP, False, 0.0, False)


def fates(chance: random.Random, *, slow: bool, twins: bool, commits: bool) -> Iterator[Fate]:
    """Draw without end. slow: some lives have slow batches. twins: some start the query twice.

    commits: some end with a kill of the process that commits a transaction.
    """
    deck = (*_DECK, *[TWIN] * twins, *[COMMIT] * (2 * commits))
    while True:
        for kind in chance.sample(deck, len(deck)):
            early = chance.random() < _EARLY
            after_s = chance.uniform(0, 8) if early else chance.uniform(1, 8)
            is_slow = slow and chance.random() < _SLOW
            yield Fate(kind, early, after_s, is_slow)
