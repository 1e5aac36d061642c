"""Holds a batch back until enough messages wait, or one of them has waited for long enough.

For `minMessagesPerTrigger` and `maxTriggerDelay`. Nothing is leased meanwhile: the service is asked
how many messages its queues hold. Not kept over a restart: the delay then begins again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from spark_azqueue.options.source_config import SourceConfig
from spark_azqueue.service.messages import QueueRef
from spark_azqueue.service.queues.calls import Count
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.service.queues.flow import answers_of

from .batches.polling import Pace

log = logging.getLogger(__name__)


class Gathering:
    """Used by one thread. Counts are approximate, and hidden messages are in them."""

    def __init__(
        self,
        config: SourceConfig,
        client: QueueClient,
        vanished: Callable[[QueueRef], bool],
        held: Callable[[], int],
        clock: Callable[[], float],
    ) -> None:
        """Store; nothing is sent.

        vanished: told of a queue that does not exist; true if the others may be read on. held: how
        many messages this process has leased, for earlier batches.
        """
        self._least = config.min_messages
        self._longest_s = config.max_trigger_delay
        self._longest_pause_s = config.max_poll_interval
        self._client = client
        self._vanished = vanished
        self._held = held
        self._clock = clock
        self._pace = Pace()
        self._since: float | None = None  # when the first message was seen that waits
        self._left = 0  # of the newest count, what no batch has had

    def stop(self) -> None:
        """From now on any number is enough: an availableNow run reads what there is."""
        if self._least:
            log.warning(
                "an availableNow run reads all that is there: minMessagesPerTrigger=%d is ignored",
                self._least,
            )
        self._least = None

    def seconds_until_due(self) -> float:
        """How long until the queues may be counted again (0 = now)."""
        return max(0.0, self._pace.not_before - self._clock()) if self._least else 0.0

    def has_enough(self, queues: Sequence[QueueRef]) -> bool:
        """True if a batch may begin. Counts the messages of these queues.

        Raises ServiceError, also QueueNotFound and AccessDenied.
        """
        if not self._least:
            return True
        held = self._held()  # first: what is deleted meanwhile counts as held, not as waiting
        more = self._count(queues) - held
        waiting = self._left = max(0, more)
        now = self._clock()
        if not more:
            self._since = None
        elif waiting and self._since is None:
            self._since = now  # (less than 0: deleted between the two looks, which says nothing)
        is_over = self._since is not None and now - self._since >= self._longest_s
        if waiting >= self._least or is_over:
            self._since = None
            self._pace = Pace()
            return True
        if self._since == now:
            log.info(
                "%d messages wait for minMessagesPerTrigger=%d, for %g s at most",
                waiting,
                self._least,
                self._longest_s,
            )
        self._pace = self._pace.rest(found=False, now=now, longest_s=self._longest_pause_s)
        return False

    def given(self, messages: int) -> None:
        """A batch of so many messages was leased."""
        self._left = max(0, self._left - messages)

    @property
    def has_enough_left(self) -> bool:
        """True if one more batch may be leased without a new count."""
        return not self._least or self._left >= self._least

    def _count(self, queues: Sequence[QueueRef]) -> int:
        calls = [(queue, Count(queue)) for queue in queues]
        return sum(count for _, count in answers_of(self._client, calls, self._vanished))
