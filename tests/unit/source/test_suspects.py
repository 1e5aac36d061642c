"""The rule by which suspects are delivered and moved, case by case."""

from __future__ import annotations

import pytest
from refs import ref

from spark_azqueue.errors import TooManyPoison
from spark_azqueue.options.parse import source_config
from spark_azqueue.service.messages import MessageKey
from spark_azqueue.source import suspects as module
from spark_azqueue.source.batches.poison import Suspects
from spark_azqueue.source.suspects import (
    LAST,
    REPEATS,
    Evidence,
    FailureHistory,
    IsolationRule,
    Odds,
    Verdict,
    failed,
    status,
    why,
)

RULE = IsolationRule(most_failures=5, most_moved=20)
ALONE = FailureHistory(failures=8, tries=3, counted=3, since=3, batch=9, size=1, proven=True)
UNPROVEN = ALONE._replace(tries=13, counted=1, failures=18, proven=False)
SET = FailureHistory(REPEATS, REPEATS, 1, 3, 3, 500)
STEADY = Evidence(committed=8, in_a_row=60, firsts=40, firsts_failed=1, delivered=5_000)
"""Sixty commits directly after commits: failures are no chance."""
FLAPPING = Evidence(8, recovered=50, in_a_row=50, firsts=100, firsts_failed=50, delivered=5_000)


EXECUTORS = {"leaseOn": "executors", "deleteAfter": "log", "writeAheadLog": "file:/log"}


def config(**options: str) -> IsolationRule | None:
    given = {"queue": "orders", "secret.connectionString": "AccountName=a;AccountKey=c2VjcmV0"}
    return IsolationRule.of(source_config(given | options, {}))


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"maxDequeueCount": "none"}, None),
        ({"deleteAfter": "log", "writeAheadLog": "file:/log"}, None),
        (EXECUTORS, None),
        (EXECUTORS | {"maxDequeueCount": "5"}, IsolationRule(5, 20, "a/orders")),
        ({"deleteOnCommit": "false"}, IsolationRule(5, 20, "a/orders")),
        ({}, IsolationRule(5, 20, "a/orders")),
        ({"writeAheadLog": "file:/log"}, None),
        ({"queue": "orders,later-*"}, IsolationRule(5, 20, "a/orders,later-*")),
        ({"maxDequeueCount": "9", "maxPoisonMessages": "7"}, IsolationRule(9, 7, "a/orders")),
    ],
)
def test_the_rule_of_these_options(options: dict[str, str], rule: IsolationRule | None) -> None:
    assert config(**options) == rule


@pytest.mark.parametrize("messages", [1, 40])
def test_an_outage_convicts_nobody_in_its_first_twelve_failures(messages: int) -> None:
    """A user who sets nothing restarts a query whose sink is down: each batch fails."""
    rule = config()
    suspects = Suspects(rule)
    keys = [MessageKey(ref("orders"), f"m{each}") for each in range(messages)]
    batch = keys
    for number in range(1, 13):
        suspects.batch_failed(number, batch)
        batch = [*keys[:1]] if number >= REPEATS else keys
        assert not any(map(suspects.is_poison, keys)), number
    suspects.batch_failed(13, batch)
    assert suspects.is_poison(keys[0]) == (messages == 1)


# ── chance ────────────────────────────────────────────────────────────────────────────────────────


def lone(counted: int, tries: int = 0) -> FailureHistory:
    return ALONE._replace(counted=counted, tries=max(counted, tries, 1))


def test_without_evidence_chance_is_as_likely_as_not() -> None:
    assert Odds.of(Evidence(), []).chance == 0.5
    assert Odds.of(STEADY, []).chance < 0.01
    assert 0.4 < Odds.of(FLAPPING, []).chance < 0.6


def test_what_fails_at_each_test_is_no_chance_and_what_failed_once_may_be() -> None:
    few = Evidence(5, in_a_row=5, firsts=12, firsts_failed=1)
    assert Odds.of(few, [lone(1)]).chance > Odds.of(few, []).chance
    assert Odds.of(few, [lone(9)]).chance < Odds.of(few, [lone(1)]).chance
    assert Odds.of(few, [lone(9)]).guilty > 0.9
    assert Odds.of(few, [lone(1)]).guilty < 0.2


def test_one_that_is_guilty_beside_chance_does_not_count_as_chance() -> None:
    odds = Odds.of(FLAPPING, [lone(40)])
    assert 0.4 < odds.chance < 0.6
    assert odds.guilty > 0.9


def test_if_each_decided_suspect_is_guilty_the_others_are() -> None:
    data = Evidence(9, in_a_row=30, firsts=90, firsts_failed=30, moved=12, delivered=70)
    assert Odds.of(data, [lone(1)] * 10).guilty > 17
    sink = Evidence(9, 0, 30, 30, 90, 60, moved=0, delivered=70)
    assert Odds.of(sink, [lone(1)] * 10).guilty < 2


@pytest.mark.parametrize(
    ("evidence", "patience"),
    [(STEADY, 1), (FLAPPING, 4), (Evidence(1, recovered=1), 1), (Evidence(1, recovered=90), 12)],
)
def test_the_more_is_chance_the_more_often_a_batch_is_tried(
    evidence: Evidence, patience: int
) -> None:
    assert Odds.of(evidence, []).patience == patience


# ── who shares a batch ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("tries", "failures", "size", "share"),
    [
        (1, 1, 1024, 1024),  # the first batch is tried again
        (REPEATS - 1, REPEATS - 1, 1024, 1024),
        (REPEATS, REPEATS, 1024, 64),
        (1, 5, 64, 4),  # a piece is not
        (1, 5, 33, 3),
        (1, 5, 32, 1),
        (1, 9, 2, 1),
        (1, 1, 1, 1),
    ],
)
def test_how_many_share_a_batch_with_a_suspect(
    tries: int, failures: int, size: int, share: int
) -> None:
    history = FailureHistory(failures, tries, 1, 1, 1, size)
    assert RULE.share(history, Odds.of(STEADY, [history])) == share


def test_a_batch_that_lone_suspects_are_compared_with_is_cut_at_its_first_failure() -> None:
    history = FailureHistory(1, 1, 1, 1, 1, 64)
    assert RULE.share(history, Odds.of(STEADY, [history, ALONE])) == 4


def test_others_are_kept_back_for_lone_suspects() -> None:
    nobody, odds = Odds.of(STEADY, []), Odds.of(STEADY, [lone(1)])
    assert RULE.most_beside(nobody, 100, is_all=True) == 100
    assert RULE.most_beside(odds, 100, is_all=False) == 50
    assert RULE.most_beside(odds, 100, is_all=True) == 100 // (odds.needed + 1)
    assert RULE.most_beside(odds, 1, is_all=True) == 1
    assert Odds.of(STEADY, [lone(1)] * 3).needed > odds.needed
    assert RULE.enough(odds) > odds.needed


def test_suspects_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a commit a lone suspect; else the newest piece, and lone ones last."""
    monkeypatch.setattr(module, "hashed", lambda *parts: 0)
    piece, deeper, single = SET, FailureHistory(5, 1, 0, 3, 5, 32), ALONE
    more = ALONE._replace(counted=4, tries=4)
    failing = module.replace(STEADY, has_failed=True)

    def order(evidence: Evidence) -> list[FailureHistory]:
        return sorted([single, more, piece, deeper], key=lambda each: RULE.turn(each, evidence))

    assert order(STEADY) == [more, single, deeper, piece]
    assert order(failing) == [deeper, piece, single, more], "the one that was tried least"
    assert RULE.turn(single, failing)[0] == LAST
    monkeypatch.setattr(module, "hashed", lambda *parts: 1)
    assert order(STEADY) == [deeper, piece, more, single]


def test_two_sources_of_a_query_do_not_test_after_the_same_commits() -> None:
    a, b = IsolationRule(5, 20, "a/orders"), IsolationRule(5, 20, "a/returns")
    seen = [
        tuple(each.tests_now(Evidence(number)) for each in (a, b)) for number in range(1, 1_000)
    ]
    for pair in ((True, True), (True, False), (False, True), (False, False)):
        assert 200 < seen.count(pair) < 300
    assert not any(a.tests_now(Evidence(number, has_failed=True)) for number in range(99))


# ── who is moved ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("history", "evidence", "verdict"),
    [
        (ALONE, STEADY, Verdict.POISON),
        (ALONE._replace(failures=5), STEADY, Verdict.AGAIN),
        (ALONE._replace(counted=1), STEADY, Verdict.AGAIN),
        (ALONE._replace(proven=False), STEADY, Verdict.AGAIN),
        (ALONE._replace(size=2), STEADY, Verdict.AGAIN),
        # Chance explains it: half of all batches fail.
        (ALONE, FLAPPING, Verdict.AGAIN),
        (ALONE._replace(failures=20, tries=12, counted=12), FLAPPING, Verdict.AGAIN),
        (ALONE._replace(failures=30, tries=25, counted=25), FLAPPING, Verdict.POISON),
        # Nearly all batches fail.
        (lone(99)._replace(failures=99), Evidence(8, recovered=99), Verdict.AGAIN),
        # At the end of a queue there are no others to compare with.
        (ALONE._replace(tries=5, counted=1), Evidence(4, has_failed=True), Verdict.AGAIN),
        (ALONE._replace(tries=6, counted=1), Evidence(4, has_failed=True), Verdict.POISON),
        # If nothing was committed since, one is moved, and then none.
        (UNPROVEN._replace(tries=12), Evidence(3, has_failed=True), Verdict.AGAIN),
        (UNPROVEN, Evidence(3, has_failed=True), Verdict.POISON),
        (UNPROVEN, Evidence(3, has_failed=True, is_unproven=True), Verdict.UNPROVEN),
        (UNPROVEN, Evidence(3, has_failed=True, recovered=9), Verdict.AGAIN),
        (UNPROVEN, Evidence(3), Verdict.AGAIN),
        # A second failure right after a commit makes later ones count.
        (ALONE._replace(counted=2, tries=2), Evidence(8, in_a_row=20), Verdict.AGAIN),
        (ALONE._replace(counted=2, tries=9), Evidence(8, in_a_row=20), Verdict.POISON),
        # Too many were moved.
        (ALONE, module.replace(STEADY, moved=20, delivered=180), Verdict.TOO_MANY),
        (ALONE, module.replace(STEADY, moved=20, delivered=300), Verdict.POISON),
        (ALONE, module.replace(STEADY, moved=19, delivered=19), Verdict.POISON),
    ],
)
def test_which_suspect_is_poison(
    history: FailureHistory, evidence: Evidence, verdict: Verdict
) -> None:
    assert RULE.verdict(history, evidence, Odds.of(evidence, [history])) is verdict


def test_too_many_end_the_query_with_the_reason() -> None:
    evidence = module.replace(STEADY, moved=20, delivered=180)
    odds = Odds.of(evidence, [ALONE])
    with pytest.raises(
        TooManyPoison, match=r"21 messages fail .* 180 were .* data or the code.*'maxPoison"
    ):
        RULE.is_poison(ALONE, evidence, odds)
    assert IsolationRule(5, most_moved=21).is_poison(ALONE, evidence, odds)


def test_suspects_that_are_guilty_count_before_they_are_moved() -> None:
    evidence = Evidence(9, in_a_row=30, firsts=90, firsts_failed=30, moved=9, delivered=70)
    open_ones = [lone(2)] * 14
    odds = Odds.of(evidence, open_ones)
    assert RULE.verdict(lone(1), evidence, odds) is Verdict.TOO_MANY
    assert RULE.verdict(lone(1), evidence, Odds.of(evidence, open_ones[:5])) is Verdict.AGAIN


def test_a_second_one_without_contrast_is_not_moved_and_the_status_says_why() -> None:
    evidence = Evidence(3, has_failed=True, is_unproven=True)
    odds = Odds.of(evidence, [UNPROVEN])
    assert not RULE.is_poison(UNPROVEN, evidence, odds)
    said = RULE.said_of(UNPROVEN, evidence, odds)
    assert said.endswith("no other was committed: it may be the sink, so it is not moved")


# ── what is remembered ────────────────────────────────────────────────────────────────────────────


def test_a_history_counts_failures_in_a_row() -> None:
    at_first, failing = Evidence(committed=6), Evidence(committed=6, has_failed=True)
    later = Evidence(committed=13)
    first = failed(None, at_first, 7, 500, times=4)
    assert first == FailureHistory(4, 4, 1, 7, 7, 500)
    second = failed(first, failing, 9, 32)
    assert second == FailureHistory(5, 1, 0, 7, 9, 32)
    alone = failed(failed(second, failing, 12, 1), later, 15, 1)
    assert alone == FailureHistory(7, 2, 1, 7, 15, 1, proven=True)
    assert alone.alone == 2
    assert failed(alone, later, 16, 2).alone == 0, "the newest are no longer those with it alone"
    assert not failed(alone, later, 16, 1, is_alone=False).is_lone, "Spark's batch had others"


@pytest.mark.parametrize(
    ("histories", "repeats", "recovered", "in_a_row"),
    [
        ([], 0, 0, 1),
        ([], 1, 1, 0),  # the batch itself failed directly after a commit
        ([lone(2)], 0, 2, 1),
        ([FailureHistory(3, 3, 1, 3, 3, 2)], 0, 1, 1),  # the same messages
        ([FailureHistory(3, 3, 1, 3, 3, 500)], 0, 0, 1),  # a piece of them
    ],
)
def test_what_is_committed_after_it_failed_shows_chance(
    histories: list[FailureHistory], repeats: int, recovered: int, in_a_row: int
) -> None:
    evidence = Evidence(committed=3, is_unproven=True, moved=1, delivered=10)
    seen = evidence.on_committed(9, 2, histories, repeats)
    assert seen == Evidence(9, recovered=recovered, in_a_row=in_a_row, moved=1, delivered=12)
    assert evidence.on_committed(9, 0, histories, repeats) == evidence, "no message, no evidence"


def test_only_what_comes_directly_after_a_commit_tells_of_chance() -> None:
    failing = Evidence(3).on_failed(2, None)
    assert failing == Evidence(3, has_failed=True)
    assert failing.on_committed(5, 2, []) == Evidence(5, delivered=2)
    assert failing.on_committed(5, 2, [], 3) == Evidence(5, delivered=2)


def test_first_tries_of_single_messages_are_counted() -> None:
    piece = FailureHistory(5, 1, 0, 3, 5, 13)
    seen = Evidence(3).on_failed(1, piece).on_failed(1, ALONE).on_failed(13, None)
    assert (seen.firsts, seen.firsts_failed) == (1, 1)
    seen = seen.on_committed(8, 1, [piece]).on_committed(9, 1, [ALONE]).on_committed(10, 1, [])
    assert (seen.firsts, seen.firsts_failed) == (3, 1)


def test_old_evidence_fades() -> None:
    evidence = Evidence(1, moved=40, delivered=9_999)
    assert evidence.on_committed(2, 1, [ALONE]).moved == 20
    evidence = Evidence(1, recovered=100, in_a_row=300, firsts=400, firsts_failed=90)
    seen = evidence.on_committed(2, 1, [])
    assert (seen.recovered, seen.in_a_row, seen.firsts, seen.firsts_failed) == (50, 150, 200, 45)


@pytest.mark.parametrize(
    ("evidence", "kept"),
    [
        (Evidence(5, in_a_row=9, delivered=7), Evidence()),
        (Evidence(5, recovered=1), Evidence(5, recovered=1)),
        (Evidence(5, is_unproven=True), Evidence(5, is_unproven=True)),
        (Evidence(5, moved=1, delivered=7), Evidence(5, moved=1, delivered=7)),
    ],
)
def test_what_a_later_process_needs(evidence: Evidence, kept: Evidence) -> None:
    assert evidence.kept(has_suspects=False) == kept
    assert evidence.kept(has_suspects=True) == evidence


def test_a_reader_of_the_dead_letter_sees_how_it_was_found() -> None:
    assert why(ALONE) == (
        "8 batches with it failed in a row, the last 3 with it alone (batch 9);"
        " 3 of them directly after another was committed"
    )
    assert why(UNPROVEN).endswith("no other was committed meanwhile, so it may be the sink")
    moved = Evidence(3, moved=1, delivered=5)
    assert moved.on_moved(UNPROVEN) == Evidence(3, is_unproven=True, moved=2, delivered=6)
    assert not moved.on_moved(ALONE).is_unproven


def test_the_line_of_a_restart_says_what_isolation_does() -> None:
    odds = Odds.of(STEADY, [SET])
    said = RULE.said_of(SET._replace(size=256, batch=7), STEADY, odds)
    assert (
        said == "batch 7 (256 messages) failed, its messages failed 4 times in a row: split into 16"
    )
    assert status(said, 255) == f"{said}; 255 suspects left"
    assert status("", 0) == ""
    assert RULE.said_of(SET._replace(tries=1, failures=1), STEADY, odds) == "", "nothing is cut"
    assert (
        RULE.said_of(ALONE, STEADY, odds)
        == "batch 9 (1 message) failed, its message failed 8 times in a row"
    )


def test_it_says_early_that_the_sink_fails() -> None:
    often = Evidence(8, recovered=80, in_a_row=20, firsts=99, firsts_failed=80)
    assert RULE.said_of(ALONE, often, Odds.of(often, [])).endswith(
        "; the sink fails 80% of all batches: a suspect needs many tests"
    )
    always = Evidence(8, recovered=99, firsts=99, firsts_failed=99)
    assert RULE.said_of(ALONE, always, Odds.of(always, [])).endswith(
        "; nearly all batches fail: no message is moved meanwhile"
    )
