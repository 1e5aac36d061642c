"""What may happen to every simulated world. Here a fault is added, and each machine meets it.

A disturbance is a name, how often it comes, and what happens; two numbers say of whom and what. A
machine that cannot meet one says why, in `without` (`Disturbed`): `table` lists all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from log_stores import MemoryLogStore

from .fates import ARRIVES, NEVER, Fate, late, slow
from .others import Others
from .service import Service

ALL = 1_000
"""Numbers of a disturbance are below it."""

OPERATIONS = ("dequeue", "delete", "update", "delete", "update", "put", "any")
LOSES = "the folder loses an object"
_SECONDS = (0.5, 7.0, 30.0, 150.0)
_FATES = (Fate.LOST_AFTER, Fate.LOST_BEFORE, Fate.BUSY)
_ENDS = ("deletes", "returns", "updates", "keeps", "forgets")
_A_MINUTE_S = 60.0
_BUSY_FOR = 20


class World(Protocol):
    """What a world has, as far as it can be disturbed."""

    service: Service
    others: Others

    def names(self) -> Sequence[str]:
        """The queues that are read, or written to; the first one comes first with `strict`."""

    def another_sends(self, queue: str) -> object:
        """A message comes into this queue."""

    def loses(self, who: int, what: int) -> None:
        """The folder of the log loses an object, or a byte of it; if there is a log."""

    def stores(self) -> Sequence[MemoryLogStore]:
        """The folder of a log, as each living process sees it."""


def _take(world: World, who: int, what: int) -> None:
    names = world.names()
    seconds = (1, 30, 300)[what % 3]
    world.others.dequeue(names[who % len(names)], 1 + what % 4, seconds)


def _end(world: World, who: int, what: int) -> None:
    world.others.ends(who, _ENDS[what % len(_ENDS)])


def _twice(world: World, who: int, what: int) -> None:
    world.service.deliver_twice()


def _fail(world: World, who: int, what: int) -> None:
    operation = OPERATIONS[who % len(OPERATIONS)]
    world.service.meet(operation, _FATES[what % len(_FATES)], times=1 + what % 7 % 3)


def _hang(world: World, who: int, what: int) -> None:
    seconds = _SECONDS[what // 4 % len(_SECONDS)]
    fault = (NEVER, ARRIVES, late(seconds), slow(seconds))[what % 4]
    world.service.meet(OPERATIONS[who % len(OPERATIONS)], fault, times=1 + what % 6)


def _land(world: World, who: int, what: int) -> None:
    world.service.land(who)


def _skew(world: World, who: int, what: int) -> None:
    world.service.skew(who % 9 - 4)


def _wrong(world: World, who: int, what: int) -> None:
    world.service.drivers_ahead_s = (-_A_MINUTE_S, 0.0, _A_MINUTE_S)[who % 3]


def _busy(world: World, who: int, what: int) -> None:
    """For so many dequeues, messages come to the first queue before each."""
    first, left = world.names()[0], [_BUSY_FOR]

    def sends(name: str) -> None:
        left[0] -= 1
        if left[0] <= 0:
            world.service.before_dequeue = None
        elif first in world.service.account.names():
            for _ in range(1 + what % 4):
                world.another_sends(first)

    world.service.before_dequeue = sends


def _put_fails(world: World, who: int, what: int) -> None:
    if stores := world.stores():
        fates = [*Fate]
        fault = fates[what % len(fates)]
        stores[who % len(stores)].next_puts(*[None] * (what % 3), fault)


def _put_lands(world: World, who: int, what: int) -> None:
    for store in world.stores():
        store.land()


def _loses(world: World, who: int, what: int) -> None:
    world.loses(who, what)


class Disturbance(NamedTuple):
    """weight: how often it comes. of: what it is about."""

    of: str
    weight: float
    happens: Callable[[Any, int, int], None]


DISTURBANCES: Mapping[str, Disturbance] = {
    "another program dequeues": Disturbance("others", 2, _take),
    "another program deletes, returns or updates": Disturbance("others", 2, _end),
    "a page is delivered twice": Disturbance("others", 1, _twice),
    "a busy sender in the first queue": Disturbance("others", 0.5, _busy),
    "requests get no answer, or 503": Disturbance("requests", 1, _fail),
    "requests hang, or take effect late": Disturbance("requests", 1, _hang),
    "what was late takes effect": Disturbance("requests", 1, _land),
    "the service's clocks differ": Disturbance("clocks", 0.5, _skew),
    "the drivers' clocks are a minute wrong": Disturbance("clocks", 0.5, _wrong),
    "puts into the log fail": Disturbance("folder", 1, _put_fails),
    "late puts into the log land": Disturbance("folder", 1, _put_lands),
    LOSES: Disturbance("folder", 0.5, _loses),
}


def _named(of: str) -> st.SearchStrategy[str]:
    """One of a part, the frequent ones more often."""
    found = {name: each.weight for name, each in DISTURBANCES.items() if each.of == of}
    return st.sampled_from(
        [name for name, weight in found.items() for _ in range(round(2 * weight))]
    )


NUMBERS = st.integers(0, ALL - 1)
OTHERS = st.tuples(_named("others"), NUMBERS, NUMBERS)
"""What other programs do next."""


class Disturbed(RuleBasedStateMachine):
    """A machine whose world meets every disturbance, between two of its steps.

    without: those that it cannot meet, and why.
    """

    without: ClassVar[Mapping[str, str]] = {}

    service: Service
    others: Others

    def names(self) -> Sequence[str]:
        raise NotImplementedError

    def stores(self) -> Sequence[MemoryLogStore]:
        return ()

    def another_sends(self, queue: str) -> object:
        raise NotImplementedError

    def loses(self, who: int, what: int) -> None:
        pass

    def disturb(self, name: str, who: int, what: int) -> None:
        if name not in self.without:
            DISTURBANCES[name].happens(self, who, what)

    @rule(chosen=OTHERS)
    def other_programs_act(self, chosen: tuple[str, int, int]) -> None:
        self.disturb(*chosen)

    @rule(name=_named("requests"), who=NUMBERS, what=NUMBERS)
    def requests_are_disturbed(self, name: str, who: int, what: int) -> None:
        self.disturb(name, who, what)

    @rule(name=_named("clocks"), who=NUMBERS, what=NUMBERS)
    def clocks_change(self, name: str, who: int, what: int) -> None:
        self.disturb(name, who, what)

    @rule(name=_named("folder"), who=NUMBERS, what=NUMBERS)
    def the_folder_is_disturbed(self, name: str, who: int, what: int) -> None:
        self.disturb(name, who, what)
