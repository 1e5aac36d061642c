"""Keeps held messages leased while Spark works: a daemon thread that does what the ledger says.

It sends no content, so a body is never rewritten. It never renews for ever: a refused renewal marks
the lease lost, and the thread ends with its process, which ends with the driver. Ring: edge.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import wait

from .azure_queue import AzureQueue
from .errors import Outcome, ServiceError
from .leases import Lease, Term
from .ledger import Ledger, Then
from .retry import RENEW
from .settling import Settler
from .workers import Submits

log = logging.getLogger(__name__)

_LOOK_AT_LEAST_EVERY_S = 1.0
"""New leases come without notice; the shortest one (1 s) is renewed late at worst."""


class Renewer:
    """Renews what is due. `lock` guards the ledger; `visibility_s` says for how long."""

    def __init__(
        self,
        ledger: Ledger,
        lock: threading.Lock,
        find_queue: Callable[[str], AzureQueue],
        settler: Settler,
        workers: Submits,
        visibility_s: Callable[[], int],
        clock: Callable[[], float],
    ) -> None:
        self._ledger = ledger
        self._lock = lock
        self._find_queue = find_queue
        self._settler = settler
        self._workers = workers
        self._visibility_s = visibility_s
        self._clock = clock
        self._stop = threading.Event()
        self._round = threading.Lock()  # held while renewals are under way
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread, once."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._loop, name="azqueue-renewal", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Begin no more renewals."""
        self._stop.set()

    def renew_due(self) -> int:
        """Renew everything that is due, and return how many that were."""
        with self._round:
            with self._lock:
                leases = self._ledger.due(self._clock())
            wait([self._workers.submit(self._renew, lease) for lease in leases])
        return len(leases)

    def wait(self, timeout_s: float) -> None:
        """Wait for the renewals under way: deletes and releases may have been put off for them."""
        if self._round.acquire(timeout=timeout_s):
            self._round.release()

    def _loop(self) -> None:
        while not self._stop.wait(self._pause()):
            try:
                self.renew_due()
            except Exception:
                log.exception("renewing leases failed, and will be tried again")

    def _pause(self) -> float:
        with self._lock:
            due = self._ledger.next_due()
        longest = min(_LOOK_AT_LEAST_EVERY_S, self._visibility_s() / 4)
        return longest if due is None else min(max(0.0, due - self._clock()), longest)

    def _renew(self, lease: Lease) -> None:
        visibility = self._visibility_s()
        sent_at = self._clock()
        renewed: Lease | None = None
        try:
            sent_at, (outcome, renewed) = RENEW(self._update, lease, visibility)
        except ServiceError as error:
            outcome = error.outcome
            log.warning("the lease of message %s was not renewed: %s", lease.message_id, error)
        with self._lock:
            then, newest = self._ledger.renewed(
                lease, outcome, renewed, Term.of(sent_at, visibility), self._clock()
            )
        if outcome.refused:
            log.warning(
                "the lease of message %s in queue '%s' was lost: it may be delivered elsewhere too",
                lease.message_id,
                lease.queue,
            )
        if then is Then.DELETE:
            self._settler.begin([newest])
        elif then is Then.RELEASE:
            self._settler.begin_release([newest])

    def _update(self, lease: Lease, visibility: int) -> tuple[float, tuple[Outcome, Lease | None]]:
        sent_at = self._clock()
        return sent_at, self._find_queue(lease.queue).update(lease, visibility)
