"""The queues that a stream reads now: queues given by name, and queues that match a pattern.

If there are patterns, the account's queues are listed at the start and then every minute. The
listing needs one request per 5,000 queues. The list is lost at a restart.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import datetime, timezone

from spark_azqueue.errors import AzQueueError, InvalidOption, QueueNotFound
from spark_azqueue.options.source_config import SourceConfig
from spark_azqueue.service.messages import QueueRef
from spark_azqueue.service.queues.client import QueueClient

from ..preflight import Submit, check_queues

log = logging.getLogger(__name__)

LOOK_AGAIN_S = 60.0
"""Seconds between two searches for added and removed queues."""

MOST_QUEUES = 1_000
"""Maximum number of queues of one query. Even an empty queue costs one request per
`maxPollInterval`."""

_NAMED_AT_MOST = 5


class Queues:
    """The current list of queues, found and checked. Used by one thread, except `vanished`."""

    def __init__(
        self,
        config: SourceConfig,
        client: QueueClient,
        submit: Submit,
        clock: Callable[[], float],
    ) -> None:
        """Store the arguments; nothing is sent. submit: runs a check in the background."""
        self._config = config
        self._selection = config.selection
        self._client = client
        self._submit = submit
        self._clock = clock
        self._look_at: float | None = None  # None if every queue is given by name
        self._left_out: dict[QueueRef, str] = {}  # the reason why a found queue cannot be used
        self.now: tuple[QueueRef, ...] = config.queues
        """Queues that are read: first the queues given by name, in the order of the option `queue`,
        then the found queues by name."""

    def open(self, *, poison_too: bool) -> datetime:
        """Find the queues and check each queue (see `check_queues`). Return the service's time.

        If no queue matches the patterns, this method only logs a warning, because a queue may be
        created later. Raises QueueNotFound if a queue given by name is missing, InvalidOption if
        there are too many queues, AccessDenied, and ServiceError.
        """
        if self._selection.patterns:
            self.now = self._found()
            self._look_at = self._clock() + LOOK_AGAIN_S
        times = self._checked(self.now, poison_too=poison_too)
        for result in times.values():
            if isinstance(result, Exception):
                raise result
        self.now = tuple(times)
        if not self.now:
            log.warning(
                "no queue of account '%s' matches %s now; it is looked for every %d s",
                self._selection.account,
                self._selection.patterns_in_words,
                LOOK_AGAIN_S,
            )
        answered = [result for result in times.values() if isinstance(result, datetime)]
        return min(answered, default=datetime.now(timezone.utc))

    def seconds_until_due(self) -> float | None:
        """Return the seconds until the next search for queues; 0 if a search is due, None without
        patterns."""
        return None if self._look_at is None else max(0.0, self._look_at - self._clock())

    def look_again(self) -> bool:
        """Search for added and removed queues. Return True if the list has changed. Never raises.

        An added queue that cannot be used is left out with a warning, and checked again at each
        search.
        """
        self._look_at = self._clock() + LOOK_AGAIN_S
        try:
            found = self._found()
        except AzQueueError as error:
            log.warning("the list of queues could not be refreshed: %s", error)
            return False
        known = set(self.now)
        checked = self._checked([queue for queue in found if queue not in known], poison_too=True)
        unusable = {queue: str(r) for queue, r in checked.items() if isinstance(r, Exception)}
        for queue, reason in unusable.items():
            if self._left_out.get(queue) != reason:
                log.warning("queue '%s' is not read: %s", queue.name, reason)
        self._left_out = unusable
        usable = known | (checked.keys() - unusable.keys())
        before, self.now = self.now, tuple(queue for queue in found if queue in usable)
        if self.now == before:
            return False
        log.info(
            "queues that match %s: %s came, %s went",
            self._selection.patterns_in_words,
            _in_words(set(self.now) - set(before)),
            _in_words(set(before) - set(self.now)),
        )
        return True

    def vanished(self, queue: QueueRef) -> bool:
        """Return True if it is no error that this queue does not exist, because only a pattern
        selected it.

        If so, the next search for queues is due at once. Thread-safe.
        """
        if not self._selection.comes_and_goes(queue):
            return False
        self._look_at = self._clock()
        return True

    def _found(self) -> tuple[QueueRef, ...]:
        found = self._selection.among(self._client.names(self._selection.prefix))
        if len(found) > MOST_QUEUES:
            patterns = self._selection.patterns_in_words
            raise InvalidOption(
                f"option 'queue' selects {len(found):,} queues with {patterns}, and one query"
                f" reads at most {MOST_QUEUES:,}: use narrower patterns, in several queries"
            )
        return found

    def _checked(
        self, queues: Sequence[QueueRef], *, poison_too: bool
    ) -> dict[QueueRef, datetime | AzQueueError]:
        """Call `check_queues`.

        Queues that match a pattern and were removed before the check are left out.
        """
        checked = check_queues(
            self._config, self._client, queues, self._submit, poison_too=poison_too
        )
        return {
            queue: result
            for queue, result in checked.items()
            if not (isinstance(result, QueueNotFound) and self._selection.comes_and_goes(queue))
        }


def _in_words(queues: set[QueueRef]) -> str:
    names = sorted(queue.name for queue in queues)
    if len(names) > _NAMED_AT_MOST:
        return f"{len(names)} ({', '.join(names[:_NAMED_AT_MOST])}, …)"
    return ", ".join(names) or "none"
