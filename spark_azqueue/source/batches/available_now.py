"""Which messages belong to an availableNow run: those that were in the queues when it began.

The service gives the insertion time of a message in whole seconds of its own clock. It returns
messages roughly in the order in which they became visible.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable

from spark_azqueue.service.messages import Message, MessageKey, QueueRef

log = logging.getLogger(__name__)

ENOUGH_NEWER = 1_024
"""After this many messages in a row with nothing new (see `Cutoff`), a queue counts as read."""

NEWER_AT_MOST = 32_768
"""After this many with nothing new, a look at a queue ends, even if a released one is awaited."""


HANDED_OUT_AT_MOST = 1_000_000
"""How many messages a run hands out without deleting them (about 200 MB of ids)."""


class Cutoff:
    """Tells which messages a run wants, and when a queue holds none of them any more.

    A message is nothing new if it was inserted after the run began, or if it came before in the
    same look (its lease ended meanwhile). Each queue has its own counts.

    until: microseconds since 1970, service's clock.
    """

    def __init__(self, until: int) -> None:
        self._until = until
        self._awaited: set[MessageKey] = set()
        self._met: set[MessageKey] = set()  # older messages of this look
        self._in_a_row: Counter[QueueRef] = Counter()
        self._no_news: Counter[QueueRef] = Counter()
        self._is_full = False

    def wants(self, message: Message) -> bool:
        """True if this message was inserted before the run began, or in the same second."""
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

    @property
    def awaited(self) -> frozenset[MessageKey]:
        """Messages that were released in this run, and did not come since."""
        return frozenset(self._awaited)

    def released(self, keys: Iterable[MessageKey]) -> None:
        """Note that a replay in this run released these messages: the run has to read them."""
        self._awaited.update(keys)

    def is_full(self, handed_out: int) -> bool:
        """True if the run has handed out all that it can remember: it ends early.

        handed_out: how many of these messages are not known to be deleted.
        """
        if not self._is_full and handed_out >= HANDED_OUT_AT_MOST:
            self._is_full = True
            log.warning(
                "this availableNow run gave out %d messages that are not deleted, as with"
                " deleteOnCommit=false, and ends here: start it again for the rest",
                HANDED_OUT_AT_MOST,
            )
        return self._is_full

    def begin_look(self) -> None:
        """Start the counts for a new look at the queues."""
        self._met.clear()
        self._in_a_row.clear()
        self._no_news.clear()

    def read(self, queue: QueueRef) -> bool:
        """True if a look at this queue may end before an empty page comes."""
        if self._no_news[queue] >= NEWER_AT_MOST:
            return True
        if self._in_a_row[queue] < ENOUGH_NEWER:
            return False
        return not any(key.queue == queue for key in self._awaited)
