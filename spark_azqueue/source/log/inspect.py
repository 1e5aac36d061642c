"""Contents of a write-ahead log, for the doctor. Changes nothing, and does not claim the log."""

from __future__ import annotations

from collections.abc import Sequence

from spark_azqueue.journal.numbers import number_in, standing
from spark_azqueue.journal.store import LogStore
from spark_azqueue.options.log import LogConfig
from spark_azqueue.service.messages import QueueRef
from spark_azqueue.service.names import Stored

from . import names
from .log import WriteAheadLog
from .state import LogState

HEADERS_AT_MOST = 200
"""Maximum number of segments that are read to count the messages that are not deleted."""


class LogContents:
    """Contents of a log at one moment.

    Raises AzQueueError if the log cannot be read or is damaged.
    """

    def __init__(self, store: LogStore, account: str, settings: LogConfig) -> None:
        self._log = WriteAheadLog(
            store, account, settings.retention.batches, lose=not settings.fail_on_data_loss
        )
        self.is_new = not self._log.identify()
        self.state = LogState(0, 0) if self.is_new else self._log.survey()

    @property
    def queues(self) -> Sequence[QueueRef]:
        """Queues of the newest batch; empty if there is no batch."""
        return self._log.newest.queues if self._log.newest else ()

    def segments(self) -> list[Stored]:
        """Return the stored objects of the segments."""
        entries = self._log.store.entries(names.SEGMENTS)
        return [each for each in entries if number_in(each.name)]

    def is_held(self, each: Stored) -> bool:
        """Return False if this segment may be removed."""
        return (number_in(each.name) or 0) > self.state.floor

    def read_newest(self) -> int:
        """Read the whole newest segment. Returns its number of messages."""
        assert self._log.newest
        return len(self._log.segments.read(self._log.newest.number).received)

    def given_up(self) -> list[int]:
        """Return the numbers of abandoned batches."""
        outcomes = self._log.outcomes
        outcomes.find()
        numbers = sorted(outcomes.up_to(self.state.head))
        return [each for each in numbers if (outcome := outcomes.on(each)) and outcome.gives_up]

    def known(self) -> tuple[int, bool]:
        """Return the number of messages in the log that may not be deleted yet, and True if it is
        exact.

        The number is too low if the log has more than `HEADERS_AT_MOST` such segments.
        """
        progress = self.state.progress
        first = max(progress.done, self.state.floor) + 1
        numbers = standing(range(first, self.state.head + 1), self._log.segments.sizes)
        some = numbers[-HEADERS_AT_MOST:]
        messages = sum(self._log.segments.header(each).messages for each in some)
        return len(progress.pending) + messages, len(some) == len(numbers)
