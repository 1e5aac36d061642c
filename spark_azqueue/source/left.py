"""What a driver's program asks queues between two runs of its query: what they still hold."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spark_azqueue.options.parse import source_config
from spark_azqueue.options.source_config import SourceConfig
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.service.retry import CONTROL

from .intake.backlog import Backlog


@dataclass(frozen=True, slots=True)
class Left:
    """What queues hold, by the service's count.

    messages: together, hidden ones too. oldest_s: the age of the oldest one that can be read and is
    the first of its queue, in seconds; None if there is none.
    """

    messages: int
    oldest_s: int | None


class QueuesLeft:
    """Counts the messages of the queues that sources with these options read. Leases nothing."""

    def __init__(self, options: Sequence[Mapping[str, object]]) -> None:
        """Nothing is sent. options: of each source, as its reader gets them.

        Raises InvalidOption.
        """
        self._sources = [_SourceLeft(source_config(_texts(each))) for each in options]
        self.sources = len(self._sources)
        """How many sources read them."""

    def now(self) -> Left | None:
        """A request or two for each queue; None if one does not answer, or may not be counted.

        Raises AccessDenied or ServiceError if the names of queues by pattern cannot be listed.
        """
        found = [each.now() for each in self._sources]
        known = [each for each in found if each]
        if len(known) < len(found):
            return None
        ages = [each.oldest_s for each in known if each.oldest_s is not None]
        return Left(sum(each.messages for each in known), max(ages, default=None))

    def close(self) -> None:
        """Close the connections."""
        for each in self._sources:
            each.client.close()


class _SourceLeft:
    """The same for one source."""

    def __init__(self, config: SourceConfig) -> None:
        self._config = config
        self.client = QueueClient(config.account)
        self._backlog = Backlog(self.client, (), time.monotonic, with_heads=True)

    def now(self) -> Left | None:
        queues = self._config.queues
        if self._config.selection.patterns:
            prefix = self._config.selection.prefix
            queues = self._config.selection.among(CONTROL(self.client.names, prefix))
        self._backlog.count_in(queues)
        counts = self._backlog.now(heads=True)
        if len(counts) < len(queues):
            return None
        return Left(sum(counts.values()), max(self._backlog.heads.values(), default=None))


def _texts(options: Mapping[str, object]) -> dict[str, str]:
    """Options as Spark's reader passes them."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in options.items()
        if value is not None
    }
