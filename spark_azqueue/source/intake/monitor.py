"""Monitor of the queues before a batch: which queues to read, how full they are, which are due.

The driver that leases and the driver that plans for executors use the monitor. Nothing is leased
here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from spark_azqueue.options.source_config import SourceConfig
from spark_azqueue.service.messages import QueueRef
from spark_azqueue.service.queues.client import QueueClient

from ..runtime import Runtime
from .backlog import Backlog, Isolation
from .minimum import MinimumBatch
from .queues import Queues

_CHECKS = 8
"""Most queues that are checked at once."""

_NAP_AT_MOST_S = 0.25
"""Longest sleep in an idle `latestOffset`: a query waits for each of its sources in turn."""


class Reads(Protocol):
    """Reader of messages from the queues."""

    def read_from(self, queues: Sequence[QueueRef]) -> None:
        """Read these queues from now on."""

    def seconds_until_due(self) -> float:
        """Seconds until a queue is due (0 = now)."""


class Counted(NamedTuple):
    """Counts of messages by queue. heads: age of a queue's first visible message, in seconds."""

    backlog: Mapping[str, int]
    poison: Mapping[str, int]
    heads: Mapping[str, int]


class QueueMonitor:
    """The queues of one query run. Used by one thread. Not kept over a restart."""

    def __init__(
        self,
        config: SourceConfig,
        client: QueueClient,
        runtime: Runtime,
        held: Callable[[], int] = lambda: 0,
    ) -> None:
        """Store; `open` sends the first request. held: number of messages of earlier batches."""
        clock, submit = runtime.clock, runtime.make_workers(_CHECKS, "check").submit
        self._config = config
        self._sleep = runtime.sleep
        self._queues = Queues(config, client, submit, clock)
        self.vanished = self._queues.vanished
        self.isolation = Isolation(config.isolation_level, clock)
        self.minimum = MinimumBatch(config, client, self.vanished, held, self.isolation, clock)
        self.backlog = Backlog(client, config.queues, clock, peeks=1)
        poison = config.poison_queues_of(config.queues)
        self._poison = Backlog(client, poison, clock, may_lack=True)
        self._reader: Reads | None = None
        self.is_open = False
        self.is_limited = False
        """True if the run reads only the messages and queues that existed when it was limited."""

    @property
    def queues(self) -> tuple[QueueRef, ...]:
        """The queues that are read now."""
        return self._queues.now

    def used_by(self, reader: Reads) -> None:
        """Set the reader, which is notified when the list of queues changes."""
        self._reader = reader

    def open(self) -> datetime:
        """Find the queues and check each; see `Queues.open`. Return the service's time."""
        at = self._queues.open(poison_too=not self.is_open)
        self._use_queues()
        self.is_open = True
        return at

    def limit(self) -> None:
        """Limit the run to the messages that exist now. Then it ends."""
        self.is_limited = True
        self.minimum.stop()

    @property
    def is_look_due(self) -> bool:
        """True if it is time to look for new and removed queues."""
        return self._queues.seconds_until_due() == 0 and not self.is_limited

    def look(self) -> None:
        """Look for new and removed queues."""
        if self._queues.look_again():
            self._use_queues()

    def may_begin(self, *, is_last: bool = False) -> bool:
        """True if a batch may begin. Otherwise sleep for up to 0.25 s and return False.

        A batch may not begin if no queue is due, because all were empty lately, or if too few
        messages wait (see `MinimumBatch`). Raises ServiceError.

        is_last: the run may end after this batch, so any number of messages is enough. (Spark 4.0
        and 4.1 do not tell the source about an availableNow run.)
        """
        assert self._reader
        pause = self._reader.seconds_until_due()
        if not is_last:
            pause = max(pause, self.minimum.seconds_until_due())
        if pause:
            self._sleep(min(pause, _NAP_AT_MOST_S))
        return pause <= _NAP_AT_MOST_S and (is_last or self.minimum.has_enough(self.queues))

    def counted(self, *, idle: bool) -> Counted:
        """Return recent counts of the service, which are refreshed seldom; empty before `open`."""
        if not self.is_open:
            return Counted({}, {}, {})
        backlog, poison = self.backlog.newest(idle=idle), self._poison.newest(idle=idle)
        return Counted(backlog, poison, dict(self.backlog.heads))

    def _use_queues(self) -> None:
        if self._reader:
            self._reader.read_from(self.queues)
        self.backlog.count_in(self.queues)
        self._poison.count_in(self._config.poison_queues_of(self.queues))
