"""The rule of isolation over whole searches: how few restarts, and that chance convicts no message.

Each rule is taken away once, and then something is moved that should not be, or nothing ends.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from budget import some
from convicting import Convicting

from spark_azqueue.service.messages import MessageKey
from spark_azqueue.source import suspects
from spark_azqueue.source.batches import poison
from spark_azqueue.source.suspects import Evidence, FailureHistory, IsolationRule

Fails = Callable[[list[int], int], bool]

WITH_LOG = IsolationRule(most_failures=5, isolate_after=6, most_moved=100)
SOON = IsolationRule(most_failures=5, isolate_after=2, most_moved=100)


def guilty(count: int, of: int, seed: int) -> set[int]:
    return set(random.Random(seed).sample(range(of), count))


def with_them(bad: set[int]) -> Fails:
    return lambda ids, _: not bad.isdisjoint(ids)


def by_chance(share: float, seed: int, bad: set[int] = frozenset()) -> Fails:  # type: ignore[assignment]
    chance = random.Random(seed)
    return lambda ids, _: chance.random() < share or not bad.isdisjoint(ids)


def down(first: int, last: int, part: set[int] | None = None) -> Fails:
    return lambda ids, at: first <= at < last and (part is None or not part.isdisjoint(ids))


# ── how few restarts ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("messages", "count", "in_a_batch", "rule", "has_log", "restarts"),
    [
        (1024, 1, 1024, WITH_LOG, True, 10),
        (1024, 1, 1024, SOON, True, 7),
        (1024, 1, 1024, SOON, False, 7),
        (256, 1, 256, SOON, True, 6),
        (500, 20, 500, WITH_LOG, True, 62),
        (500, 20, 200, WITH_LOG, True, 80),
        (500, 20, 200, SOON, True, 88),
        (500, 20, 200, SOON, False, 88),
        (2000, 6, 2000, WITH_LOG, True, 32),
        (2000, 6, 2000, SOON, True, 34),
        (2000, 6, 2000, SOON, False, 34),
    ],
)
def test_the_guilty_are_found_and_no_other(
    messages: int, count: int, in_a_batch: int, rule: IsolationRule, has_log: bool, restarts: int
) -> None:
    for seed in some(range(3)):
        bad = guilty(count, messages, seed)
        seen = Convicting(messages, in_a_batch, with_them(bad), rule, has_log, seed=seed).run()
        assert sorted(seen.moved) == sorted(bad)
        assert seen.committed == set(range(messages)) - bad
        assert seen.restarts <= restarts


# ── who is moved by chance ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("rule", [WITH_LOG, SOON], ids=["with a log", "soon"])
@pytest.mark.parametrize("in_a_batch", [256, 1024, 4096])
def test_batches_that_fail_at_random_convict_one_of_ten_thousand_at_most(
    rule: IsolationRule, in_a_batch: int
) -> None:
    for seed in some(range(4)):
        seen = Convicting(10_000, in_a_batch, by_chance(0.3, seed), rule, seed=seed).run()
        assert len(seen.moved) <= 1
        assert len(seen.committed) >= 9_999


@pytest.mark.parametrize("rule", [WITH_LOG, SOON], ids=["with a log", "soon"])
@pytest.mark.parametrize(("messages", "first"), [(600, 4), (600, 0), (40, 0), (3, 0)])
def test_a_sink_that_is_down_convicts_one_message_at_most(
    rule: IsolationRule, messages: int, first: int
) -> None:
    seen = Convicting(messages, 256, down(first, first + 1_000), rule).run()
    assert len(seen.moved) <= 1
    assert seen.committed | {*seen.moved} == set(range(messages))


def test_a_queue_with_nothing_but_a_poison_message_does_not_stand_for_ever() -> None:
    seen = Convicting(1, 256, with_them({0}), SOON, most_batches=100).run()
    assert seen.moved == [0]
    two = Convicting(2, 256, with_them({0, 1}), SOON, most_batches=100).run()
    assert len(two.moved) == 1, "the second may be the sink"


def test_one_target_of_two_is_down_and_the_brake_stops_the_query() -> None:
    rule = IsolationRule(most_failures=5, isolate_after=2, most_moved=10)
    half = set(range(0, 2_000, 2))
    fails = down(0, 10_000, half)
    seen = Convicting(2_000, 256, fails, rule, most_batches=9_000).run()
    assert seen.braked
    assert len(seen.moved) < 2_000 // 5


def test_guilty_ones_beside_chance_are_found() -> None:
    for seed in some(range(2)):
        bad = guilty(3, 500, seed)
        seen = Convicting(500, 500, by_chance(0.3, seed, bad), SOON, seed=seed).run()
        assert bad <= {*seen.moved}
        assert len(seen.moved) <= len(bad) + 3


# ── each rule is needed ───────────────────────────────────────────────────────────────────────────


def no_contrast(patch: pytest.MonkeyPatch) -> None:
    real = IsolationRule.verdict
    patch.setattr(
        IsolationRule,
        "verdict",
        lambda self, history, evidence: real(self, history._replace(proven=True), evidence),
    )


def contrast_may_come_later(patch: pytest.MonkeyPatch) -> None:
    """A commit behind the newest failure counts, too."""

    def is_poison(self: poison.Suspects, key: MessageKey) -> bool:
        history, evidence = self.findings.histories.get(key), self.findings.evidence
        if history is None:
            return False
        history = history._replace(proven=evidence.committed > history.since)
        return SOON.verdict(history, evidence) is suspects.Verdict.POISON

    patch.setattr(poison.Suspects, "is_poison", is_poison)


def chance_is_not_seen(patch: pytest.MonkeyPatch) -> None:
    real = Evidence.on_committed

    def on_committed(self: Evidence, *given: object) -> Evidence:
        seen = real(self, *given)  # type: ignore[arg-type]
        return suspects.replace(seen, by_chance=False)

    patch.setattr(Evidence, "on_committed", on_committed)


def once_alone_is_enough(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(suspects, "_TRIES_ALONE", 0)
    patch.setattr(IsolationRule, "verdict", _by_failures_alone)


def _by_failures_alone(
    self: IsolationRule, history: FailureHistory, evidence: Evidence
) -> suspects.Verdict:
    is_due = history.failures > self.most_failures and history.proven
    return suspects.Verdict.POISON if is_due else suspects.Verdict.AGAIN


def a_second_without_contrast(patch: pytest.MonkeyPatch) -> None:
    real = Evidence.on_moved
    patch.setattr(
        Evidence,
        "on_moved",
        lambda self, history: suspects.replace(real(self, history), is_unproven=False),
    )


def no_brake(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(suspects, "_PART_MOVED", 0)


def histories_end_with_the_process(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(poison.Suspects, "restore", lambda self, findings: None)


def no_turns(patch: pytest.MonkeyPatch) -> None:
    """A message that failed alone is tried until it is moved."""
    patch.setattr(poison, "turn", lambda history, evidence: (0, -history.failures, history.batch))


def sink_down() -> bool:
    seen = Convicting(20, 256, down(0, 1_500), SOON, most_batches=4_000).run()
    return len(seen.moved) <= 1


def chance() -> bool:
    moved = 0
    for seed in range(3):
        bad = guilty(3, 1_000, seed)
        fails = by_chance(0.3, seed, bad)
        moved += len({*Convicting(1_000, 1_000, fails, SOON, seed=seed).run().moved} - bad)
    return moved <= 3


def half_is_down() -> bool:
    rule = IsolationRule(most_failures=5, isolate_after=2, most_moved=10)
    fails = down(0, 10_000, set(range(0, 1_000, 2)))
    return len(Convicting(1_000, 256, fails, rule, most_batches=9_000).run().moved) < 200


def found() -> bool:
    seen = Convicting(64, 64, with_them({7}), SOON, most_batches=500).run()
    return seen.moved == [7] and seen.restarts < 20


def quick() -> bool:
    bad = guilty(20, 500, 1)
    return Convicting(500, 500, with_them(bad), WITH_LOG, seed=1).run().waits <= 15


RULES: dict[str, tuple[Callable[[], bool], Callable[[pytest.MonkeyPatch], None]]] = {
    "another batch was committed since": (sink_down, no_contrast),
    "and before the newest failure": (sink_down, contrast_may_come_later),
    "chance doubles what is needed": (chance, chance_is_not_seen),
    "the last ones had it alone": (chance, once_alone_is_enough),
    "one message in all without contrast": (sink_down, a_second_without_contrast),
    "a brake": (half_is_down, no_brake),
    "histories outlive a process": (found, histories_end_with_the_process),
    "who failed lets another go before": (quick, no_turns),
}
"""What holds with the rule and not without it, and what takes it away."""


@pytest.mark.parametrize("name", RULES)
def test_each_rule_is_needed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    holds, take_away = RULES[name]
    assert holds()
    take_away(monkeypatch)
    assert not holds()
