"""Which of the leased messages are suspects, and who shares a batch with whom."""

from __future__ import annotations

import pytest
from refs import ORDERS, ref

from spark_azqueue.service.messages import Message, MessageKey
from spark_azqueue.source import suspects as rules
from spark_azqueue.source.batches import poison
from spark_azqueue.source.batches.poison import Suspects
from spark_azqueue.source.findings import Findings
from spark_azqueue.source.suspects import REPEATS, Evidence, FailureHistory, IsolationRule

RULE = IsolationRule(most_failures=2, most_moved=100)


@pytest.fixture(autouse=True)
def _a_test_follows_each_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "hashed", lambda *parts: 0)


def message(name: str) -> Message:
    return Message(ORDERS, name, name, 0, 0, 1)


def key(name: str) -> MessageKey:
    return MessageKey(ORDERS, name)


def keys(count: int, first: int = 0) -> list[MessageKey]:
    return [key(str(n)) for n in range(first, first + count)]


def after_failures(count: int, times: int = REPEATS) -> Suspects:
    """A batch of so many failed so often."""
    suspects = Suspects(RULE)
    suspects.batch_failed(1, keys(count), times=times)
    return suspects


def names(messages: list[Message]) -> list[str]:
    return [each.message_id for each in messages]


def waiting(count: int) -> list[Message]:
    return [message(str(n)) for n in range(count)]


def test_without_a_failure_there_are_no_suspects() -> None:
    suspects = Suspects(RULE)
    assert suspects.choose(waiting(2), 64) == waiting(2)
    assert suspects.choose(waiting(9), 4) == waiting(4)
    assert suspects.room(waiting(2), 64) == 62
    assert not suspects.isolating
    assert not suspects.findings


def test_without_the_option_nothing_is_noted() -> None:
    suspects = Suspects(None)
    suspects.batch_failed(1, keys(3), times=9)
    suspects.batch_committed(2, keys(3))
    suspects.restore(Findings({key("0"): FailureHistory(1, 1, 0, 1, 1, 1)}))
    assert not suspects.isolating
    assert not suspects.is_poison(key("0"))


def test_suspects_share_a_batch_with_each_other_and_new_messages_wait() -> None:
    suspects = after_failures(64)
    there = [message("new"), *waiting(64)]
    assert names(suspects.choose(there, 100)) == ["0", "1", "2", "3"]
    assert names(suspects.choose([message("new")], 100)) == ["new"]
    again = after_failures(64, times=REPEATS - 1)
    assert again.choose(there, 100) == there[1:], "the same batch again"
    assert again.status == "", "nothing is isolated yet"


def test_no_more_is_dequeued_than_the_batch_needs() -> None:
    suspects = after_failures(64)
    assert suspects.room([], 100) == 100
    assert suspects.room(waiting(1), 100) == 3
    assert suspects.room(waiting(4), 100) == 0
    assert suspects.room([message(f"new {n}") for n in range(100)], 100) == 0


def test_the_suspect_that_is_due_first_is_looked_for() -> None:
    suspects = after_failures(64)
    suspects.batch_failed(2, keys(1))
    suspects.batch_committed(3, [key("new")])
    assert suspects.room(waiting(64)[4:8], 100) == 96, "the lone suspect is due, and not there"
    assert names(suspects.choose(waiting(9), 100)) == ["0"]


def test_one_that_failed_alone_lets_others_go_before_it() -> None:
    suspects = after_failures(2)
    suspects.batch_failed(2, [key("0")])
    assert names(suspects.choose([message("0"), message("1"), message("new")], 9)) == ["1"]
    suspects.batch_failed(3, [key("1")])
    assert names(suspects.choose([message("0"), message("1"), message("new")], 9)) == ["new"]
    assert names(suspects.choose([message("0"), message("1")], 9)) == ["0"]
    assert suspects.room([message("0")], 9) == 8, "another message may come"
    suspects.batch_committed(4, [key("new")])
    assert names(suspects.choose([message("new 2"), message("0")], 9)) == ["0"]


def test_it_is_moved_by_contrast() -> None:
    suspects = Suspects(RULE)
    suspects.restore(Findings({}, Evidence(1, in_a_row=99)))
    suspects.batch_failed(2, keys(2), times=REPEATS)
    for number in (3, 4):
        suspects.batch_failed(number, [key("0")])
    suspects.batch_committed(5, [key("1")])
    suspects.batch_failed(6, [key("0")])
    assert not suspects.is_poison(key("0")), "it failed once directly after a commit"
    suspects.batch_committed(7, [key("2")])
    assert suspects.batch_failed(8, [key("0")]) is None
    suspects.batch_committed(9, [key("3")])
    suspects.batch_failed(10, [key("0")])
    assert suspects.is_poison(key("0"))
    assert not suspects.is_poison(key("1"))
    assert suspects.why(key("0")).startswith("9 batches with it failed in a row")
    suspects.moved(key("0"))
    assert not suspects.isolating
    evidence = suspects.findings.evidence
    assert (evidence.committed, evidence.moved, evidence.delivered) == (9, 1, 4)
    assert not evidence.is_unproven


def test_others_are_kept_back_for_lone_suspects_at_the_end_of_a_queue() -> None:
    suspects = after_failures(2)
    suspects.batch_failed(2, keys(1))
    new = [message(f"new {n}") for n in range(40)]
    few = suspects.choose([*waiting(1), *new], 100)
    assert few == new[: len(few)]
    assert 1 <= len(few) <= 40 // (suspects.odds.needed + 1)
    more = [message(f"more {n}") for n in range(99)]
    assert len(suspects.choose([*waiting(1), *more], 100)) == 49, "the queue has more"
    assert suspects.are_compared(few)
    assert suspects.is_cut(1, is_compared=True)
    assert not after_failures(2).are_compared(few), "no suspect failed alone"


def test_when_few_are_left_a_lone_suspect_is_tested_after_each_commit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rules, "hashed", lambda *parts: 1)
    suspects = after_failures(2)
    suspects.batch_failed(2, keys(1))
    suspects.batch_committed(3, [key("1")])
    few, many = ([message(f"new {n}") for n in range(count)] for count in (2, 40))
    assert names(suspects.choose([*few, *waiting(1)], 100)) == ["0"]
    assert names(suspects.choose([*many, *waiting(1)], 100))[0] == "new 0"


def test_the_first_batch_is_repeated_and_later_ones_are_cut_sooner() -> None:
    suspects = Suspects(RULE)
    assert not suspects.is_cut(REPEATS - 1, is_compared=False)
    assert suspects.is_cut(REPEATS, is_compared=False)
    assert after_failures(2).is_cut(1, is_compared=False), "isolation is under way"


def test_a_commit_ends_the_suspicion() -> None:
    suspects = after_failures(3)
    suspects.batch_committed(2, keys(2))
    assert suspects.findings.histories == {key("2"): FailureHistory(REPEATS, REPEATS, 1, 1, 1, 3)}
    suspects.batch_committed(3, keys(3))
    assert not suspects.isolating


def test_an_id_is_of_its_queue() -> None:
    suspects = after_failures(1, times=9)
    other = MessageKey(ref("returns"), "0")
    assert not suspects.is_poison(other)
    suspects.batch_committed(2, [other])
    assert suspects.isolating


def test_it_resumes_from_what_an_earlier_process_has_found() -> None:
    before = after_failures(64)
    after = Suspects(RULE)
    after.restore(before.findings)
    assert after.choose(waiting(64), 100) == before.choose(waiting(64), 100)
    assert after.count == 64


def test_the_histories_are_bounded_and_the_most_suspected_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(poison, "HISTORIES_AT_MOST", 10)
    suspects = after_failures(4)
    suspects.batch_failed(2, keys(20, first=100), times=1)
    assert suspects.count == 10
    assert {*keys(4)} <= {*suspects.findings.histories}


def test_a_suspect_that_never_comes_back_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(poison, "_FORGOTTEN_AFTER", 10)
    suspects = after_failures(2)
    suspects.batch_committed(11, [key("new")])
    assert suspects.count == 2
    suspects.batch_committed(12, [key("new")])
    assert suspects.count == 0


def test_the_status_says_what_was_done_and_what_is_left() -> None:
    suspects = after_failures(64)
    assert "(64 messages)" in suspects.status
    assert suspects.status.endswith("split into 16; 64 suspects left")
    suspects.batch_committed(2, keys(60))
    assert suspects.status.endswith("; 4 suspects left")
    suspects.batch_committed(3, keys(64))
    assert suspects.status == ""


def test_of_a_batch_whose_end_is_unknown_nothing_is_concluded() -> None:
    suspects = after_failures(3)
    suspects.forget(keys(2))
    assert [*suspects.findings.histories] == [key("2")]
    assert suspects.findings.evidence.committed == 0
