"""What a driver's program asks queues between two runs of its query: what they still hold."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spark_azqueue.options.parse import source_config
from spark_azqueue.options.source_config import SourceConfig
from spark_azqueue.service.messages import QueueRef
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.service.retry import CONTROL

from .intake.backlog import Backlog


@dataclass(frozen=True, slots=True)
class Left:
    """What queues hold, by the service's count.

    messages: together, hidden ones too. oldest_s: the age of the oldest one that can be read and is
    the first of its queue, in seconds; None if there is none. all_seen: False if the first message
    of a queue with messages is unknown, so that an older one may be there.
    """

    messages: int
    oldest_s: int | None
    all_seen: bool = True


class QueuesLeft:
    """Counts the messages of the queues that sources with these options read. Leases nothing."""

    def __init__(self, options: Mapping[str, object] | Sequence[Mapping[str, object]]) -> None:
        """Nothing is sent. options: of the source, or of each one, as its reader gets them.

        Raises InvalidOption, and TypeError for what cannot be options.
        """
        self._sources = [_SourceLeft(source_config(_texts(each))) for each in _each(options)]
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
        return Left(
            sum(each.messages for each in known),
            max(ages, default=None),
            all(each.all_seen for each in known),
        )

    def unknown(self, places: Iterable[tuple[str, Iterable[str]]]) -> str:
        """The queues among these that are of no source, in words; "" if there is none.

        places: the accounts of sources, each with names of queues.
        """
        for account, names in places:
            in_account = [each for each in self._sources if each.selection.account == account]
            if not in_account:
                return f"an account other than '{self._sources[0].selection.account}'"
            queues = [QueueRef(account, name) for name in names]
            if all(each.selection.not_read(queues) for each in in_account):
                return f"queues of '{account}' that they do not name"
        return ""

    def close(self) -> None:
        """Close the connections."""
        for each in self._sources:
            each.client.close()


class _SourceLeft:
    """The same for one source."""

    def __init__(self, config: SourceConfig) -> None:
        self._config = config
        self.selection = config.selection
        self.client = QueueClient(config.account)
        self._backlog = Backlog(self.client, (), time.monotonic, with_heads=True)

    def now(self) -> Left | None:
        queues = self._config.queues
        if self.selection.patterns:
            prefix = self.selection.prefix
            queues = self.selection.among(CONTROL(self.client.names, prefix))
        self._backlog.count_in(queues)
        counts = self._backlog.now(heads=True)
        if len(counts) < len(queues):
            return None
        backlog = self._backlog
        return Left(
            sum(counts.values()),
            max(backlog.heads.values(), default=None),
            all(not count or name in backlog.seen for name, count in counts.items()),
        )


def _each(options: Any) -> Sequence[Mapping[str, object]]:
    """Raises TypeError for what cannot be the options of sources."""
    if isinstance(options, Mapping):
        options = [options]
    is_list = isinstance(options, Sequence) and not isinstance(options, str | bytes)
    if not is_list or not all(isinstance(each, Mapping) for each in options):
        raise TypeError(
            "expected the options of the source as a dict, or a list of them if the query has"
            f" several sources, not {type(options).__name__}"
        )
    if not all(isinstance(name, str) for each in options for name in each):
        raise TypeError("expected names of options as text")
    found: Sequence[Mapping[str, object]] = options
    return found


def _texts(options: Mapping[str, object]) -> dict[str, str]:
    """Options as Spark's reader passes them."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in options.items()
        if value is not None
    }
