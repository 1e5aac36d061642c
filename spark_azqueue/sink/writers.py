"""The writers that Spark sees: `df.writeStream` and `df.write` with `format("azqueue")`.

At least once: a batch counts as written only when every request was acknowledged; a task that Spark
runs again sends its rows again. Nothing can be taken back. Ring: door.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyspark.sql.datasource
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from .arrow import tuples
from .columns import SinkColumns
from .config import SinkConfig
from .errors import told_plainly
from .outgoing import Row, requests
from .sending import Sender
from .tally import Sent

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import DataSourceStreamArrowWriter as StreamWriterBase
else:
    # Streams are written by Arrow from Spark 4.1; on 4.0 Spark turns each batch into rows.
    StreamWriterBase = getattr(
        pyspark.sql.datasource,
        "DataSourceStreamArrowWriter",
        pyspark.sql.datasource.DataSourceStreamWriter,
    )

log = logging.getLogger(__name__)


@dataclass
class Acknowledged(WriterCommitMessage):
    """What became of the rows of one task."""

    sent: Sent


class _Writer:
    """What both writers do: send the rows of a task."""

    def __init__(self, config: SinkConfig, columns: SinkColumns) -> None:
        self._config = config
        self._columns = columns

    @told_plainly
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Send all rows of one task. Raises InvalidRow or ServiceError: the task fails."""
        return self._send(tuples(iterator, self._columns.places))

    def _send(self, rows: Iterable[Row]) -> WriterCommitMessage:
        return Acknowledged(Sender(self._config).send(requests(rows, self._columns, self._config)))


class AzQueueWriter(_Writer, DataSourceArrowWriter):
    """Writes a DataFrame once."""

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """All tasks are done: nothing is left to do."""
        _tell("all written", messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Some task failed: say what was sent all the same."""
        _tell("the write failed; of finished tasks", messages, logging.WARNING)


class AzQueueStreamWriter(_Writer, StreamWriterBase):
    """Writes the micro-batches of a stream."""

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """All tasks of this micro-batch are done: nothing is left to do."""
        _tell(f"batch {batchId}", messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Some task failed: Spark runs the batch again, which sends its messages again."""
        _tell(f"batch {batchId} failed and will be sent again", messages, logging.WARNING)


class RowStreamWriter(AzQueueStreamWriter):
    """The same where Spark hands over rows: 4.0."""

    @told_plainly
    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Send all rows of one task. Raises InvalidRow or ServiceError: the task fails."""
        return self._send(iterator)


STREAM_WRITER = (
    AzQueueStreamWriter
    if hasattr(pyspark.sql.datasource, "DataSourceStreamArrowWriter")
    else RowStreamWriter
)
"""What writes streams on this Spark."""


def _tell(what: str, messages: list[WriterCommitMessage | None], level: int = logging.INFO) -> None:
    """Log, on the driver, how the tasks' rows fared."""
    known = [message.sent for message in messages if isinstance(message, Acknowledged)]
    done, stale = sum(sent.done for sent in known), sum(sent.stale for sent in known)
    log.log(
        logging.WARNING if stale else level,
        "%s: %d rows acknowledged, %d with a stale receipt",
        what,
        done,
        stale,
    )
