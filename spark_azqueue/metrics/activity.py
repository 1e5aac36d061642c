"""Tracks running queries from their start events, so also queries without figures."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

ENDED_AT_MOST = 100
"""The most queries that are remembered although they ended before their first figures."""


class Activity:
    """The runs of queries that read queues, or may. Not thread-safe."""

    def __init__(self) -> None:
        self._runs: dict[str, str] = {}  # run id -> query
        self._others: set[str] = set()  # runs that read no queue
        self._ended_early: OrderedDict[str, None] = OrderedDict()

    def started(self, run: str, query: str, *, reads_queues: bool) -> None:
        """Note a start. reads_queues: False if it is known that the query reads none."""
        if not reads_queues:
            self._others.add(run)
        self._runs[run] = query
        self._ended_early.pop(query, None)

    def has_figures(self, run: str, query: str) -> None:
        """Note that it runs and reads queues; its start may have been before the listener's."""
        self._runs[run] = query
        self._others.discard(run)

    def reads_no_queue(self, run: str) -> None:
        """Note that its progress names no queue."""
        self._others.add(run)

    def ended(self, run: str, known: Iterable[str]) -> None:
        """Note an end. known: the queries with figures, which need not be remembered here."""
        query = self._runs.pop(run, None)
        if query and query not in known and run not in self._others:
            self._ended_early[query] = None
            while len(self._ended_early) > ENDED_AT_MOST:
                self._ended_early.popitem(last=False)
        self._others.discard(run)

    @property
    def running(self) -> set[str]:
        """The queries that run and read queues, or may."""
        return {query for run, query in self._runs.items() if run not in self._others}

    def of_all(self, known: Iterable[str]) -> dict[str, bool]:
        """Whether each query runs: those with figures, and those without any yet."""
        running = self.running
        return {each: each in running for each in (*known, *self._ended_early, *sorted(running))}
