"""When an availableNow run may end: not while leases of a killed process hide what it knows of.

A receipt that a process renewed is lost with that process, so nobody can give its message back or
delete it before the lease ends. See docs/decisions/0019-short-leases-and-drained-runs.md.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from spark_azqueue.errors import NotDrained
from spark_azqueue.service.messages import QueueRef

from .backlog import Backlog
from .batches.builder import BatchBuilder
from .isolation import Isolation
from .leases.holder import LeaseHolder
from .leases.timing import LONGEST_S
from .offsets import moment

log = logging.getLogger(__name__)

_WAIT_AT_MOST_S = LONGEST_S + 60.0
"""Longer than any lease of `auto`."""

_LOOK_AGAIN_S = 5.0
_A_MOMENT_S = 0.5


class Drain:
    """Waits for messages that have to give rows yet, and for those whose delete is owed."""

    def __init__(
        self,
        builder: BatchBuilder,
        holder: LeaseHolder,
        backlog: Backlog,
        isolation: Isolation,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        """clock: in seconds, the clock by which leases are measured."""
        self._builder = builder
        self._holder = holder
        self._backlog = backlog
        self._isolation = isolation
        self._waited = False
        self._clock = clock
        self._sleep = sleep
        self._told = False
        self._given_back = (0, 0.0)

    def expect(self, messages: int, until: float) -> None:
        """So many messages, which an earlier process gave back, may be hidden until then."""
        self._given_back = (messages, until)
        with self._holder.ledger as ledger:
            ledger.hide_until(until)

    def is_over(self, queues: Iterable[QueueRef], service_is_ahead: float) -> bool:
        """True if nothing is hidden any more; else some time passes, and the queues are due again.

        queues: those that are read. service_is_ahead: the service's clock, minus ours, in seconds.
        Raises NotDrained if that would take too long.
        """
        awaited = self._builder.awaited
        with self._holder.ledger as ledger:
            until = ledger.hidden_until
            known = awaited.union(key for key, _, _ in ledger.owed())
        left = until - self._clock()
        messages, given_back_until = self._given_back
        count = len(known) + (messages if given_back_until > self._clock() else 0)
        if not count or left <= 0:
            if awaited:  # expired, deleted, or with another consumer
                log.warning("%d messages of a batch that failed did not come back", len(awaited))
            return True
        names = {key.queue.name for key in known}
        if count > len(known):
            names |= {queue.name for queue in queues}
        counts = self._backlog.now()
        if not any(counts.get(name, 1) for name in names):
            return True  # the service counts hidden ones, too
        if left > _WAIT_AT_MOST_S:
            # The service counts what was left to expire, too, and perhaps nothing else.
            if (expires_in := self._isolation.until - self._clock()) > 0 and not self._waited:
                self._waited = True
                self._sleep(expires_in)
                return False
            raise NotDrained(
                f"this availableNow run has read all that it could get, but {count} messages"
                " may be hidden by leases of an earlier process until"
                f" {moment(int(until + service_is_ahead) + 1)} at the latest: start the query"
                " again then. Nothing is lost"
            )
        if not self._told:
            self._told = True
            log.warning(
                "%d messages may be hidden by leases of an earlier process: this availableNow run"
                " waits for them, %d s at most",
                count,
                left,
            )
        self._sleep(min(left + _A_MOMENT_S, _LOOK_AGAIN_S))
        return False
