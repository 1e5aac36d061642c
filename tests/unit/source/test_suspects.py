"""The rule by which suspects are delivered and moved, case by case."""

from __future__ import annotations

import pytest

from spark_azqueue.errors import TooManyPoison
from spark_azqueue.options.parse import source_config
from spark_azqueue.source.suspects import (
    LAST,
    Evidence,
    FailureHistory,
    IsolationRule,
    Verdict,
    failed,
    status,
    turn,
    why,
)

RULE = IsolationRule(most_failures=5, isolate_after=2, most_moved=100)
LATE = IsolationRule(most_failures=5, isolate_after=6, most_moved=100)
ALONE = FailureHistory(failures=6, alone=2, since=3, batch=9, size=1, proven=True)
UNPROVEN = ALONE._replace(proven=False)
COMMITTED = Evidence(committed=4, delivered=5_000)


def config(**options: str) -> IsolationRule | None:
    given = {"queue": "orders", "secret.connectionString": "AccountName=a;AccountKey=c2VjcmV0"}
    return IsolationRule.of(source_config(given | options, {}))


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({}, None),
        ({"maxDequeueCount": "5"}, IsolationRule(5, 2, 100)),
        ({"maxDequeueCount": "5", "writeAheadLog": "file:/log"}, IsolationRule(5, 6, 100)),
        (
            {"maxDequeueCount": "5", "writeAheadLog": "file:/log", "isolateAfter": "2"},
            IsolationRule(5, 2, 100),
        ),
        ({"maxDequeueCount": "9", "maxPoisonMessages": "7"}, IsolationRule(9, 2, 7)),
    ],
)
def test_the_rule_of_these_options(options: dict[str, str], rule: IsolationRule | None) -> None:
    assert config(**options) == rule


@pytest.mark.parametrize(
    ("failures", "size", "share"),
    [
        (1, 1024, 1024),  # the same batch once more
        (2, 1024, 64),
        (3, 64, 4),
        (3, 33, 3),
        (3, 32, 1),
        (9, 2, 1),
        (2, 1, 1),
    ],
)
def test_how_many_share_a_batch_with_a_suspect(failures: int, size: int, share: int) -> None:
    assert RULE.share(FailureHistory(failures, 0, 1, 1, size)) == share


@pytest.mark.parametrize(
    ("history", "evidence", "verdict"),
    [
        (ALONE, COMMITTED, Verdict.POISON),
        (ALONE._replace(failures=5), COMMITTED, Verdict.AGAIN),
        (ALONE._replace(alone=1), COMMITTED, Verdict.AGAIN),
        # Failures are partly chance: twice as many of both.
        (ALONE, Evidence(4, by_chance=True), Verdict.AGAIN),
        (ALONE._replace(failures=11, alone=3), Evidence(4, by_chance=True), Verdict.AGAIN),
        (ALONE._replace(failures=10, alone=4), Evidence(4, by_chance=True), Verdict.AGAIN),
        (ALONE._replace(failures=11, alone=4), Evidence(4, by_chance=True), Verdict.POISON),
        # Nothing was committed since: so for the first one, too.
        (UNPROVEN, COMMITTED, Verdict.AGAIN),
        (UNPROVEN._replace(failures=11, alone=4), Evidence(3), Verdict.POISON),
        (UNPROVEN._replace(failures=99, alone=99), Evidence(3, is_unproven=True), Verdict.UNPROVEN),
        (ALONE, Evidence(4, is_unproven=True, delivered=9), Verdict.POISON),
        # Too many were moved.
        (ALONE, Evidence(4, moved=100, delivered=900), Verdict.TOO_MANY),
        (ALONE, Evidence(4, moved=100, delivered=1_100), Verdict.POISON),
        (ALONE, Evidence(4, moved=99, delivered=99), Verdict.POISON),
    ],
)
def test_which_suspect_is_poison(
    history: FailureHistory, evidence: Evidence, verdict: Verdict
) -> None:
    assert LATE.verdict(history, evidence) is verdict


def test_who_was_isolated_sooner_must_fail_alone_once_more() -> None:
    assert RULE.verdict(ALONE, COMMITTED) is Verdict.AGAIN
    assert RULE.verdict(ALONE._replace(alone=3), COMMITTED) is Verdict.POISON


def test_too_many_end_the_query_with_the_reason() -> None:
    evidence = Evidence(4, moved=100, delivered=900)
    with pytest.raises(TooManyPoison, match=r"100 of 900 delivered ones .* 'maxPoisonMessages'"):
        LATE.is_poison(ALONE, evidence)
    assert IsolationRule(5, 6, most_moved=101).is_poison(ALONE, evidence)


def test_a_second_one_without_contrast_is_not_moved_and_the_status_says_why() -> None:
    history, evidence = UNPROVEN._replace(failures=99, alone=99), Evidence(3, is_unproven=True)
    assert not RULE.is_poison(history, evidence)
    said = RULE.said_of(history, evidence)
    assert said.endswith("no other was committed: it may be the sink, so it is not moved")


def test_a_history_counts_failures_in_a_row() -> None:
    none, later = Evidence(committed=6), Evidence(committed=13)
    first = failed(None, none, 7, 500, times=6)
    assert first == FailureHistory(6, 0, 7, 7, 500)
    second = failed(first, none, 9, 32)
    assert second == FailureHistory(7, 0, 7, 9, 32)
    alone = failed(failed(second, none, 12, 1), later, 15, 1)
    assert alone == FailureHistory(9, 2, 7, 15, 1, proven=True)
    assert failed(alone, later, 16, 2).alone == 0, "the newest are no longer those with it alone"
    assert failed(alone, later, 16, 1, is_alone=False).alone == 0, "Spark's batch had others"


def test_suspects_take_turns() -> None:
    """After a commit the one that failed most; else the one that failed least, alone ones last."""
    piece, deeper, single = FailureHistory(6, 0, 3, 3, 500), FailureHistory(7, 0, 3, 5, 32), ALONE
    before, after = Evidence(committed=2), Evidence(committed=10)
    assert sorted([single, deeper, piece], key=lambda each: turn(each, before)) == [
        *(piece, deeper, single)
    ]
    assert turn(single, before)[0] == LAST
    assert min([single, deeper, piece], key=lambda each: turn(each, after)) == deeper
    assert turn(single, after)[0] == 0


@pytest.mark.parametrize(
    ("histories", "repeats", "by_chance"),
    [
        ([], 0, False),
        ([], 1, False),  # a restart is no failure of the batch
        ([], 2, True),
        ([ALONE], 0, True),
        ([FailureHistory(1, 0, 3, 3, 2)], 0, False),
        ([FailureHistory(2, 0, 3, 3, 2)], 0, True),  # the whole batch, that had failed twice
        ([FailureHistory(6, 0, 3, 3, 500)], 0, False),  # a piece of it
    ],
)
def test_what_is_committed_after_it_failed_shows_that_failures_are_chance(
    histories: list[FailureHistory], repeats: int, by_chance: bool
) -> None:
    evidence = Evidence(committed=3, is_unproven=True, moved=1, delivered=10)
    seen = evidence.on_committed(9, 2, histories, repeats)
    assert seen == Evidence(9, by_chance, False, 1, 12)
    assert evidence.on_committed(9, 0, histories, repeats) == evidence, "no message, no evidence"


def test_old_evidence_fades() -> None:
    evidence = Evidence(1, by_chance=True, moved=40, delivered=9_999)
    assert evidence.on_committed(2, 1, []) == Evidence(2, False, False, 20, 5_000)
    assert evidence.on_committed(2, 1, [ALONE]).by_chance


@pytest.mark.parametrize(
    ("evidence", "kept"),
    [
        (Evidence(5, delivered=7), Evidence()),
        (Evidence(5, by_chance=True), Evidence(5, by_chance=True)),
        (Evidence(5, is_unproven=True), Evidence(5, is_unproven=True)),
        (Evidence(5, moved=1, delivered=7), Evidence(5, moved=1, delivered=7)),
    ],
)
def test_what_a_later_process_needs(evidence: Evidence, kept: Evidence) -> None:
    assert evidence.kept(has_suspects=False) == kept
    assert evidence.kept(has_suspects=True) == evidence


def test_a_reader_of_the_dead_letter_sees_how_it_was_found() -> None:
    assert why(ALONE) == (
        "6 batches with it failed in a row, the last 2 with it alone (batch 9);"
        " others were committed meanwhile"
    )
    assert why(UNPROVEN).endswith("no other was committed meanwhile, so it may be the sink")
    moved = Evidence(3, moved=1, delivered=5).on_moved(UNPROVEN)
    assert moved == Evidence(3, is_unproven=True, moved=2, delivered=6)


def test_the_line_of_a_restart_says_what_isolation_does() -> None:
    said = RULE.said_of(FailureHistory(6, 0, 7, 7, 256), Evidence())
    assert (
        said == "batch 7 (256 messages) failed, its messages failed 6 times in a row: split into 16"
    )
    assert status(said, 255) == f"{said}; 255 suspects left"
    assert status("", 0) == ""
    assert "split" not in RULE.said_of(FailureHistory(1, 0, 7, 7, 256), Evidence())
    assert (
        RULE.said_of(ALONE, COMMITTED)
        == "batch 9 (1 message) failed, its message failed 6 times in a row"
    )
