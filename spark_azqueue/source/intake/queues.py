"""The queues that a stream reads now: those given by name, and those that a pattern matches.

The account is asked for its queues at the start and then every minute, with one request for up to
5,000 of them. Not kept over a restart.
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
"""How long after a look for new queues the next one follows."""

MOST_QUEUES = 1_000
"""The most queues of one query: an empty one is asked up to once for each `maxPollInterval`."""

_NAMED_AT_MOST = 5


class Queues:
    """Finds and checks queues. Used by one thread, except `vanished`."""

    def __init__(
        self,
        config: SourceConfig,
        client: QueueClient,
        submit: Submit,
        clock: Callable[[], float],
    ) -> None:
        """Store the arguments; nothing is sent. submit: runs checks beside each other."""
        self._config = config
        self._selection = config.selection
        self._client = client
        self._submit = submit
        self._clock = clock
        self._look_at: float | None = None  # None: never, since every queue is given by name
        self._left_out: dict[QueueRef, str] = {}  # found, and not usable: why
        self.now: tuple[QueueRef, ...] = config.queues
        """In the order of the option `queue`, then by name."""

    def open(self, *, poison_too: bool) -> datetime:
        """Find the queues and check each (see `check_queues`). Returns the service's time.

        If patterns match nothing, that is a warning: such a queue may come later. Raises
        QueueNotFound for a missing queue that is given by name, AccessDenied, ServiceError, and
        InvalidOption if there are too many queues.
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
        """How long until the next look for queues (0 = now); None if there is none."""
        return None if self._look_at is None else max(0.0, self._look_at - self._clock())

    def look_again(self) -> bool:
        """Find out which queues came and went. Returns True if some did. Never raises.

        A new queue that cannot be used is left out, with a warning, and tried again at each look.
        """
        self._look_at = self._clock() + LOOK_AGAIN_S
        try:
            found = self._found()
        except AzQueueError as error:
            log.warning("queues that came or went are not known: %s", error)
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
        """The service says that this queue does not exist. False if that must not be.

        A queue that a pattern found may go; then the next look follows at once. Thread-safe.
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
        """See `check_queues`. Without queues of a pattern that went while they were checked."""
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
