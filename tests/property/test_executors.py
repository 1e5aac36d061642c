"""leaseOn=executors: however drivers, tasks and other consumers interleave, are killed, are frozen
or get no answer, no message is lost, and no output has one twice.

The real driver's half and the real tasks, over a log and queues in memory. Two queries may have one
folder, if a checkpoint was copied. Then each output has a message once at most, and the outputs
together have all of them; a query that is left behind further than the retention is told.
"""

from __future__ import annotations

import pytest
from budget import EXAMPLES
from executors import World
from executors_attacker import WAYS, Attacked, attack, attacks
from executors_bare import RULES as BARE_RULES
from executors_mutants import MUTANTS
from executors_outcomes import RULES as OUTCOMES
from executors_rules import RULES, no_claims
from executors_scene import Scene
from executors_setting import Broken
from executors_spark import How
from executors_sweep import PROCESSES, run, stops
from executors_walk import LOSING, MOVES, Damaged, calm, moves_of, play
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from world.disturbances import ALL

_WEIGHTED = [name for name, (weight, _) in LOSING.items() for _ in range(round(weight * 5))]
BARE = How(bare=True)
_NUMBERS = st.integers(0, ALL - 1)


class Machine(RuleBasedStateMachine):
    """Each move is checked by the world; in the end all has to come to rest."""

    how = How()
    world_of = World
    moves_of = MOVES

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.world = self.world_of(self.patch, self.how)
        self.is_broken = False
        play(self.world, ())

    @rule(name=st.sampled_from(_WEIGHTED), who=_NUMBERS, what=_NUMBERS)
    def moves(self, name: str, who: int, what: int) -> None:
        try:
            if name in self.moves_of:
                self.moves_of[name][1](self.world, who, what)
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


class BareMachine(Machine):
    """The same with the calls of Spark 4.0 and 4.1, and with plans that are closed early."""

    how = BARE


class OtherMachine(Machine):
    """The same with an engine that asks for the next batch while tasks run, and may plan ahead."""

    how = How(other=True, early=True)


class LosingMachine(Machine):
    """The same in a folder that loses objects."""

    world_of = Damaged
    moves_of = LOSING


Machine.TestCase.settings = BareMachine.TestCase.settings = OtherMachine.TestCase.settings = (
    settings(max_examples=2 * EXAMPLES, stateful_step_count=100)
)
LosingMachine.TestCase.settings = settings(max_examples=EXAMPLES, stateful_step_count=100)
TestMachine = Machine.TestCase
TestBareMachine = BareMachine.TestCase
TestOtherMachine = OtherMachine.TestCase
TestLosingMachine = LosingMachine.TestCase


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch):
    made = World(monkeypatch)
    yield made
    made.close()


@pytest.fixture
def bare_world(monkeypatch: pytest.MonkeyPatch):
    made = World(monkeypatch, BARE)
    yield made
    made.close()


@pytest.mark.parametrize(
    "how", [How(), pytest.param(BARE, marks=pytest.mark.long)], ids=["told", "bare"]
)
@pytest.mark.parametrize("who", PROCESSES)
def test_stopped_before_each_call(who: str, how: How) -> None:
    every = list(stops(who, 2))
    every = every[:: max(1, len(every) // (3 * EXAMPLES))]
    for stop in every:
        with pytest.MonkeyPatch.context() as patch:
            world = World(patch, how)
            try:
                run(world, stop)
                calm(world)
            except AssertionError as error:
                raise AssertionError(f"{stop}: {error}") from error
            finally:
                world.close()


@pytest.mark.parametrize("seed", range(max(2, EXAMPLES // 4)))
def test_claims_are_for_users_alone(
    world: World, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    no_claims(monkeypatch)
    play(world, moves_of(seed, 100))
    calm(world)


@pytest.mark.parametrize("seed", range(2 * EXAMPLES))
def test_a_folder_that_an_attacker_writes(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    world = Attacked(monkeypatch, seed)
    try:
        attack(world, attacks(seed))
    finally:
        world.close()


@pytest.mark.more
@pytest.mark.parametrize("way", WAYS)
def test_without_this_check_an_attacker_steers_requests(way: str) -> None:
    def goes_wrong() -> None:
        for seed in range(1_000):
            with pytest.MonkeyPatch.context() as patch:
                world = Attacked(patch, seed)
                WAYS[way](patch)
                try:
                    attack(world, attacks(seed))
                finally:
                    world.close()

    with pytest.raises(Broken, match=r"^elsewhere"):
        goes_wrong()


CHANGES = RULES | MUTANTS | OUTCOMES
BREAKS = r"^(lost|twice|other rows|.* told what is not so|main does not (go on|end))"


@pytest.mark.parametrize("name", CHANGES)
def test_each_rule_is_kept(world: World, name: str) -> None:
    CHANGES[name][0](Scene(world))
    calm(world)


@pytest.mark.parametrize("name", RULES | MUTANTS)
def test_each_rule_is_kept_with_the_calls_of_an_old_spark(bare_world: World, name: str) -> None:
    CHANGES[name][0](Scene(bare_world))
    calm(bare_world)


@pytest.mark.parametrize("name", CHANGES)
def test_without_this_rule_a_promise_breaks(
    world: World, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    scenario, take_away = CHANGES[name]
    take_away(monkeypatch)

    def goes_wrong() -> None:
        scenario(Scene(world))
        calm(world)

    lost = r"^(lost|twice|other rows)"
    with pytest.raises(Broken, match=BREAKS if name in OUTCOMES else lost):
        goes_wrong()


@pytest.mark.parametrize("name", BARE_RULES)
def test_each_rule_of_a_bare_spark_is_kept(bare_world: World, name: str) -> None:
    BARE_RULES[name][0](bare_world)
    calm(bare_world)


@pytest.mark.parametrize("name", BARE_RULES)
def test_without_this_rule_of_a_bare_spark_a_promise_breaks(
    bare_world: World, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    scenario, take_away = BARE_RULES[name]
    take_away(monkeypatch)

    def goes_wrong() -> None:
        scenario(bare_world)
        calm(bare_world)

    with pytest.raises(Broken, match=BREAKS):
        goes_wrong()
