"""Keeps held messages leased while Spark works: a daemon thread that does what the ledger says.

It sends no text, so a body is never rewritten. Renewing always ends: a refused renewal marks the
lease as lost, and the thread ends with its process, which ends with the driver.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from spark_azqueue.errors import Outcome, ServiceError
from spark_azqueue.service.messages import Lease
from spark_azqueue.service.queues.calls import Update
from spark_azqueue.service.queues.client import InFlight, QueueClient
from spark_azqueue.service.retry import RENEW

from .ledger import Ledger
from .settler import Settler
from .states import Then
from .timing import Term

log = logging.getLogger(__name__)

_LOOK_AT_LEAST_EVERY_S = 1.0
"""The thread is not told of new leases. So the shortest (1 s) may be renewed late."""

_GLANCE_S = 0.05
"""How long the thread waits for answers before it looks whether more may be begun."""

_HANGS_AFTER_S = 1.0
"""A renewal that takes longer does not count against the parallelism: it must not delay others."""

_MOST_UNDER_WAY = 256
"""The most renewals under way, those that hang included."""


@dataclass(slots=True)
class _Sent:
    """A renewal under way."""

    lease: Lease
    visibility_s: int
    sent_at: float
    settling: bool = False
    """Answered; the delete or release that waited for it is being begun."""


class RenewFor(Protocol):
    """Says for how many seconds to renew a lease. waits: its message is in no batch yet."""

    def __call__(self, term: Term, *, waits: bool) -> int:
        """Whole seconds."""
        ...


_Renewals = InFlight[_Sent, "tuple[Outcome, Lease | None]"]


class Renewer:
    """Renews what is due. `lock` guards the ledger; `renew_for` says for how long.

    No renewal waits for another: it begins when it is due, is given up in time for another try,
    and its answer is noted when it comes.
    """

    def __init__(
        self,
        ledger: Ledger,
        lock: threading.Lock,
        client: QueueClient,
        settler: Settler,
        parallelism: int,
        renew_for: RenewFor,
        clock: Callable[[], float],
        stop: threading.Event | None = None,
    ) -> None:
        """stop: what ends the thread, which waits for it between two looks."""
        self._ledger = ledger
        self._answered = threading.Condition(lock)
        self._client = client
        self._settler = settler
        self._parallelism = parallelism
        self._renew_for = renew_for
        self._clock = clock
        self._stop = stop or threading.Event()
        self._under_way: dict[Lease, _Sent] = {}
        self._thread: threading.Thread | None = None
        self._renewing_in: int | None = None  # the thread that is in `renew_due`

    def start(self) -> None:
        """Start the thread, once. Raises RuntimeError if none can be started."""
        if self._thread is None:
            thread = threading.Thread(target=self._loop, name="azqueue-renewal", daemon=True)
            thread.start()
            self._thread = thread

    def stop(self) -> None:
        """Begin no more renewals."""
        self._stop.set()

    @property
    def stopped(self) -> bool:
        """True if no more renewals are begun."""
        return self._stop.is_set()

    def renew_due(self) -> int:
        """Renew what is due, and what becomes due meanwhile; return how many renewals that took.

        Returns when none is under way. If it raises an error, each renewal under way counts as one
        without an answer.
        """
        if self._seconds_until_due() > 0:
            return 0
        begun = 0
        flight: _Renewals = self._client.in_flight()
        self._renewing_in = threading.get_ident()
        try:
            while True:
                begun += self._begin_due(flight)
                if not len(flight):
                    return begun
                for sent, result in flight.ended(max(_GLANCE_S, self._seconds_until_due())):
                    self._end(sent, result)
        finally:
            flight.close()
            for sent in list(self._under_way.values()):
                self._end(sent, ServiceError("it was broken off", outcome=Outcome.RETRY))
            self._renewing_in = None

    def wait(self, timeout_s: float) -> bool:
        """Wait for the renewals that deletes and releases were put off for. False: not in time.

        The thread that renews does not wait for itself: it gets the answer at once.
        """
        if self._renewing_in == threading.get_ident():
            timeout_s = 0.0
        with self._answered:
            awaited = {
                sent.lease
                for sent in self._under_way.values()
                if sent.settling or self._ledger.puts_off(sent.lease)
            }
            return self._answered.wait_for(lambda: awaited.isdisjoint(self._under_way), timeout_s)

    def _loop(self) -> None:
        pause = 0.0
        while not self._stop.wait(pause):
            try:
                self.renew_due()
                pause = self._seconds_until_due()
            except Exception:
                log.exception("renewing leases failed, and will be tried again")
                pause = _LOOK_AT_LEAST_EVERY_S

    def _seconds_until_due(self) -> float:
        with self._answered:
            due = self._ledger.next_due()
        shortest = self._renew_for(Term(0.0, 0.0), waits=True)
        longest = min(_LOOK_AT_LEAST_EVERY_S, shortest / 4)
        return longest if due is None else min(max(0.0, due - self._clock()), longest)

    def _begin_due(self, flight: _Renewals) -> int:
        now = self._clock()
        with self._answered:
            due = [] if self._stop.is_set() else self._ledger.due(now, self._room(now))
            terms = [self._ledger.term(lease) for lease in due]
            renewals = [
                _Sent(lease, self._renew_for(term, waits=self._ledger.waits(lease)), now)
                for lease, term in zip(due, terms, strict=True)
            ]
            self._under_way.update(zip(due, renewals, strict=True))
        for sent, term in zip(renewals, terms, strict=True):
            sent.sent_at = self._clock()
            call = Update(sent.lease, sent.visibility_s)
            flight.begin(sent, call, RENEW, term.patience_s(now))
        return len(renewals)

    def _room(self, now: float) -> int:
        """How many more may be under way."""
        fresh = sum(now - sent.sent_at < _HANGS_AFTER_S for sent in self._under_way.values())
        return min(self._parallelism - fresh, _MOST_UNDER_WAY - len(self._under_way))

    def _end(self, sent: _Sent, result: tuple[Outcome, Lease | None] | Exception) -> None:
        """One renewal ended. Never raises: the others go on."""
        try:
            then, newest = self._note(sent, result)
            if then is Then.DELETE:
                self._settler.begin([newest])
            elif then is Then.RELEASE:
                self._settler.begin_release([newest])
        except Exception:
            log.exception("what came of renewing message %s is lost", sent.lease.message_id)
        finally:
            with self._answered:
                self._under_way.pop(sent.lease, None)
                self._answered.notify_all()

    def _note(
        self, sent: _Sent, result: tuple[Outcome, Lease | None] | Exception
    ) -> tuple[Then, Lease]:
        lease, renewed = sent.lease, None
        if isinstance(result, Exception):
            # An error that is not the service's (a credential's, say) may be over at the next try.
            outcome = result.outcome if isinstance(result, ServiceError) else Outcome.RETRY
            log.warning("the lease of message %s was not renewed: %s", lease.message_id, result)
        else:
            outcome, renewed = result
        # After several attempts, a term from the first one is too short, never too long.
        term = Term.of(sent.sent_at, sent.visibility_s)
        with self._answered:
            lost_before = self._ledger.counts.leases_lost
            then = self._ledger.renewed(lease, outcome, renewed, term, self._clock())
            lost = self._ledger.counts.leases_lost > lost_before
            sent.settling = then[0] is not Then.NOTHING
        if lost:
            log.warning(
                "the lease of message %s in queue '%s' was lost: it may be delivered elsewhere too",
                lease.message_id,
                lease.queue.name,
            )
        return then
