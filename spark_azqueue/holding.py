"""The messages in hand: the ledger under its lock, with what renews and settles them.

Several threads report here (deletes, renewals), one asks. Ring: edge.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Protocol

from .azure_queue import QueueService
from .config import SourceConfig
from .errors import Outcome
from .leases import Lease, Sizing, Term
from .ledger import Fate, Ledger
from .messages import Message
from .renewal import Renewer
from .reporting import Report
from .settling import Settler
from .workers import Submits


class MakeWorkers(Protocol):
    """Makes a pool of threads (tests make one that works at once)."""

    def __call__(self, count: int, name: str) -> Submits:
        """Make a pool of up to `count` threads."""
        ...


class Holding:
    """What this process holds, and the threads that keep and settle it."""

    def __init__(
        self,
        config: SourceConfig,
        service: QueueService,
        make_workers: MakeWorkers,
        clock: Callable[[], float],
    ) -> None:
        self._fixed = config.visibility_timeout
        self._delete = config.delete_on_commit
        self._clock = clock
        self._lock = threading.Lock()
        self._ledger = Ledger()
        self._sizing = Sizing()
        self._since: dict[int, float] = {}
        parallelism = config.delete_parallelism
        self.settler = Settler(service, make_workers(1, "settle"), parallelism, self._settled)
        self.renewer = Renewer(
            self._ledger,
            self._lock,
            service,
            self.settler,
            parallelism,
            self.visibility_s,
            clock,
        )

    def now(self) -> float:
        """The clock that terms count in (seconds)."""
        return self._clock()

    def visibility_s(self) -> int:
        """How long to lease for now: as the option says, or sized from observed batches."""
        return self._fixed if self._fixed is not None else self._sizing.visibility_s()

    def dequeued(self, message: Message, term: Term) -> Fate:
        """Ask the ledger about a message that came, and note it there."""
        with self._lock:
            return self._ledger.dequeued(message, term)

    def hand_out(self, messages: Iterable[Message], batch: int, since: float) -> tuple[Lease, ...]:
        """These make a batch, whose gathering began at `since`. Returns their newest leases."""
        with self._lock:
            self._since[batch] = since
            return tuple(self._ledger.hand_out(messages, batch))

    def committed(self, batch: int) -> None:
        """This batch is committed: begin its deletes, unless deleting is up to the user."""
        with self._lock:
            since = self._since.pop(batch, None)
            if not self._delete:
                self._ledger.forget(batch)
                return
            leases = self._ledger.committed(batch)

        def done(refused: bool) -> None:
            if since is not None:
                took = self._clock() - since
                grow = self._sizing.too_late if refused else self._sizing.on_time
                self._sizing = grow(took)

        self.settler.begin(leases, done)

    def wait(self, timeout_s: float) -> None:
        """Wait for the deletes that are owed, and the renewals they wait for.

        Raises what `Settler.wait` raises.
        """
        self.renewer.wait(timeout_s)
        self.settler.wait(timeout_s)

    def set_aside(self, message: Message) -> None:
        """A copy stands in the poison queue: delete the original."""
        with self._lock:
            leases = self._ledger.set_aside(message)
        self.settler.begin(leases)

    def release(self, batch: int) -> list[Lease]:
        """Forget this batch; returns what is to be released now."""
        with self._lock:
            return self._ledger.release(batch)

    def drop(self, lease: Lease) -> None:
        """Forget one message."""
        with self._lock:
            self._ledger.drop(lease)

    def also_deleted(self, messages: int) -> None:
        """So many messages of an earlier run's batch were deleted: count them."""
        with self._lock:
            self._ledger.counts.deleted += messages

    def report(self, backlog: Mapping[str, int]) -> Report:
        """How things stand now, with this backlog."""
        visibility = self.visibility_s()
        with self._lock:
            remembered = self._ledger.remembered
            held = len(self._ledger) - remembered
            return Report(backlog, held, remembered, visibility, replace(self._ledger.counts))

    def _settled(self, lease: Lease, outcome: Outcome) -> None:
        with self._lock:
            self._ledger.settled(lease, outcome)
