"""What becomes of a request on its way, to a queue or to the folder of a log."""

from __future__ import annotations

import enum
from typing import NamedTuple


class Fate(enum.Enum):
    """What its sender learns, and whether it takes effect."""

    LOST_BEFORE = "no answer, and no effect, ever"
    LOST_AFTER = "no answer, and it takes effect"
    LATE = "no answer, and it takes effect later, if it still can"
    REFUSED = "HTTP 403, and no effect"
    BUSY = "HTTP 503, and no effect"


class Fault(NamedTuple):
    """A request that is not answered as usual.

    hangs: no answer until its sender gives it up; else its connection breaks at once. seconds: so
    long after that it takes effect (LATE); or after so long it is answered, if it hangs and its
    sender waits (LOST_AFTER; 0: never).
    """

    fate: Fate
    hangs: bool = False
    seconds: float = 0.0


NEVER = Fault(Fate.LOST_BEFORE, hangs=True)
ARRIVES = Fault(Fate.LOST_AFTER, hangs=True)


def late(seconds: float) -> Fault:
    """It hangs, and takes effect so long after its sender gave it up."""
    return Fault(Fate.LATE, hangs=True, seconds=seconds)


def slow(seconds: float) -> Fault:
    """It takes effect, and is answered after so long."""
    return Fault(Fate.LOST_AFTER, hangs=True, seconds=seconds)
