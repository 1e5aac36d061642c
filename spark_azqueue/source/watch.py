"""Looks at the queues of a query from outside, seldom and in the background: nothing is leased.

So backlog, age and poison messages are known while the query fails, restarts or is stopped. A look
begins when an asker comes, ten seconds after the last one at the earliest: without questions there
are no requests. The one who asks waits for a moment, and else gets what the last look showed.
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
"""How long one look waits for the answers of the queues."""

ASKER_WAITS_S = 2.0
"""How long the one who asks waits for a look."""

CURRENT_FOR_S = 120.0
"""What was seen longer ago is left out: better no number than an old one."""

_ASK_AGAIN_S = 300.0
"""Queues that could not be looked at for lack of a permission are asked again after so long."""


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
        """Nothing is sent before the first question. clock: seconds. client: if not the account's.

        selection: names, patterns, and the name of the poison queue if it is not the usual one.
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
        # Of the thread that looks.
        self._named_at: float | None = None
        self._denied_at: float | None = None
        self._unlisted: tuple[str, ...] = ()  # patterns whose queues are not known
        self._silent: dict[QueueRef, str] = {}

    def newest(self) -> Watched | None:
        """What the queues show; None if no look of the last two minutes answered.

        Looks if the last look is ten seconds old (more, for many queues). Never raises.
        """
        if self._is_due():
            try:
                self._under_way = self._submit(self._look)
            except RuntimeError as error:  # no thread can be started
                log.warning("the queues are not looked at: %s", error)
        if self._under_way:
            wait([self._under_way], timeout=ASKER_WAITS_S)
        with self._lock:
            if self._seen is None or self._clock() - self._seen[0] > CURRENT_FOR_S:
                return None
            return self._seen[1]

    def _is_due(self) -> bool:
        """True for one who is to begin a look."""
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
        except Exception:  # what is known gets old, and is left out then
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
                log.warning("queues that came or went are not known: %s", error)
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
        """Warn of queues that did not answer, each reason once. (`Backlog` tells of denials.)"""
        errors: Mapping[QueueRef, Exception] = {
            **{
                queue: error
                for queue, error in self._poison.errors.items()
                if not isinstance(error, QueueNotFound)  # it is created with its first message
            },
            **self._backlog.errors,
        }
        silent = {queue: _reason(error) for queue, error in errors.items()}
        for queue, error in errors.items():
            if self._silent.get(queue) != silent[queue] and not isinstance(error, AccessDenied):
                log.warning("what queue '%s' holds is not known: %s", queue.name, error)
        self._silent = silent


def _reason(error: Exception) -> str:
    """What tells two reasons apart: not the id of the request, which is in the text."""
    if isinstance(error, ServiceError):
        return f"{error.condition.id} {error.status} {error.code}"
    return str(error)
