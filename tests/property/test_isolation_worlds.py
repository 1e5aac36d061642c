"""The rule of isolation in worlds: who is moved, after how long, and that each rule is needed.

The figures are of the rule before, in the same worlds (ten seeds): the time where it moved no
innocent message, and how many guilty ones it found.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from isolation_worlds import WORLDS, Trial, TwoSources

from spark_azqueue.source import suspects
from spark_azqueue.source.batches import poison
from spark_azqueue.source.suspects import IsolationRule, Odds

BEFORE = {
    "blink 10 s, 0": 31,
    "down 60 s, 0": 97,
    "tail down 10 min, 2": 877,
    "1 of 1,000": 102,
    "20 of 500": 804,
    "6 of 2,000": 653,
    "3 pairs of 1,000": 48,
    "down 10 min, 0": 784,
    "down 1 h, 0": 4066,
    "down 10 min, 3": 1032,
    "60 s up, 20 down x20, 4": 646,
    "flap 20%, 0": 113,
}
"""Seconds in which the rule before was done, where it moved no innocent message."""

TOO_MANY = "33 % of 300"
OFTEN_FAILING = ("flap 80%, 0", "flap 80%, 1")
LONG = {*(name for name in WORLDS if name.startswith("flap ")), "down 1 h, 0"} | {
    "20 s up, 60 down x20, 2"
}


def in_each_world() -> list[object]:
    """Each world with and without a log: a seed each, and ten of each marked `long`."""
    cases = []
    for name in WORLDS:
        if name in OFTEN_FAILING:
            continue
        if name not in LONG:
            cases.append(pytest.param(name, True, 1, id=name))
        for has_log, log in ((True, "log"), (False, "no log")):
            for seeds, mark in ((1, pytest.mark.more), (10, pytest.mark.long)):
                what = f"{name}, {log}, {seeds}"
                cases.append(pytest.param(name, has_log, seeds, id=what, marks=mark))
    return cases


@pytest.mark.parametrize(("name", "has_log", "seeds"), in_each_world())
def test_no_innocent_is_moved_and_the_guilty_are_found(
    name: str, has_log: bool, seeds: int
) -> None:
    seen = [Trial(WORLDS[name], seed, has_log).run() for seed in range(seeds)]

    assert sum(each.innocents for each in seen) == 0
    if name == TOO_MANY:
        assert all("it is the data or the code" in each.ended for each in seen)
        assert all(each.seconds < 3_048 for each in seen)
        return
    assert all(each.ended == "" and each.left == 0 for each in seen)
    assert all({*each.moved} == each.guilty for each in seen)
    if name in BEFORE and seeds >= 10:
        assert sum(each.seconds for each in seen) / seeds <= 1.25 * BEFORE[name]
    if name == "20 of 500" and seeds >= 10:
        waited = sum(each.waited for each in seen)
        assert waited <= 0.15 * sum(each.seconds for each in seen)


@pytest.mark.long
@pytest.mark.parametrize("name", OFTEN_FAILING)
def test_a_sink_that_fails_four_batches_of_five_convicts_very_few(name: str) -> None:
    """The rule before moved 307 and 114 innocent ones, and found 0.4 of 1."""
    seen = [Trial(WORLDS[name], seed, most_batches=4_000).run() for seed in range(4)]
    assert sum(each.innocents for each in seen) <= 1


@pytest.mark.parametrize("name", ["flap 50%, 0", "20 of 500"])
def test_a_small_maximum_convicts_no_more(name: str) -> None:
    seen = Trial(WORLDS[name], 0, most_failures=1).run()
    assert {*seen.moved} == seen.guilty
    assert seen.left == 0


def test_a_good_message_of_one_source_rarely_falls_for_a_bad_one_of_another() -> None:
    """The rule before moved one each time."""
    seen = [TwoSources(300, 300, seed).run() for seed in range(20)]
    assert all(each.found for each in seen)
    assert sum(each.innocents for each in seen) <= 2


# ── each rule is needed ───────────────────────────────────────────────────────────────────────────


def chance_is_not_seen(patch: pytest.MonkeyPatch) -> None:
    real = Odds.of.__func__  # type: ignore[attr-defined]
    patch.setattr(
        Odds,
        "of",
        classmethod(
            lambda cls, evidence, histories: suspects.replace(
                real(cls, evidence, histories), chance=0.01, patience=1
            )
        ),
    )


def nothing_is_kept_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(IsolationRule, "most_beside", lambda self, odds, left, is_all: left)


def groups_are_cut_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(suspects, "_patience", lambda chance: 1)


def both_sources_do_the_same(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(suspects, "hashed", lambda *parts: 0)


def no_brake(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(IsolationRule, "are_too_many", lambda *given: False)


def histories_end_with_the_process(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(poison.Suspects, "restore", lambda self, findings: None)


def a_first_batch_is_not_repeated(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(suspects, "REPEATS", 1)


def trial(name: str, seed: int = 0, most_batches: int = 1_500) -> Trial:
    return Trial(WORLDS[name], seed, most_batches=most_batches).run()


def innocents_in_flapping() -> bool:
    return sum(trial("flap 50%, 0", seed).innocents for seed in range(2)) == 0


def quick_at_the_end() -> bool:
    return trial("3 of 30", 1).seconds < 200


def quick_beside_chance() -> bool:
    return trial("flap 60%, 0", 1, 2_500).left == 0 and trial("flap 60%, 0", 1).restarts < 900


def two_sources() -> bool:
    return sum(TwoSources(300, 300, seed).run().innocents for seed in range(6)) <= 2


def ends() -> bool:
    return trial(TOO_MANY).seconds < 3_048


def found() -> bool:
    return trial("1 of 1,000", most_batches=300).left == 0


def no_split_in_a_blink() -> bool:
    return trial("blink 10 s, 0").batches < 25


RULES: dict[str, tuple[Callable[[], bool], Callable[[pytest.MonkeyPatch], None]]] = {
    "chance explains failures": (innocents_in_flapping, chance_is_not_seen),
    "others are kept back": (quick_at_the_end, nothing_is_kept_back),
    "patience": (quick_beside_chance, groups_are_cut_at_once),
    "two sources differ": (two_sources, both_sources_do_the_same),
    "a brake": (ends, no_brake),
    "histories outlive a process": (found, histories_end_with_the_process),
    "the first batch is repeated": (no_split_in_a_blink, a_first_batch_is_not_repeated),
}
"""What holds with the rule and not without it, and what takes it away."""

SLOW = {"chance explains failures", "patience"}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.long] if name in SLOW else []) for name in RULES],
)
def test_each_rule_is_needed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    holds, take_away = RULES[name]
    assert holds()
    take_away(monkeypatch)
    assert not holds()
