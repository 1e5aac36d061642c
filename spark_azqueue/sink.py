"""The writers that Spark sees: `df.writeStream` and `df.write` with `format("azqueue")`.

At least once: a batch counts as written only when every put was acknowledged; a task that Spark
runs again sends its rows again. Nothing can be taken back. Ring: door.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass

from pyspark.sql import Row
from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter, WriterCommitMessage

from .columns import SinkColumns
from .config import SinkConfig
from .errors import told_plainly
from .sending import Sender, outgoing

log = logging.getLogger(__name__)


@dataclass
class Acknowledged(WriterCommitMessage):
    """How many messages of one task the service has acknowledged."""

    count: int


class _Writer:
    """What both writers do: send the rows of a task."""

    def __init__(self, config: SinkConfig, columns: SinkColumns) -> None:
        self._config = config
        self._columns = columns

    @told_plainly
    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        """Send all rows of one task. Raises InvalidRow or ServiceError: the task fails."""
        messages = outgoing(iterator, self._columns, self._config)
        return Acknowledged(Sender(self._config).send(messages))


def _sum(messages: list[WriterCommitMessage | None]) -> int:
    return sum(message.count for message in messages if isinstance(message, Acknowledged))


class AzQueueWriter(_Writer, DataSourceWriter):
    """Writes a DataFrame once."""

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """All tasks are done: nothing is left to do."""
        log.info("%d messages sent", _sum(messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Some task failed: say what was sent all the same."""
        log.warning("the write failed; %d messages of finished tasks were sent", _sum(messages))


class AzQueueStreamWriter(_Writer, DataSourceStreamWriter):
    """Writes the micro-batches of a stream."""

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """All tasks of this micro-batch are done: nothing is left to do."""
        log.info("batch %d: %d messages sent", batchId, _sum(messages))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Some task failed: Spark runs the batch again, which sends its messages again."""
        log.warning(
            "batch %d failed; %d messages of finished tasks were sent and will be again",
            batchId,
            _sum(messages),
        )
