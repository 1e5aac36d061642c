"""Finds the rows that make a function fail, by halving groups of rows. Detects outages."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from spark_azqueue.errors import FunctionFailed

from .reasons import reason_of

T = TypeVar("T")

_NOT_OF_A_ROW = (ImportError, MemoryError, KeyboardInterrupt, SystemExit, GeneratorExit)
"""Errors that no row causes, so that they are raised immediately. Any other error may be caused by
a row, even a BaseException, such as a panic of a Rust library."""


@dataclass(frozen=True, slots=True)
class Tried(Generic[T]):
    """Result of calling a function on consecutive rows.

    failed: the reason, if a single row failed; else None.
    """

    start: int
    count: int
    result: T | None
    failed: str | None = None


class Failures:
    """Failures of a task and of earlier batches, from which the task decides whether single rows
    are the cause.

    limit: the task fails if this many consecutive rows fail at the same place. None for no limit.
    """

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._rows = self._failed = 0
        self._place = ""
        self._reason = ""
        self.in_a_row = 0
        """How many of the last rows failed one after the other at the same place; 0 without a
        limit."""

    def succeeded(self, rows: int) -> None:
        """Record a number of rows for which the function returned a result."""
        self._rows += rows
        self.in_a_row = 0

    def failed(self, place: str, reason: str) -> None:
        """Record a single row that failed. Raises FunctionFailed if the limit is reached."""
        self._rows += 1
        self._failed += 1
        if self._limit is None:
            return
        self.in_a_row = self.in_a_row + 1 if self.in_a_row and place == self._place else 1
        self._place, self._reason = place, reason
        if self.in_a_row >= self._limit:
            raise self._error(f"{self.in_a_row:,} rows in a row failed at the same place")

    def ended(self) -> None:
        """Record the end of the task.

        Raises FunctionFailed if all rows failed, and there were at least `limit` rows.
        """
        if self._limit is not None and self._failed == self._rows >= self._limit:
            raise self._error(f"all {self._rows:,} rows since the start failed")

    def _error(self, what: str) -> FunctionFailed:
        return outage(what, self._reason)


def outage(what: str, reason: str) -> FunctionFailed:
    """Return the error for failures that single rows did not cause.

    reason: reason of the last failure.
    """
    return FunctionFailed(
        f"try_apply: {what}, so the cause is not one row. The last error: {reason}."
        " Fix the function or what it calls; if the rows are all bad, raise 'limit', or set"
        " limit=None"
    )


def name_of(function: Callable[..., object]) -> str:
    """Return the function's name, which is the same for each pickled copy of the function."""
    while isinstance(function, functools.partial):
        function = function.func
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{named.__module__}.{named.__qualname__}"


@dataclass(frozen=True, slots=True)
class StreamTask:
    """A task of a stream.

    run: id of the query's run, and id of the function. part: number of the task in the batch.
    """

    run: tuple[str, str]
    batch: str
    part: int


@dataclass(slots=True)
class EarlierTasks:
    """Failures of the earlier tasks of streams in this Python process, which Spark reuses for
    several tasks.

    If Spark retries a task, the task starts without earlier failures. So no failed row is counted
    twice.
    """

    _newest: dict[tuple[str, str], tuple[str, frozenset[int], Failures]] = field(
        default_factory=dict
    )

    def before(self, task: StreamTask | None, limit: int | None) -> Failures:
        """Return the failures with which this task starts. task: None outside of streams."""
        batch, parts, failures = self._newest.get(task.run, _NOTHING) if task else _NOTHING
        if failures is None or (task and task.batch == batch and task.part in parts):
            return Failures(limit)
        return copy.copy(failures)

    def ended(self, task: StreamTask | None, failures: Failures) -> None:
        """Keep the failures up to the end of this task, for the next task."""
        if task is None:
            return
        batch, parts, _ = self._newest.get(task.run, _NOTHING)
        if batch == task.batch and task.part in parts:
            return
        parts = parts if batch == task.batch else frozenset()
        self._newest.pop(task.run, None)
        self._newest[task.run] = (task.batch, parts | {task.part}, failures)
        if len(self._newest) > _RUNS_AT_MOST:
            del self._newest[next(iter(self._newest))]


_NOTHING: tuple[str, frozenset[int], None] = ("", frozenset(), None)
_RUNS_AT_MOST = 100


class BatchesOfFailures:
    """For each stream, the number of failed rows since the last good row. Used by `split_apply`."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str], int] = {}

    def with_batch(self, stream: tuple[str, str], *, good: int, dead: int) -> int:
        """Return the number of failed rows since the last batch with a good row, including this
        batch."""
        return 0 if good else self._rows.get(stream, 0) + dead

    def written(self, stream: tuple[str, str], *, good: int, dead: int) -> None:
        """Count a batch. Called after its rows were written, so that a batch that is repeated
        counts once."""
        rows = self.with_batch(stream, good=good, dead=dead)
        self._rows.pop(stream, None)
        if rows:
            self._rows[stream] = rows
        if len(self._rows) > _RUNS_AT_MOST:
            del self._rows[next(iter(self._rows))]


def isolated(rows: int, attempt: Callable[[int, int], T], failures: Failures) -> Iterator[Tried[T]]:
    """Try all rows together; if they fail, try each half, down to single rows.

    Results are yielded in the order of the rows. Each row is in one result.

    attempt: called with the first row and the number of rows; returns the result or raises an
    error.

    Raises errors that no row causes: ImportError, MemoryError, and FunctionFailed of `failures`.
    """
    todo = [(0, rows)] if rows else []
    while todo:
        start, count = todo.pop()
        try:
            result = attempt(start, count)
        except _NOT_OF_A_ROW:
            raise
        except BaseException as error:  # noqa: BLE001 - whatever the user's function raises
            if count == 1:
                reason, place = reason_of(error)
            else:
                half = (count + 1) // 2
                todo += [(start + half, count - half), (start, half)]
                continue
        else:
            failures.succeeded(count)
            yield Tried(start, count, result)
            continue
        failures.failed(place, reason)
        yield Tried(start, count, None, reason)
