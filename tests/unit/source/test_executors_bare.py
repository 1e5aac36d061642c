"""leaseOn=executors with the calls of Spark 4.0 and 4.1, which `tests/smoke/test_calls.py` holds.

LO: a bare `latestOffset()`; P: `partitions`; C: `commit`; i: the initial offset.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from door import Door
from executors_query import Offset, Query, fill

from spark_azqueue.errors import CheckpointMismatch, InvalidOption
from spark_azqueue.options.choices import LogStart
from spark_azqueue.source.executors import names
from spark_azqueue.testing import FakeQueueService
from spark_azqueue.testing.faults import Fault

WRAPPER = r"triggerAvailableNowWrapper\.enabled"


def door(query: Query) -> Door:
    return Door(query.driver().consumer)


def batch(query: Query, driver: Door, start: Offset, end: Offset) -> list[str]:
    """W; C; P(start, end), and its tasks."""
    driver.committed(start)
    plan = query.plan(end)
    assert len(driver.plan(start, end)) == len(plan.slots)
    return query.rows(plan)


def run(query: Query, batches: int = 1) -> tuple[Door, list[Offset]]:
    """A query with a new checkpoint after so many batches of four messages, and its offsets."""
    driver = door(query)
    offsets = [driver.initial]
    for number in range(batches):
        sent = fill(query, 4, f"b{number}m")
        offsets.append(driver.latest(None, None))
        assert batch(query, driver, offsets[-2], offsets[-1]) == sent
    return driver, offsets


def new(driver: Door, before: Offset) -> Offset:
    """Ask until there is something new: a queue that was empty rests for a moment."""
    for _ in range(1_000):  # each call waits for a part of that rest
        if (found := driver.latest(None, None)) != before:
            return found
    raise AssertionError("nothing new comes")


def test_a_new_checkpoint_and_idle_calls(query: Query) -> None:
    """Rows 1 and 3: LO=a; P(i,a); LO=a … LO=b; C(a); P(a,b)."""
    driver, (_, first) = run(query)
    for _ in range(3):
        assert driver.latest(None, None) == first
    more = fill(query, 2, "n")
    second = new(driver, first)
    assert batch(query, driver, first, second) == more
    assert driver.latest(None, None) == second
    assert query.left() == 0


def test_a_new_checkpoint_without_data(query: Query) -> None:
    """Rows 2 and 11: LO=i; P(i,i); LO=i … LO=a; C(i); P(i,a)."""
    driver = door(query)
    start = driver.initial
    assert driver.latest(None, None) == start
    assert driver.plan(start, start) == []
    for _ in range(3):
        driver.committed(start)
        assert driver.latest(None, None) == start
    sent = fill(query, 2)
    assert batch(query, driver, start, new(driver, start)) == sent


def test_a_restart_goes_on_behind_the_batch_that_spark_names(query: Query) -> None:
    """Row 4: P(N,N); LO."""
    driver, (*_, last) = run(query, 2)
    driver.close()
    again = door(query)
    before = dict(query.store.objects)

    assert again.plan(last, last) == []
    assert query.store.objects == before, "which closes nothing, and claims nothing"
    more = fill(query, 2, "n")
    assert batch(query, again, last, again.latest(None, None)) == more


def test_a_restart_repeats_a_batch_that_is_not_committed(query: Query) -> None:
    """Row 5: P(N,N); P(N-1,N); LO."""
    driver, (_, first) = run(query)
    sent = fill(query, 2, "n")
    second = driver.latest(None, None)
    again = door(query)

    assert again.plan(second, second) == []
    assert batch(query, again, first, second) == sent
    assert again.latest(None, None) == second
    assert query.left() == 0


@pytest.mark.parametrize("again", [0, 1])
def test_an_offset_that_is_not_planned_yet_is_returned_again(query: Query, again: int) -> None:
    """Row 9 (the wrapper's report): its plan stays as it is."""
    driver, (_, first) = run(query)
    sent = fill(query, 2, "n")
    second = driver.latest(None, None)
    before = dict(query.store.objects)

    for _ in range(again):
        assert driver.latest(None, None) == second

    assert query.store.objects == before
    assert batch(query, driver, first, second) == sent


def test_a_query_that_needs_no_rows_is_refused(query: Query) -> None:
    """Row 14 (`limit(0)`, or a scan that the optimizer removed): LO=a LO=a LO=b; C(a)."""
    driver, (_, first) = run(query)
    fill(query, 2, "n")
    second = driver.latest(None, None)
    driver.committed(first)
    assert driver.latest(None, None) == second
    third = driver.latest(None, None)
    assert third not in (first, second)
    driver.committed(second)

    with pytest.raises(CheckpointMismatch, match=r"limit\(0\)"):
        driver.latest(None, None)


def test_a_query_that_needs_no_rows_goes_on_when_it_starts_again(query: Query) -> None:
    """Row 14: LO=a; no P. Then P(a,a); LO."""
    sent = fill(query, 2)
    driver = door(query)
    first = driver.latest(None, None)
    again = door(query)

    assert again.plan(first, first) == []
    second = again.latest(None, None)

    assert second != first
    assert batch(query, again, first, second) == sent


def test_a_batch_without_rows_of_ours_between(query: Query) -> None:
    """Rows 11 and 13: C(a), no P; a restart: P(a,a); LO."""
    driver, (_, first) = run(query)
    for _ in range(2):
        assert driver.latest(None, None) == first
        driver.committed(first)
    again = door(query)
    assert again.plan(first, first) == []
    assert again.latest(None, None) == first


def test_a_scheduled_run_looks_at_a_queue_in_which_the_last_plan_found_nothing(
    query: Query, fake: FakeQueueService
) -> None:
    """Row 4, in runs of one batch: such a run has one look, so no queue may rest in it."""
    sent = fill(query, 4)
    driver = door(query)
    first = driver.latest(None, None)
    fake.faults.add(Fault("dequeue", "reply_lost", nth=1))
    read = batch(query, driver, driver.initial, first)
    assert len(read) == 2, "the other queue gave its messages"
    fake.clock.advance(91)
    again = door(query)
    assert again.plan(first, first) == []

    assert sorted([*read, *batch(query, again, first, again.latest(None, None))]) == sent


def test_a_rollback_gives_the_same_batches(query: Query) -> None:
    """Row 18: P(k,k); LO."""
    _, offsets = run(query, 3)
    again = door(query)

    assert again.plan(offsets[1], offsets[1]) == []
    for start, end in pairwise(offsets[1:]):
        assert again.latest(None, None) == end
        assert batch(query, again, start, end)


def test_two_actions_plan_twice(query: Query) -> None:
    """Row 12: LO=a; P(i,a); P(i,a)."""
    sent = fill(query, 2)
    driver = door(query)
    end = driver.latest(None, None)
    parts = driver.plan(driver.initial, end)
    assert driver.plan(driver.initial, end) == parts
    assert query.rows(query.plan(end)) == sent
    assert query.rows(query.plan(end)) == sent


def test_nothing_new_is_the_very_text_of_spark(query: Query) -> None:
    """Another text would be a new batch, at every trigger."""
    driver, (_, first) = run(query)
    driver.close()
    named = dict(reversed(first.items())) | {"more": 1}
    again = door(query)

    assert again.plan(named, named) == []
    assert list(again.latest(None, None).items()) == list(named.items())


# ── the wrapper for availableNow, which asks first ────────────────────────────────────────────────


def test_the_wrappers_first_run_reads_a_batch(query: Query) -> None:
    """Row 9: LO=a; LO (the answer is not used); P(i,a); LO; end. The next run without it."""
    sent = fill(query, 2)
    driver = door(query)
    first = driver.latest(None, None)
    assert driver.latest(None, None) == first
    assert batch(query, driver, driver.initial, first) == sent
    more = fill(query, 2, "n")
    driver.latest(None, None)
    driver.close()

    again = door(query)
    assert again.plan(first, first) == []
    assert batch(query, again, first, again.latest(None, None)) == more


@pytest.mark.parametrize("batches", [1, 2])
def test_the_wrappers_second_run_is_refused_and_changes_nothing(query: Query, batches: int) -> None:
    run(query, batches)
    before = dict(query.store.objects)
    with pytest.raises(CheckpointMismatch, match=f"has delivered batches up to .*{WRAPPER} true"):
        door(query).latest(None, None)
    assert query.store.objects == before


@pytest.mark.parametrize("choice", [LogStart.EARLIEST, LogStart.AFTER_COMMITTED])
def test_what_spark_names_behind_an_answer_is_refused_before_it_is_written(
    query: Query, choice: LogStart
) -> None:
    """Row 10: LO=f; P(N,N). Behind it Spark writes f into its log."""
    _, (*_, last) = run(query, 2)
    assert query.config.write_ahead_log
    log = replace(query.config.write_ahead_log, start=choice)
    query.config = replace(query.config, write_ahead_log=log)
    again = door(query)
    again.latest(None, None)
    slots = {
        name for name in query.store.objects if (at := names.as_slot_name(name)) and at.kind == "s"
    }

    with pytest.raises(InvalidOption, match=rf"\] spark\.\S+{WRAPPER} is true.* at batch 2\."):
        again.plan(last, last)

    assert slots <= query.store.objects.keys()


def test_a_checkpoint_at_a_plan_without_a_task_is_refused_too(query: Query) -> None:
    """The folder is not used, so the wrapper's first call is answered, and closes that plan."""
    sent = fill(query, 2)
    driver = door(query)
    first = driver.latest(None, None)
    again = door(query)
    again.latest(None, None)
    with pytest.raises(InvalidOption, match=WRAPPER):
        again.plan(first, first)

    later = door(query)
    assert later.plan(first, first) == []
    batch(query, later, later.initial, first)
    assert batch(query, later, first, later.latest(None, None)) == sent, "nothing is lost"
