"""Keeps held messages leased while Spark works: a daemon thread that does what the ledger says.

It sends no content, so a body is never rewritten. It never renews for ever: a refused renewal marks
the lease lost, and the thread ends with its process, which ends with the driver. Ring: edge.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence

from .azure_queue import InFlight, QueueService
from .calls import Update
from .errors import Outcome, ServiceError
from .leases import Lease, Term
from .ledger import Ledger, Then
from .retry import RENEW
from .settling import Settler

log = logging.getLogger(__name__)

_LOOK_AT_LEAST_EVERY_S = 1.0
"""New leases come without notice; the shortest one (1 s) is renewed late at worst."""


class Renewer:
    """Renews what is due. `lock` guards the ledger; `visibility_s` says for how long."""

    def __init__(
        self,
        ledger: Ledger,
        lock: threading.Lock,
        service: QueueService,
        settler: Settler,
        parallelism: int,
        visibility_s: Callable[[], int],
        clock: Callable[[], float],
    ) -> None:
        self._ledger = ledger
        self._lock = lock
        self._service = service
        self._settler = settler
        self._parallelism = parallelism
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
            if leases:
                self._renew(leases)
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

    def _renew(self, leases: Sequence[Lease]) -> None:
        visibility = self._visibility_s()
        due = deque(leases)
        flight: InFlight[tuple[Lease, float], tuple[Outcome, Lease | None]]
        flight = self._service.in_flight()
        try:
            while due or len(flight):
                while due and len(flight) < self._parallelism:
                    lease = due.popleft()
                    flight.begin((lease, self._clock()), Update(lease, visibility), RENEW)
                for (lease, sent_at), result in flight.ended():
                    # Where it took several attempts, counting from the first errs early.
                    self._renewed(lease, result, Term.of(sent_at, visibility))
        finally:
            flight.close()

    def _renewed(
        self, lease: Lease, result: tuple[Outcome, Lease | None] | Exception, term: Term
    ) -> None:
        renewed: Lease | None = None
        if isinstance(result, Exception):
            outcome = result.outcome if isinstance(result, ServiceError) else Outcome.FATAL
            log.warning("the lease of message %s was not renewed: %s", lease.message_id, result)
        else:
            outcome, renewed = result
        with self._lock:
            then, newest = self._ledger.renewed(lease, outcome, renewed, term, self._clock())
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
