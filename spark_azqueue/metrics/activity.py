"""Tracks which queries run, by their start and end events. So a query is known before its first
metrics."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import NamedTuple

ENDED_AT_MOST = 100
"""Maximum number of queries to keep that ended before their first metrics."""


class QueryState(NamedTuple):
    """State of a query, derived only from its start and end events.

    active: True if the query runs. failed: True if the query does not run, and its newest run
    failed. failures: number of failed runs since the listener was made. started: time when the
    newest run started, in seconds since 1970; None if the run started before the listener was made.
    """

    active: bool
    failed: bool = False
    failures: int = 0
    started: float | None = None


class Activity:
    """Runs of queries that read queues, or may read queues. Not thread-safe."""

    def __init__(self) -> None:
        self._runs: dict[str, str] = {}  # run id -> query
        self._others: set[str] = set()  # runs that read no queue
        self._ended_early: OrderedDict[str, None] = OrderedDict()
        # state by query; its field `active` is not updated
        self._known: dict[str, QueryState] = {}

    def started(self, run: str, query: str, at: float, *, reads_queues: bool) -> None:
        """Record the start of a run. at: seconds since 1970.

        reads_queues: False if the query certainly reads no queue.
        """
        self._runs[run] = query
        if reads_queues:
            self._known[query] = self._state(query)._replace(started=at, failed=False)
        else:
            self._others.add(run)
        self._ended_early.pop(query, None)

    def knows(self, run: str) -> bool:
        """Return True if a start event or metrics of this run were seen, and no end event."""
        return run in self._runs

    def has_metrics(self, run: str, query: str) -> None:
        """Record that the run is active and reads queues. Needed because the run may have started
        before the listener was made.
        """
        self._runs[run] = query
        self._others.discard(run)

    def reads_no_queue(self, run: str) -> None:
        """Record that the run reads no queue, according to its progress."""
        self._others.add(run)

    def ended(self, run: str, known: Iterable[str], *, failed: bool) -> None:
        """Record the end of a run. known: queries with metrics; their states are always kept."""
        query = self._runs.pop(run, None)
        if query and run not in self._others:
            if failed:
                state = self._state(query)
                self._known[query] = state._replace(failures=state.failures + 1, failed=True)
            if query not in known:
                self._ended_early[query] = None
                while len(self._ended_early) > ENDED_AT_MOST:
                    self._ended_early.popitem(last=False)
        self._others.discard(run)
        queries = {*known, *self._ended_early, *self.running}
        self._known = {each: state for each, state in self._known.items() if each in queries}

    @property
    def running(self) -> set[str]:
        """Return the queries that run and that read queues, or may read queues."""
        return {query for run, query in self._runs.items() if run not in self._others}

    def of_all(self, known: Iterable[str]) -> dict[str, QueryState]:
        """Return the state of each query, including queries without metrics. known: queries with
        metrics.
        """
        running, found = self.running, {}
        for each in (*known, *self._ended_early, *sorted(running)):
            active, state = each in running, self._state(each)
            found[each] = state._replace(active=active, failed=state.failed and not active)
        return found

    def _state(self, query: str) -> QueryState:
        return self._known.get(query, QueryState(active=False))
