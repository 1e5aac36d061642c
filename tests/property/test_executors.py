"""leaseOn=executors: however drivers, tasks and other consumers interleave, are killed, are frozen
or get no answer, no message is lost, and no output has one twice.

The real driver's half and the real tasks, over a log and queues in memory. Two queries may have one
folder, if a checkpoint was copied. Then each output has a message once at most, and the outputs
together have all of them; a query that is left behind further than the retention is told.
"""

from __future__ import annotations

import itertools

import pytest
from budget import EXAMPLES
from executors import Broken, World
from executors_rules import RULES, Scene, no_claims
from executors_sweep import run, stops
from executors_walk import ALL, MOVES, Move, calm, moves_of, play
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

_WEIGHTED = [name for name, (weight, _) in MOVES.items() for _ in range(round(weight * 5))]
ALL_STOPS_FROM = 120
"""With so many examples; with fewer, a part of the stops."""

_NUMBERS = st.integers(0, ALL - 1)


class Machine(RuleBasedStateMachine):
    """Each move is checked by the world; in the end all has to come to rest."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.world = World(self.patch)
        self.is_broken = False
        play(self.world, ())

    @rule(name=st.sampled_from(_WEIGHTED), who=_NUMBERS, what=_NUMBERS)
    def moves(self, name: str, who: int, what: int) -> None:
        try:
            MOVES[name][1](self.world, who, what)
        except BaseException:
            self.is_broken = True
            raise

    def teardown(self) -> None:
        try:
            if not self.is_broken:
                calm(self.world)
        finally:
            self.world.close()
            self.patch.undo()


Machine.TestCase.settings = settings(max_examples=2 * EXAMPLES, stateful_step_count=100, deadline=None)
TestMachine = Machine.TestCase


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch):
    made = World(monkeypatch)
    yield made
    made.close()


@pytest.mark.parametrize("who", ["task", "driver", "start"])
def test_stopped_before_each_call(who: str) -> None:
    every = stops(who, 2)
    if EXAMPLES < ALL_STOPS_FROM:
        every = itertools.islice(every, 0, None, ALL_STOPS_FROM // EXAMPLES)
    for stop in every:
        with pytest.MonkeyPatch.context() as patch:
            world = World(patch)
            try:
                run(world, stop)
                calm(world)
            except AssertionError as error:
                raise AssertionError(f"{stop}: {error}") from error
            finally:
                world.close()


@pytest.mark.parametrize("seed", range(EXAMPLES // 4))
def test_claims_are_for_users_alone(
    world: World, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    no_claims(monkeypatch)
    play(world, moves_of(seed, 100))
    calm(world)


@pytest.mark.parametrize("name", RULES)
def test_each_rule_is_kept(world: World, name: str) -> None:
    RULES[name][0](Scene(world))
    calm(world)


@pytest.mark.parametrize("name", RULES)
def test_without_this_rule_a_promise_breaks(
    world: World, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    scenario, take_away = RULES[name]
    take_away(monkeypatch)
    with pytest.raises(Broken, match=r"^(lost|twice|other rows)"):
        scenario(Scene(world))
        calm(world)
