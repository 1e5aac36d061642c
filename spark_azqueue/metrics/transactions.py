"""What a transaction log says of a query's newest transaction, for the figures; asked seldom.

Whoever makes the listener hands in what reads the log: see `spark_azqueue.transactions`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

log = logging.getLogger(__name__)

EVERY_S = 30.0
"""So seldom the log is asked for one query, in seconds."""

_QUERIES_AT_MOST = 100


@dataclass(frozen=True, slots=True)
class TransactionReport:
    """The newest transaction that a query has recorded.

    `Figures` says what each means: `sink_shown` is `shown`, and so on.
    """

    shown: int
    hidden: int
    abandoned: int
    vanished: int
    show_seconds: float | None = None

    def figures(self) -> dict[str, Any]:
        """As fields of `Figures`."""
        return {f"sink_{name}": value for name, value in asdict(self).items()}


ReadTransaction = Callable[[str], TransactionReport | None]
"""Reads the log. Takes the query's id; None if it has recorded nothing there."""


class SeldomRead:
    """Reads the log for a query at most every 30 seconds, and keeps the answer. Thread-safe.

    A log that cannot be read costs the figures, and nothing else; a warning says so once for each
    query.
    """

    def __init__(self, read: ReadTransaction, clock: Callable[[], float] = time.monotonic) -> None:
        self._read = read
        self._clock = clock
        self._lock = threading.Lock()
        self._known: OrderedDict[str, tuple[float, TransactionReport | None]] = OrderedDict()
        self._warned: set[str] = set()

    def of(self, query_id: str) -> TransactionReport | None:
        """The newest transaction of this query, as of the last 30 seconds; None without one."""
        with self._lock:
            known = self._known.get(query_id)
        if known and self._clock() - known[0] < EVERY_S:
            return known[1]
        return self.now(query_id)

    def now(self, query_id: str) -> TransactionReport | None:
        """The same, read now."""
        found = None
        try:
            found = self._read(query_id)
        except Exception as error:  # noqa: BLE001 (figures alone are lost)
            if query_id not in self._warned:
                self._warned.add(query_id)
                log.warning("the figures of query %s lack its transactions: %s", query_id, error)
        with self._lock:
            self._known[query_id] = self._clock(), found
            self._known.move_to_end(query_id)
            while len(self._known) > _QUERIES_AT_MOST:
                self._warned.discard(self._known.popitem(last=False)[0])
        return found
