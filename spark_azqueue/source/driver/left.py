"""Finds the messages that are left in a query's queues between two runs. Used by the user's program
on the driver."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from spark_azqueue.errors import AccessDenied
from spark_azqueue.options.choices import DeleteAfter, QueuePriority
from spark_azqueue.options.parse import source_configs
from spark_azqueue.options.source_config import SourceConfig
from spark_azqueue.service.messages import MAX_PER_REQUEST, UNKNOWN_TIME, Message, QueueRef
from spark_azqueue.service.queues.calls import Count, Peek, Peeked
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.service.queues.flow import answers_of
from spark_azqueue.service.retry import CONTROL

from ..leases.timing import RENEWED_S, START_BY_USER_S, START_ON_EXECUTORS_S, START_S
from ..preflight import with_settings_of_queues


class QueueLook(NamedTuple):
    """Messages found in one queue.

    first: the queue's first visible messages, up to 32. messages: number of messages that the
    service counted before or after the peek, whichever is larger. These counts include invisible
    messages.
    """

    messages: int
    first: tuple[Message, ...]

    @property
    def is_all(self) -> bool:
        """True if `first` contains all visible messages."""
        return len(self.first) < MAX_PER_REQUEST


class QueuesLeft:
    """Queues that sources with these options read. Leases no message."""

    def __init__(self, options: Mapping[str, object] | Sequence[Mapping[str, object]]) -> None:
        """Parse the options; nothing is sent.

        options: options of one reader, or a list of such options.

        Raises InvalidOption, or TypeError if `options` is neither a mapping nor a list of mappings.
        """
        self.sources = [SourceLeft(each) for each in source_configs(options)]

    def unknown(self, places: Iterable[tuple[str, Iterable[str]]]) -> str:
        """Return a phrase that names the queues in `places` that no source reads; "" if there are
        none.

        places: pairs of an account and the names of its queues.
        """
        for account, names in places:
            in_account = [each for each in self.sources if each.selection.account == account]
            if not in_account:
                return f"an account other than '{self.sources[0].selection.account}'"
            queues = [QueueRef(account, name) for name in names]
            if all(each.selection.not_read(queues) for each in in_account):
                return f"queues of '{account}' that they do not name"
        return ""

    def close(self) -> None:
        """Close the connections."""
        for each in self.sources:
            each.client.close()


class SourceLeft:
    """The queues of one source, and the messages that are left in these queues."""

    def __init__(self, config: SourceConfig) -> None:
        self._config = config
        self.selection = config.selection
        self.client = QueueClient(config.account)
        self.called_at: int | None = None
        """Time of the first peek by the service's clock, in microseconds since 1970, rounded to
        whole seconds."""

    @property
    def leaves(self) -> bool:
        """True if the source does not delete messages after they are read."""
        return not self._config.delete_on_commit

    @property
    def deletes_early(self) -> bool:
        """True if the source deletes messages before their batch is committed."""
        log = self._config.write_ahead_log
        return bool(self._config.executors or (log and log.delete_after is DeleteAfter.LOG))

    @property
    def is_strict(self) -> bool:
        """True with queuePriority=strict."""
        return self._config.queue_priority is QueuePriority.STRICT

    @property
    def lease_s(self) -> int:
        """Length of the leases of a first batch in seconds, before any renewal."""
        if self._config.visibility_timeout:
            return self._config.visibility_timeout
        if self._config.executors:
            return START_ON_EXECUTORS_S
        return START_BY_USER_S if self.leaves else START_S

    @property
    def longest_s(self) -> int:
        """Longest lease of a message in seconds, unless an offset or a report names a longer
        lease."""
        is_fixed = self._config.visibility_timeout or self._config.executors
        return self.lease_s if is_fixed else max(self.lease_s, RENEWED_S)

    def look(self) -> Mapping[QueueRef, QueueLook]:
        """Count the messages of each queue, peek at them, and count them again.

        From its second call on, this method does not peek at a queue whose count is 0. Raises
        QueueNotFound, AccessDenied or ServiceError, and InvalidOption for settings in the queues'
        metadata.
        """
        queues = self._config.queues
        try:
            if self.called_at is None:
                self._config = with_settings_of_queues(self._config)
            if self.selection.patterns:
                prefix = self.selection.prefix
                queues = self.selection.among(CONTROL(self.client.names, prefix))
            before = self._counts(queues)
            filled = [queue for queue, count in before.items() if count or self.called_at is None]
            calls = [(queue, Peek(queue, MAX_PER_REQUEST)) for queue in filled]
            first = dict(answers_of(self.client, calls, self._vanished))
            after = self._counts(first)
        except AccessDenied as error:
            raise AccessDenied(
                f"drain has to see what the queues hold: {error}", condition=error.condition
            ) from None
        self._note_time(first.values())
        return {
            queue: QueueLook(max(count, after.get(queue, 0)), first[queue].messages)
            if queue in first
            else QueueLook(0, ())
            for queue, count in before.items()
        }

    def is_older(self, message: Message) -> bool:
        """Return True if the message may have been in the queue at the first call of `look`."""
        at = message.insertion_time
        return self.called_at is None or at == UNKNOWN_TIME or at <= self.called_at

    def _counts(self, queues: Iterable[QueueRef]) -> dict[QueueRef, int]:
        calls = [(queue, Count(queue)) for queue in queues]
        return dict(answers_of(self.client, calls, self._vanished))

    def _vanished(self, queue: QueueRef) -> bool:
        is_named = queue in self._config.queues
        return self._config.create_queue if is_named else bool(self.selection.patterns)

    def _note_time(self, answers: Iterable[Peeked]) -> None:
        times = [each.answered_at for each in answers if each.answered_at is not None]
        if self.called_at is None and times:
            self.called_at = min(times)
