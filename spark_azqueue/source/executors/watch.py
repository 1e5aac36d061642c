"""The queues between two plans: which there are, when to look at them, and what the service counts.

Which of them have messages for a plan is said by `news.py`. Used by one thread; nothing is kept
over a restart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from spark_azqueue.options.source_config import SourceConfig
from spark_azqueue.service.messages import QueueRef
from spark_azqueue.service.queues.client import QueueClient

from ..backlog import Backlog
from ..gathering import MinimumBatch
from ..isolation import Isolation
from ..queues import Queues
from ..runtime import Runtime
from .news import ReadyQueues

_CHECKS = 8
"""Most queues that are checked at once."""

_NAP_AT_MOST_S = 0.25
"""How long one idle `latest` may last: a query with several sources waits for each."""


class Counted(NamedTuple):
    """What the service counts, by queue; heads: the age of the first message, in seconds."""

    backlog: Mapping[str, int]
    poison: Mapping[str, int]
    heads: Mapping[str, int]


class QueueMonitor:
    """The queues of one query run."""

    def __init__(self, config: SourceConfig, client: QueueClient, runtime: Runtime) -> None:
        """Nothing is sent before `open`."""
        clock, submit = runtime.clock, runtime.make_workers(_CHECKS, "check").submit
        self._config = config
        self._sleep = runtime.sleep
        self._queues = Queues(config, client, submit, clock)
        isolation = Isolation(config.isolation_level, clock)
        self.news = ReadyQueues(
            client, isolation, config.max_poll_interval, clock, self._queues.vanished
        )
        # Tasks lease, and have deleted their messages before the batch ends that they belong to.
        self._gathering = MinimumBatch(
            config, client, self._queues.vanished, lambda: 0, isolation, clock
        )
        self.backlog = Backlog(client, config.queues, clock, with_heads=True)
        self._poison = Backlog(client, config.poison_queues_of(config.queues), clock)
        self.is_open = False
        self._ends = False

    @property
    def queues(self) -> Sequence[QueueRef]:
        """Those that are read now."""
        return self._queues.now

    def open(self) -> datetime:
        """Find the queues and check each; see `Queues.open`. Returns the service's time."""
        at = self._queues.open(poison_too=not self.is_open)
        self._use_queues()
        self.is_open = True
        return at

    def only_until(self, cutoff: int) -> None:
        """This run ends, and reads no message inserted later. cutoff: microseconds since 1970."""
        self._ends = True
        self.news.only_until(cutoff)
        self._gathering.stop()

    def look(self) -> None:
        """Find the queues anew if that is due: they come and go."""
        is_due = not self._ends and self._queues.seconds_until_due() == 0
        if is_due and self._queues.look_again():
            self._use_queues()

    def is_due(self) -> bool:
        """False if the queues were empty so lately that it is too early to ask them again.

        Or too few messages wait, see `MinimumBatch`. Lasts a moment then.
        """
        if self._ends:
            return True
        pause = max(self.news.seconds_until_due(), self._gathering.seconds_until_due())
        if pause:
            self._sleep(min(pause, _NAP_AT_MOST_S))
        return pause <= _NAP_AT_MOST_S and self._gathering.has_enough(self._queues.now)

    def counted(self, *, idle: bool) -> Counted:
        """What the service counts, asked seldom; nothing before `open`."""
        if not self.is_open:
            return Counted({}, {}, {})
        backlog, poison = self.backlog.newest(idle=idle), self._poison.newest(idle=idle)
        return Counted(backlog, poison, dict(self.backlog.heads))

    def _use_queues(self) -> None:
        self.news.read_from(self._queues.now)
        self.backlog.count_in(self._queues.now)
        self._poison.count_in(self._config.poison_queues_of(self._queues.now))
