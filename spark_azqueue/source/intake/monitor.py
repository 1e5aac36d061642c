"""Monitors the queues before a batch: decides which queues to read, and when a batch may begin.

Used with leaseOn=driver and with leaseOn=executors. This module leases no messages.
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
"""Maximum number of queues that are checked at once."""

_NAP_AT_MOST_S = 0.25
"""Longest sleep, in seconds, in `latestOffset` without messages. The sleep is short because a query
calls its sources one after the other."""


class Reads(Protocol):
    """Reader of messages from queues, to which the monitor passes the list of queues."""

    def read_from(self, queues: Sequence[QueueRef]) -> None:
        """From now on, read these queues."""

    def seconds_until_due(self) -> float:
        """Return the seconds until the first queue is due; 0 if a queue is due now."""


class Counted(NamedTuple):
    """Number of messages by queue. heads: age of each queue's first visible message in seconds."""

    backlog: Mapping[str, int]
    poison: Mapping[str, int]
    heads: Mapping[str, int]


class QueueMonitor:
    """The queues of one run of a query. Used by one thread. Its state is lost at a restart."""

    def __init__(
        self,
        config: SourceConfig,
        client: QueueClient,
        runtime: Runtime,
        held: Callable[[], int] = lambda: 0,
    ) -> None:
        """Store the arguments; `open` sends the first request.

        held: returns the number of messages that this process has leased for earlier batches.
        """
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
        """True if the run reads only messages and queues that existed when `limit` was called."""

    @property
    def queues(self) -> tuple[QueueRef, ...]:
        """The queues that are read now."""
        return self._queues.now

    def used_by(self, reader: Reads) -> None:
        """Set the reader. The monitor passes each change of the list of queues to the reader."""
        self._reader = reader

    def open(self) -> datetime:
        """Find the queues and check each queue; see `Queues.open`. Return the service's time."""
        at = self._queues.open(poison_too=not self.is_open)
        self._use_queues()
        self.is_open = True
        return at

    def limit(self) -> None:
        """Limit the run to the messages that exist now. The run ends when they are read."""
        self.is_limited = True
        self.minimum.stop()

    @property
    def is_look_due(self) -> bool:
        """Return True if it is time to search for added and removed queues."""
        return self._queues.seconds_until_due() == 0 and not self.is_limited

    def look(self) -> None:
        """Search for added and removed queues."""
        if self._queues.look_again():
            self._use_queues()

    def may_begin(self, *, is_last: bool = False) -> bool:
        """Return True if a batch may begin. Otherwise sleep for up to 0.25 s and return False.

        A batch may not begin while no queue is due: all queues were empty when they were last
        asked. A batch may also not begin while too few messages wait (see `MinimumBatch`). Raises
        ServiceError.

        is_last: True if the run may end after this batch, so that any number of messages is enough.
        (Spark 4.0 and 4.1 do not tell the source that a run is an availableNow run.)
        """
        assert self._reader
        pause = self._reader.seconds_until_due()
        if not is_last:
            pause = max(pause, self.minimum.seconds_until_due())
        if pause:
            self._sleep(min(pause, _NAP_AT_MOST_S))
        return pause <= _NAP_AT_MOST_S and (is_last or self.minimum.has_enough(self.queues))

    def counted(self, *, idle: bool) -> Counted:
        """Return recent counts by the service, which are refreshed seldom.

        The counts are empty before `open`.
        """
        if not self.is_open:
            return Counted({}, {}, {})
        backlog, poison = self.backlog.newest(idle=idle), self._poison.newest(idle=idle)
        return Counted(backlog, poison, dict(self.backlog.heads))

    def _use_queues(self) -> None:
        if self._reader:
            self._reader.read_from(self.queues)
        self.backlog.count_in(self.queues)
        self._poison.count_in(self._config.poison_queues_of(self.queues))
