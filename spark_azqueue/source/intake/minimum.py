"""Delays a batch until enough messages wait, or until a message must not wait longer.

This module implements `minMessagesPerTrigger` and `maxTriggerDelay`. No message is leased during
the delay: the service's counts show how many messages wait. When a count changes, a peek shows the
age and the expiry of the first messages. So the delay of a message is measured from its insertion,
even if the query is restarted.
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
"""A batch begins this many seconds before a waiting message expires."""

_LOOK_AGAIN_S = 60.0
"""Seconds between two peeks at a queue whose messages are all invisible."""


class _Seen(NamedTuple):
    """Result of a peek.

    messages: the queue's message count at the time of the peek. at: local time of the peek.

    due: local time at which a batch must begin, because at this time a message has waited long
    enough or is about to expire. None if unknown.
    """

    messages: int
    at: float
    due: float | None


class MinimumBatch:
    """Decides whether enough messages wait for a batch. Used by one thread.

    The service's counts are approximate and include invisible messages.
    """

    def __init__(
        self,
        config: SourceConfig,
        client: QueueClient,
        vanished: Callable[[QueueRef], bool],
        held: Callable[[], int],
        isolation: Isolation,
        clock: Callable[[], float],
    ) -> None:
        """Store the arguments; nothing is sent.

        vanished: called for a queue that does not exist; returns True if the other queues may still
        be read. held: returns the number of messages that this process has leased for earlier
        batches. isolation: finds messages that a transaction may have abandoned. No batch begins
        because of such a message.
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
        self._since: float | None = None  # time when a waiting message was first seen
        self._seen: dict[QueueRef, _Seen] = {}
        self._blind: set[QueueRef] = set()  # queues that the credential may not peek at
        self._left = 0  # number of messages of the newest count that are in no batch

    def stop(self) -> None:
        """From now on, let a batch begin with any number of messages.

        Called in an availableNow run.
        """
        if self._least:
            log.warning(
                "an availableNow run reads all that is there: minMessagesPerTrigger=%d is ignored",
                self._least,
            )
        self._least = None

    def seconds_until_due(self) -> float:
        """Return the seconds until the queues may be counted again; 0 if they may be counted
        now."""
        return max(0.0, self._pace.not_before - self._clock()) if self._least else 0.0

    def has_enough(self, queues: Sequence[QueueRef]) -> bool:
        """Count the messages of these queues. Return True if a batch may begin.

        Raises ServiceError, QueueNotFound or AccessDenied.
        """
        if not self._least:
            return True
        held = self._held()  # before the count, so that a message deleted in between counts as held
        counts = self._count(queues)
        more = sum(counts.values()) - held
        waiting = self._left = max(0, more)
        now = self._clock()
        if waiting >= self._least:
            return self._begin()
        if not more:
            self._since, self._seen = None, {}
        elif waiting:  # (if messages were deleted in between, `more` is below 0 and shows nothing)
            self._look(counts, now)
            is_first = self._since is None
            self._since = now if self._since is None else self._since
            if self._due <= now:
                log.info("a batch begins with fewer than minMessagesPerTrigger: %d", waiting)
                return self._begin()
            if is_first:
                log.info(
                    "%d messages wait for minMessagesPerTrigger=%d, for at most %g s",
                    *(waiting, self._least, self._due - now),
                )
        pace = self._pace.rest(found=False, now=now, longest_s=self._longest_pause_s)
        self._pace = replace(pace, not_before=min(pace.not_before, self._due))
        return False

    def given(self, messages: int) -> None:
        """Record that a batch of this many messages was leased."""
        self._left = max(0, self._left - messages)

    @property
    def has_enough_left(self) -> bool:
        """Return True if the last count was enough for one more batch."""
        return not self._least or self._left >= self._least

    def _begin(self) -> bool:
        self._since, self._seen, self._pace = None, {}, Pace()
        return True

    @property
    def _due(self) -> float:
        """Return the time at which a batch must begin with any number of messages; `inf` if no
        message waits."""
        seen = (each.due for each in self._seen.values() if each.due is not None)
        since = math.inf if self._since is None else self._since
        return min(since + self._longest_s, *seen, math.inf)

    def _count(self, queues: Sequence[QueueRef]) -> Mapping[QueueRef, int]:
        calls = [(queue, Count(queue)) for queue in queues]
        return dict(answers_of(self._client, calls, self._vanished))

    def _look(self, counts: Mapping[QueueRef, int], now: float) -> None:
        """Peek at the queues whose first messages may have changed since the last peek."""
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
        """Return the time at which a batch must begin for these messages; None if unknown."""
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
