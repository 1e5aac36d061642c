"""Holds a batch back until enough messages wait, or one of them cannot wait any longer.

For `minMessagesPerTrigger` and `maxTriggerDelay`. Nothing is leased meanwhile: the service is asked
how many messages its queues hold, and (by a peek, when that number changes) how old the first ones
are and when they expire. So the delay counts from when a message was sent, also over a restart.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import NamedTuple

from spark_azqueue.errors import AccessDenied, QueueNotFound
from spark_azqueue.options.source_config import SourceConfig
from spark_azqueue.service.messages import MAX_PER_REQUEST, UNKNOWN_TIME, QueueRef
from spark_azqueue.service.queues.calls import Count, Peek, Peeked
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.service.queues.flow import answers_of, results_of
from spark_azqueue.service.retry import CONTROL

from .backlog import Isolation
from .polling import Pace

log = logging.getLogger(__name__)

BEFORE_EXPIRY_S = 30.0
"""A batch begins so long before a message expires."""

_LOOK_AGAIN_S = 60.0
"""Pause between two peeks into a queue whose messages are all hidden."""


class _Seen(NamedTuple):
    """What a peek saw. messages: how many the queue had then. at, due: by our clock.

    due: when the first message has waited for long enough, or expires soon.
    """

    messages: int
    at: float
    due: float | None


class MinimumBatch:
    """Used by one thread. Counts are approximate, and hidden messages are in them."""

    def __init__(
        self,
        config: SourceConfig,
        client: QueueClient,
        vanished: Callable[[QueueRef], bool],
        held: Callable[[], int],
        isolation: Isolation,
        clock: Callable[[], float],
    ) -> None:
        """Store; nothing is sent.

        vanished: called for a queue that does not exist; true if the others may be read on. held:
        how many messages this process has leased, for earlier batches. isolation: says which
        messages give no row, so that no batch is begun for them.
        """
        self._least = config.min_messages
        self._longest_s = config.max_trigger_delay
        self._longest_pause_s = config.max_poll_interval
        self._client = client
        self._vanished = vanished
        self._held = held
        self._isolation = isolation
        self._clock = clock
        self._pace = Pace()
        self._since: float | None = None  # when the first message was seen that waits
        self._seen: dict[QueueRef, _Seen] = {}
        self._blind: set[QueueRef] = set()  # may not be peeked into
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
        counts = self._count(queues)
        more = sum(counts.values()) - held
        waiting = self._left = max(0, more)
        now = self._clock()
        if waiting >= self._least:
            return self._begin()
        if not more:
            self._since, self._seen = None, {}
        elif waiting:  # (less than 0: deleted between the two looks, which says nothing)
            self._look(counts, now)
            is_first = self._since is None
            self._since = now if self._since is None else self._since
            if self._due <= now:
                log.info("a batch begins with fewer than minMessagesPerTrigger: %d", waiting)
                return self._begin()
            if is_first:
                log.info(
                    "%d messages wait for minMessagesPerTrigger=%d, for %g s at most",
                    *(waiting, self._least, self._due - now),
                )
        pace = self._pace.rest(found=False, now=now, longest_s=self._longest_pause_s)
        self._pace = replace(pace, not_before=min(pace.not_before, self._due))
        return False

    def given(self, messages: int) -> None:
        """A batch of this many messages was leased."""
        self._left = max(0, self._left - messages)

    @property
    def has_enough_left(self) -> bool:
        """True if one more batch may be leased without a new count."""
        return not self._least or self._left >= self._least

    def _begin(self) -> bool:
        self._since, self._seen, self._pace = None, {}, Pace()
        return True

    @property
    def _due(self) -> float:
        """When a batch has to begin, with as many messages as there are; `inf` if none waits."""
        seen = (each.due for each in self._seen.values() if each.due is not None)
        since = math.inf if self._since is None else self._since
        return min(since + self._longest_s, *seen, math.inf)

    def _count(self, queues: Sequence[QueueRef]) -> Mapping[QueueRef, int]:
        calls = [(queue, Count(queue)) for queue in queues]
        return dict(answers_of(self._client, calls, self._vanished))

    def _look(self, counts: Mapping[QueueRef, int], now: float) -> None:
        """Peek into the queues whose first messages may be others than at the last peek."""
        self._seen = {queue: seen for queue, seen in self._seen.items() if counts.get(queue)}
        calls = [
            (queue, Peek(queue, MAX_PER_REQUEST))
            for queue, count in counts.items()
            if count and queue not in self._blind and self._has_changed(queue, count, now)
        ]
        with closing(results_of(self._client, calls, CONTROL)) as results:
            for queue, result in results:
                if isinstance(result, AccessDenied) and result.status == 403:
                    self._blind.add(queue)
                    log.warning(
                        "the age of the first message of queue '%s' stays unknown in this run, so"
                        " maxTriggerDelay counts from when the query sees it, and messages that"
                        " expire sooner are not read in time: %s",
                        *(queue.name, result),
                    )
                elif isinstance(result, QueueNotFound) and self._vanished(queue):
                    continue
                elif isinstance(result, Exception):
                    raise result
                else:
                    self._seen[queue] = _Seen(counts[queue], now, self._due_of(result, now))

    def _has_changed(self, queue: QueueRef, count: int, now: float) -> bool:
        seen = self._seen.get(queue)
        if seen is None or seen.messages != count:
            return True
        return seen.due is None and now - seen.at >= _LOOK_AGAIN_S

    def _due_of(self, peeked: Peeked, now: float) -> float | None:
        """When a batch has to begin for what was seen; None if no message says."""
        answered_at = peeked.answered_at
        if answered_at is None:
            return None
        due = math.inf
        for message in peeked.messages:
            if self._isolation.may_be_abandoned(message, answered_at):
                continue
            if message.insertion_time != UNKNOWN_TIME:
                age_s = (answered_at - message.insertion_time) / 1_000_000
                due = min(due, now + self._longest_s - max(0.0, age_s))
            if message.expiration_time != UNKNOWN_TIME:
                lives_s = (message.expiration_time - answered_at) / 1_000_000
                due = min(due, now + lives_s - BEFORE_EXPIRY_S)
        return due if due < math.inf else None
