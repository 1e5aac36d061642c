"""What both consumers do alike: the initial offset, batches from before a log, and the engine."""

from __future__ import annotations

from spark_azqueue.metrics.report import Report
from spark_azqueue.service.messages import Lease

from .batches.commits import CommitTracker
from .engine import Engine
from .offsets import OffsetJson, QueueOffset
from .restored import RestoredBatches


class StreamConsumer:
    """The calls that mean the same with a write-ahead log and without."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._account = engine.config.account.name
        self.initial: OffsetJson = QueueOffset(self._account).to_json()
        """The offset of a query that has read nothing: the same in every run, with a log or not."""
        self._commits = CommitTracker(self.initial)  # of batches whose offsets hold leases
        self._restored = RestoredBatches(engine, self._commits)

    def only_what_is_there(self) -> None:
        """From now on read only messages inserted by now (the service's clock, whole seconds)."""
        self._engine.only_what_is_there()

    def report(self) -> Report:
        """The backlog, what is held, and what this run has counted. Sends little, seldom."""
        return self._engine.report()

    def renew_due(self) -> int:
        """Renew the leases that are due now, as the background thread does; returns how many."""
        return self._engine.holder.renew_due()

    def keeps(self, lease: Lease) -> bool:
        """True if this message is in hand, and its lease is renewed when that is due."""
        return self._engine.holder.keeps(lease)

    def wait(self, timeout_s: float) -> None:
        """Wait for what goes on in the background: a look ahead, renewals, deletes.

        Raises what went wrong there.
        """
        self._engine.wait(timeout_s)
