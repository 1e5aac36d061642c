"""Backlog and age of a query's queues, and its poison messages, without the query or leases.

So these numbers are known while the query fails, restarts or is stopped. Looks run in the
background. A call of `newest` begins a look, at the earliest 10 s after the last one: without calls
there are no requests. The caller waits for up to 2 s, and otherwise gets the last look's numbers.
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
"""Longest wait of a look for the answers of the queues."""

ASKER_WAITS_S = 2.0
"""Longest wait of a caller for a look."""

CURRENT_FOR_S = 120.0
"""Age above which a look is left out: no number is better than an old number."""

_ASK_AGAIN_S = 300.0
"""Pause before a queue is asked again for which the credential lacked permission."""


class QueuesWatch:
    """The queues that a source with these options reads, and their poison queues. Thread-safe."""

    def __init__(
        self,
        account: Account,
        selection: QueueSelection,
        make_workers: MakeWorkers = Workers,
        clock: Callable[[], float] = time.monotonic,
        client: QueueClient | None = None,
    ) -> None:
        """Store; nothing is sent before `newest`. clock: seconds. client: None to make one.

        selection: names and patterns of the queues, and the name of the poison queue if set.
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
        self._lock = threading.Lock()  # of what follows
        self._under_way: Future[None] | None = None
        self._looked_at: float | None = None
        self._seen: tuple[float, Watched] | None = None
        # Used only by the thread that looks:
        self._named_at: float | None = None
        self._denied_at: float | None = None
        self._unlisted: tuple[str, ...] = ()  # patterns whose queues could not be listed
        self._silent: dict[QueueRef, str] = {}

    def newest(self) -> Watched | None:
        """Return the numbers of the last look; None if it is older than 120 s. Never raises.

        Begins a look if the last look is older than 10 s (more for many queues).
        """
        if self._is_due():
            try:
                self._under_way = self._submit(self._look)
            except RuntimeError as error:  # no thread can be started
                log.warning("the backlog of the queues could not be read: %s", error)
        if self._under_way:
            wait([self._under_way], timeout=ASKER_WAITS_S)
        with self._lock:
            if self._seen is None or self._clock() - self._seen[0] > CURRENT_FOR_S:
                return None
            return self._seen[1]

    def _is_due(self) -> bool:
        """True if the caller has to begin a look."""
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
        except Exception:  # the last look stays, until it is too old
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
        """Find the queues of patterns, once a minute."""
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
        """Warn of queues that did not answer, each reason once. (`Backlog` warns of denials.)"""
        errors: Mapping[QueueRef, Exception] = {
            **{
                queue: error
                for queue, error in self._poison.errors.items()
                if not isinstance(error, QueueNotFound)  # created with its first message
            },
            **self._backlog.errors,
        }
        silent = {queue: _reason(error) for queue, error in errors.items()}
        for queue, error in errors.items():
            if self._silent.get(queue) != silent[queue] and not isinstance(error, AccessDenied):
                log.warning("the backlog of queue '%s' is unknown: %s", queue.name, error)
        self._silent = silent


def _reason(error: Exception) -> str:
    """Return a key of an error, without the id of the request, which differs each time."""
    if isinstance(error, ServiceError):
        return f"{error.condition.id} {error.status} {error.code}"
    return str(error)
