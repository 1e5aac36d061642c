"""Halve a piece of rows until those on which a function fails are alone; notice an outage."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from spark_azqueue.errors import FunctionFailed

from .reasons import reason_of

T = TypeVar("T")

_NOT_OF_A_ROW = (ImportError, MemoryError)
"""Raised at once. What is no `Exception`, such as KeyboardInterrupt, is never caught."""


@dataclass(frozen=True, slots=True)
class Tried(Generic[T]):
    """What a function gave for rows next to each other. failed: why, for a single row."""

    start: int
    count: int
    result: T | None
    failed: str | None = None


class Failures:
    """What a task knows of failures: whether these are still about rows.

    limit: how many rows in a row may not fail alike; None: any number may.
    """

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._rows = self._failed = 0
        self._place = ""
        self._reason = ""
        self.in_a_row = 0
        """How many rows have failed alike, up to the last one. 0 without a limit."""

    def succeeded(self, rows: int) -> None:
        """Note rows for which the function gave a result."""
        self._rows += rows
        self.in_a_row = 0

    def failed(self, place: str, reason: str) -> None:
        """Note a single row that failed. Raises FunctionFailed if it is one too many."""
        self._rows += 1
        self._failed += 1
        if self._limit is None:
            return
        self.in_a_row = self.in_a_row + 1 if self.in_a_row and place == self._place else 1
        self._place, self._reason = place, reason
        if self.in_a_row >= self._limit:
            raise self._error(f"{self.in_a_row:,} rows in a row failed at the same place")

    def ended(self) -> None:
        """Note the end of the task. Raises FunctionFailed if all of enough rows have failed."""
        if self._limit is not None and self._failed == self._rows >= self._limit:
            raise self._error(f"all {self._rows:,} rows of a task failed")

    def _error(self, what: str) -> FunctionFailed:
        return FunctionFailed(
            f"try_apply: {what}, so the cause is not one row. The last error: {self._reason}."
            " Mend the function or what it calls; if the rows are all bad, raise 'limit', or set"
            " limit=None"
        )


def isolated(rows: int, attempt: Callable[[int, int], T], failures: Failures) -> Iterator[Tried[T]]:
    """Try rows together, and halves of what fails, down to single rows. In order, each row once.

    attempt: takes a start and a count, and gives their result or raises. Raises what is not about a
    row: ImportError, MemoryError, and FunctionFailed of `failures`.
    """
    todo = [(0, rows)] if rows else []
    while todo:
        start, count = todo.pop()
        try:
            result = attempt(start, count)
        except _NOT_OF_A_ROW:
            raise
        except Exception as error:  # noqa: BLE001 - whatever the user's function raises
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
