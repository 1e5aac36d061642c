"""Backlog and age of a query's queues and poison queues, read independently of the query, without
leases.

So these numbers are available while the query fails, restarts or is stopped. A pass over all queues
reads the numbers in the background. A call of `newest` begins a pass, unless the last pass began
less than 10 s ago. Without calls, no request is sent. The call waits for the pass, but at most 2 s.
After 2 s, the call returns the numbers of the last finished pass.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait

from spark_azqueue.errors import AccessDenied, AzQueueError, QueueNotFound, ServiceError
from spark_azqueue.metrics.watched import SHOWN_AT_MOST, Watched
from spark_azqueue.options.selection import QueueSelection
from spark_azqueue.service.account import Account
from spark_azqueue.service.messages import QueueRef
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.service.retry import CONTROL
from spark_azqueue.service.workers import MakeWorkers, Workers

from .intake.backlog import BUSY_PAUSE_S, PAUSE_PER_QUEUE_S, Backlog
from .intake.queues import LOOK_AGAIN_S, MOST_QUEUES

log = logging.getLogger(__name__)

LOOK_PATIENCE_S = 5.0
"""Longest wait of one pass for the answers to its requests, in seconds."""

ASKER_WAITS_S = 2.0
"""Longest wait of a caller for a pass over all queues, in seconds."""

CURRENT_FOR_S = 120.0
"""Maximum age, in seconds, of numbers that are returned."""

_ASK_AGAIN_S = 300.0
"""Seconds before the next request to queues for which the credential lacked permission."""


class QueuesWatch:
    """Reads the numbers of a source's queues and of their poison queues. Thread-safe."""

    def __init__(
        self,
        account: Account,
        selection: QueueSelection,
        make_workers: MakeWorkers = Workers,
        clock: Callable[[], float] = time.monotonic,
        client: QueueClient | None = None,
    ) -> None:
        """Store the arguments; nothing is sent before `newest`.

        selection: names and patterns of the queues, and the name of the poison queue if set. clock:
        returns monotonic time in seconds. client: the client of the queues; None to create one.
        """
        self._selection = selection
        self._clock = clock
        self._client = client or QueueClient(account)
        self._submit = make_workers(1, "watch").submit
        self._queues = selection.named
        self._backlog = Backlog(
            self._client, self._queues, clock, peeks=SHOWN_AT_MOST, patience_s=LOOK_PATIENCE_S
        )
        self._poison = Backlog(self._client, (), clock, patience_s=LOOK_PATIENCE_S)
        self._lock = threading.Lock()  # guards the following fields
        self._under_way: Future[None] | None = None
        self._looked_at: float | None = None
        self._seen: tuple[float, Watched] | None = None
        # Used only by the thread that makes the passes:
        self._named_at: float | None = None
        self._denied_at: float | None = None
        self._unlisted: tuple[str, ...] = ()  # patterns for which listing queues failed
        self._silent: dict[QueueRef, str] = {}

    def newest(self) -> Watched | None:
        """Return the numbers of the last pass, or None if they are older than 120 s. Never raises.

        Begins a pass if the last pass began over 10 s ago. With many queues, this time is longer.
        """
        if self._is_due():
            try:
                self._under_way = self._submit(self._look)
            except RuntimeError as error:  # the interpreter can start no thread any more
                log.warning("the backlog of the queues could not be read: %s", error)
        if self._under_way:
            wait([self._under_way], timeout=ASKER_WAITS_S)
        with self._lock:
            if self._seen is None or self._clock() - self._seen[0] > CURRENT_FOR_S:
                return None
            return self._seen[1]

    def _is_due(self) -> bool:
        """Return True if the caller has to begin a pass."""
        with self._lock:
            now = self._clock()
            pause = max(BUSY_PAUSE_S, 2 * PAUSE_PER_QUEUE_S * len(self._queues))
            rests = self._looked_at is not None and now < self._looked_at + pause
            if rests or (self._under_way and not self._under_way.done()):
                return False
            self._looked_at = now
            return True

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _look(self) -> None:
        try:
            self._find()
            self._ask_denied_again()
            backlog = self._backlog.now(heads=True)
            poison = self._poison.now()
            self._tell_silent()
        except Exception:  # the last numbers are returned until they are too old
            log.exception("the look at the queues failed")
            return
        seen = Watched(
            {queue.name: int(queue.name in backlog) for queue in self._queues}
            | dict.fromkeys(self._unlisted, 0),
            backlog,
            poison,
            dict(self._backlog.visible),
            dict(self._backlog.heads),
            dict(self._backlog.expires),
        )
        with self._lock:
            self._seen = self._clock(), seen

    def _find(self) -> None:
        """Find the queues that match the patterns, at most once a minute."""
        now = self._clock()
        if self._named_at is not None and now < self._named_at + LOOK_AGAIN_S:
            return
        queues = self._selection.named
        if self._selection.patterns:
            try:
                names = CONTROL(self._client.names, self._selection.prefix)
            except AzQueueError as error:
                log.warning("the list of queues could not be refreshed: %s", error)
                self._unlisted = self._selection.patterns
                return
            queues = self._selection.among(names)[:MOST_QUEUES]
        self._named_at, self._unlisted = now, ()
        poison = tuple(dict.fromkeys(map(self._selection.poison_queue_for, queues)))
        self._backlog.count_in(queues)
        self._poison.count_in(poison)
        with self._lock:
            self._queues = queues

    def _ask_denied_again(self) -> None:
        now = self._clock()
        if self._denied_at is None:
            self._denied_at = now
        if now >= self._denied_at + _ASK_AGAIN_S:
            self._denied_at = now
            self._backlog.ask_again()
            self._poison.ask_again()

    def _tell_silent(self) -> None:
        """Log a warning for queues whose count failed, once for each reason.

        `Backlog` logs the warning if access was denied.
        """
        errors: Mapping[QueueRef, Exception] = {
            **{
                queue: error
                for queue, error in self._poison.errors.items()
                if not isinstance(error, QueueNotFound)  # created with the first message
            },
            **self._backlog.errors,
        }
        silent = {queue: _reason(error) for queue, error in errors.items()}
        for queue, error in errors.items():
            if self._silent.get(queue) != silent[queue] and not isinstance(error, AccessDenied):
                log.warning("the backlog of queue '%s' is unknown: %s", queue.name, error)
        self._silent = silent


def _reason(error: Exception) -> str:
    """Return the error's text without request ids, so that repeated errors have equal texts."""
    if isinstance(error, ServiceError):
        return f"{error.condition.id} {error.status} {error.code}"
    return str(error)
