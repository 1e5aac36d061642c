"""The writers that Spark sees: `df.writeStream` and `df.write` with `format("azqueue")`.

At least once: a batch counts as written only when every request was acknowledged; a task that Spark
runs again sends its rows again. Nothing can be taken back.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyspark.sql.datasource
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from spark_azqueue.errors import told_plainly
from spark_azqueue.options.sink_config import SinkConfig

from .columns import SinkColumns
from .requests import Row, requests
from .sender import Sender
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


_SLICE_BYTES = 8 * 2**20
"""About so much of a record batch is turned into Python values at once."""


def tuples(
    batches: Iterable[pa.RecordBatch], wanted: Collection[int]
) -> Iterator[tuple[object, ...]]:
    """The rows of record batches; columns (by place) that are not wanted are None in them."""
    for batch in batches:
        step = max(1, batch.num_rows * _SLICE_BYTES // max(batch.nbytes, _SLICE_BYTES))
        for start in range(0, batch.num_rows, step):
            part = batch.slice(start, step)
            yield from zip(
                *(
                    column.to_pylist() if place in wanted else itertools.repeat(None, len(column))
                    for place, column in enumerate(part.columns)
                ),
                strict=True,
            )
