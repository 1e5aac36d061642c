"""`isolated` finds the rows that fail, in order and each once; `Failures` tells an outage."""

from __future__ import annotations

import functools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_azqueue.errors import FunctionFailed
from spark_azqueue.rows.try_apply.pieces import (
    BatchesOfFailures,
    EarlierTasks,
    Failures,
    StreamTask,
    Tried,
    isolated,
    name_of,
)


class Function:
    """Fails on some rows; counts its calls and the rows that it got."""

    def __init__(self, bad: set[int], error: type[BaseException] = ValueError) -> None:
        self.bad, self.error = bad, error
        self.calls = self.rows = 0

    def __call__(self, start: int, count: int) -> range:
        self.calls += 1
        self.rows += count
        if not self.bad.isdisjoint(range(start, start + count)):
            raise self.error("bad")
        return range(start, start + count)


@given(st.integers(0, 40), st.sets(st.integers(0, 39)))
def test_each_row_comes_once_in_order_and_the_bad_ones_alone(rows: int, bad: set[int]) -> None:
    parts = list(isolated(rows, Function(bad), Failures(None)))

    assert [row for part in parts for row in range(part.start, part.start + part.count)] == [
        *range(rows)
    ]
    assert {part.start for part in parts if part.failed} == {row for row in bad if row < rows}
    assert all(part.count == 1 for part in parts if part.failed)
    assert all(part.result == range(part.start, part.start + part.count) for part in parts
               if not part.failed)  # fmt: skip


def test_what_one_bad_row_in_a_hundred_costs() -> None:
    """The figures of docs/bad-rows.md: 10,000 rows in pieces of 256 (the default) and 1,000."""
    chance = random.Random(1)
    bad = {row for row in range(10_000) if chance.random() < 0.01}
    cost = {}
    for size in (256, 1_000):
        calls = rows = 0
        for start in range(0, 10_000, size):
            inside = {row - start for row in bad if start <= row < start + size}
            function = Function(inside)
            list(isolated(min(size, 10_000 - start), function, Failures(32)))
            calls, rows = calls + function.calls, rows + function.rows
        cost[size] = (calls, round(rows / 10_000, 1))

    assert cost == {256: (1_418, 3.8), 1_000: (1_464, 5.9)}


@pytest.mark.parametrize(
    "error", [ImportError, ModuleNotFoundError, MemoryError, KeyboardInterrupt, SystemExit]
)
def test_an_error_that_is_not_of_a_row_is_raised_at_once(error: type[BaseException]) -> None:
    function = Function({3}, error)

    with pytest.raises(error):
        list(isolated(8, function, Failures(None)))
    assert function.calls == 1


def test_as_many_rows_in_a_row_as_the_limit_are_an_outage() -> None:
    outage = Function(set(range(300, 10_000)))

    with pytest.raises(FunctionFailed, match="32 rows in a row failed at the same place"):
        list(isolated(1_000, outage, Failures(32)))


def test_fewer_are_values_and_a_good_row_between_begins_anew() -> None:
    bad = set(range(62)) - {31}

    parts = list(isolated(63, Function(bad), Failures(32)))

    assert sum(part.failed is not None for part in parts) == 61


def test_without_a_limit_all_may_fail() -> None:
    failures = Failures(None)
    parts = list(isolated(100, Function(set(range(100))), failures))
    failures.ended()

    assert all(part.failed for part in parts)


def at_two_places(start: int, count: int) -> None:
    if start % 2:
        raise ValueError("odd")
    raise ValueError("even")


def test_rows_that_fail_at_different_places_are_not_alike() -> None:
    failures = Failures(3)
    assert len(list(isolated(10, at_two_places, failures))) == 10

    # But a task in which nothing went well is no task with bad rows
    with pytest.raises(FunctionFailed, match="all 10 rows since the start failed"):
        failures.ended()


def test_errors_of_different_types_at_one_place_are_alike() -> None:
    def unreachable(start: int, count: int) -> None:
        raise (TimeoutError, ConnectionError)[start % 2]("down")

    with pytest.raises(FunctionFailed, match=r"ConnectionError: down \(test_pieces.py:\d+ in"):
        list(isolated(10, unreachable, Failures(4)))


def test_a_task_of_two_bad_rows_has_two_bad_rows() -> None:
    failures = Failures(32)
    parts = list(isolated(2, Function({0, 1}), failures))
    failures.ended()

    assert [part.failed is not None for part in parts] == [True, True]


def test_a_row_that_fails_once_is_good() -> None:
    calls = []

    def flaky(start: int, count: int) -> str:
        calls.append(count)
        if len(calls) == 1:
            raise ValueError("not now")
        return "ok"

    assert list(isolated(5, flaky, Failures(32))) == [Tried(0, 3, "ok"), Tried(3, 2, "ok")]


RUN = ("run", "shop.score")


def failing(earlier: EarlierTasks, batch: str, part: int, rows: int = 10) -> None:
    """A task of bad rows alone."""
    task = StreamTask(RUN, batch, part)
    failures = earlier.before(task, 32)
    list(isolated(rows, Function({*range(rows)}), failures))
    failures.ended()
    earlier.ended(task, failures)


def test_an_outage_is_counted_over_the_tasks_of_a_stream() -> None:
    earlier = EarlierTasks()
    for batch in "123":
        failing(earlier, batch, 0)

    with pytest.raises(FunctionFailed, match="32 rows in a row failed"):
        failing(earlier, "4", 0)


def test_a_good_row_ends_what_was_counted_and_a_repeated_task_counts_once() -> None:
    earlier = EarlierTasks()
    for _ in range(5):
        failing(earlier, "1", 0)
    failing(earlier, "1", 1)
    good = earlier.before(StreamTask(RUN, "2", 0), 32)
    assert good.in_a_row == 20
    list(isolated(1, Function(set()), good))
    earlier.ended(StreamTask(RUN, "2", 0), good)

    for batch in "345":
        failing(earlier, batch, 0)
    assert earlier.before(None, 32).in_a_row == 0


def test_batches_without_a_good_row_are_added_up_once_they_are_written() -> None:
    batches = BatchesOfFailures()
    for _ in range(5):  # the write failed
        assert batches.with_batch(RUN, good=0, dead=12) == 12
    batches.written(RUN, good=0, dead=12)
    batches.written(RUN, good=0, dead=12)
    assert batches.with_batch(RUN, good=0, dead=12) == 36

    batches.written(RUN, good=1, dead=12)
    assert batches.with_batch(RUN, good=0, dead=12) == 12


def test_a_function_has_the_same_name_in_each_copy() -> None:
    assert (
        name_of(Function) == name_of(functools.partial(Function, set())) == name_of(Function({1}))
    )


class PanicException(BaseException):
    """What pyo3 raises for a panic of a Rust library."""


def test_a_panic_is_about_a_row() -> None:
    parts = list(isolated(10, Function({7}, PanicException), Failures(32)))
    assert [part.start for part in parts if part.failed] == [7]
