"""What belongs to an availableNow run: the messages that were there when it began.

The service tells when a message was inserted, in whole seconds of its own clock, and gives messages
roughly in the order in which they became visible.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from spark_azqueue.service.messages import Message, MessageKey, QueueRef

ENOUGH_NEWER = 1_024
"""After this many messages in a row with no news, a queue's older ones count as read."""

NEWER_AT_MOST = 32_768
"""After this many with no news a look at a queue ends, even if a released one is awaited."""


class Cutoff:
    """Tells which messages a run wants, and when a queue holds none of them any more.

    No news is a message inserted after the run began, or one that came before in the same look:
    its lease ended meanwhile. Each queue is counted by itself.

    until: microseconds since 1970, service's clock.
    """

    def __init__(self, until: int) -> None:
        self._until = until
        self._awaited: set[MessageKey] = set()
        self._met: set[MessageKey] = set()  # older messages of this look
        self._in_a_row: Counter[QueueRef] = Counter()
        self._no_news: Counter[QueueRef] = Counter()

    def wants(self, message: Message) -> bool:
        """True for a message inserted before the run (its very second included)."""
        key = message.key
        self._awaited.discard(key)
        older = message.insertion_time <= self._until
        if older and key not in self._met:
            self._met.add(key)
            self._in_a_row[message.queue] = 0
        else:
            self._in_a_row[message.queue] += 1
            self._no_news[message.queue] += 1
        return older

    def released(self, keys: Iterable[MessageKey]) -> None:
        """A replay of this run made these visible again: they are to be read in it."""
        self._awaited.update(keys)

    def begin_look(self) -> None:
        """A new look at the queues begins; everything is counted again."""
        self._met.clear()
        self._in_a_row.clear()
        self._no_news.clear()

    def read(self, queue: QueueRef) -> bool:
        """True when a look at this queue may end without having met an empty page."""
        if self._no_news[queue] >= NEWER_AT_MOST:
            return True
        if self._in_a_row[queue] < ENOUGH_NEWER:
            return False
        return not any(key.queue == queue for key in self._awaited)
