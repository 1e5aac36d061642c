"""Writers that Spark calls for `df.writeStream` and `df.write` with `format("azqueue")`.

Rows are sent at least once: a batch counts as written only after every request was acknowledged. If
Spark repeats a task, the task sends its rows again. With transactionLog, rows are sent exactly
once; see `transaction/commit.py`.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, field
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any

import pyspark.sql.datasource
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from spark_azqueue.errors import AzQueueError, short_tracebacks
from spark_azqueue.metrics.latency import Latencies, added
from spark_azqueue.options.sink_config import SinkConfig
from spark_azqueue.service.queues.reach import check_reachable
from spark_azqueue.service.workers import freeze_loaded_modules

from .columns import Row, SinkColumns
from .row_errors import requests
from .sender import Sender
from .tally import Sent, Traffic
from .transaction.commit import Committed, Transactions
from .transaction.record import Prepared
from .transaction.task import WritePlan, Writer, writer_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import DataSourceStreamArrowWriter as StreamWriterBase
else:
    # Spark 4.1 and later pass Arrow batches to a stream writer; Spark 4.0 passes rows.
    StreamWriterBase = getattr(
        pyspark.sql.datasource,
        "DataSourceStreamArrowWriter",
        pyspark.sql.datasource.DataSourceStreamWriter,
    )

log = logging.getLogger(__name__)


@dataclass
class Acknowledged(WriterCommitMessage):
    """Counts of one task, sent to the driver.

    prepared: messages that the task prepared, with transactionLog. latencies: latencies of the
    task's requests.
    """

    sent: Sent
    traffic: Traffic
    prepared: Prepared | None = None
    latencies: Latencies = field(default_factory=dict)


def plan_of(config: SinkConfig) -> WritePlan | None:
    """Check the log and the queue, and plan the write. Returns None without transactionLog.

    Called on the driver when the writer is created, because Spark does not call a writer before it
    starts the tasks. Raises the errors of `Transactions.plan`.
    """
    if not config.transaction:
        return None
    with closing(Transactions(config)) as transactions:
        return transactions.plan()


class _Writer:
    """Common base of the writers: sends the rows of a task."""

    def __init__(self, config: SinkConfig, columns: SinkColumns, plan: WritePlan | None) -> None:
        """plan: result of `plan_of`."""
        self._config = config
        self._columns = columns
        self._plan = plan

    @short_tracebacks
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Send all rows of one task. Raises InvalidRow or ServiceError, which fails the task."""
        return self._write(
            lambda: sum(batch.num_rows for batch in iterator),
            lambda: tuples(iterator, self._columns.places),
        )

    def _write(
        self, count: Callable[[], int], rows: Callable[[], Iterable[Row]]
    ) -> WriterCommitMessage:
        """Send the rows.

        With transactionLog, if the transaction is already recorded, only count the rows.
        """
        freeze_loaded_modules()
        task = TaskContext.get()
        writer = writer_of(task.getLocalProperty) if task else Writer()
        if self._plan and self._plan.is_recorded(writer):
            passed_over = writer.passed_over(count(), self._plan.log)
            return Acknowledged(Sent(), Traffic(), prepared=passed_over)
        if _is_start(task):
            check_reachable(self._config.account)
        sender = Sender(self._config)
        sent = sender.send(requests(rows(), self._columns, self._config))
        prepared = None
        if self._plan:
            done = sent.done + sent.set_aside
            prepared = writer.prepared(done, sender.hidden, sender.abandoned, self._plan.log)
        return Acknowledged(sent, sender.traffic, prepared, sender.latencies)

    def _commit(self, messages: list[WriterCommitMessage | None]) -> Committed | None:
        """With transactionLog, record and publish the messages that the tasks prepared."""
        if self._plan is None:
            return None
        with closing(Transactions(self._config)) as transactions:
            return transactions.commit(self._plan, _prepared(messages))

    def _abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """With transactionLog, delete the messages that finished tasks prepared, unless a record
        may contain them."""
        if self._plan is None:
            return
        try:
            with closing(Transactions(self._config)) as transactions:
                prepared = _prepared([each for each in messages if each is not None])
                left = transactions.abort(self._plan, prepared, is_missing=None in messages)
        except AzQueueError as error:  # the user must see the error of the write
            log.warning("the failed write's messages stay hidden until they expire: %s", error)
            return
        if left is None:
            log.warning(
                "the failed write may have been recorded: start the query again, or repeat the"
                " write with the same txnVersion. If it was not recorded, its messages stay hidden"
                " until they expire"
            )
        elif left:
            log.warning("up to %d messages of the failed write stay hidden until they expire", left)


class AzQueueWriter(_Writer, DataSourceArrowWriter):
    """Writes a DataFrame (`df.write`)."""

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Log the counts after all tasks are done.

        With transactionLog, record and publish the messages first.
        """
        _tell("all written", messages, committed=self._commit(messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Log the number of rows that finished tasks have sent. Called after a task failed.

        With transactionLog, delete the messages of these rows.
        """
        _tell("the write failed; of finished tasks", messages, logging.WARNING)
        self._abort(messages)


class AzQueueStreamWriter(_Writer, StreamWriterBase):
    """Writes the micro-batches of a stream (`df.writeStream`)."""

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Log the counts after all tasks of this micro-batch are done.

        With transactionLog, record and publish the messages first.
        """
        _tell(f"batch {batchId}", messages, committed=self._commit(messages))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Log that a task failed. When the query is restarted, Spark repeats the batch and sends
        its rows again.

        With transactionLog, delete the messages of finished tasks first.
        """
        _tell(f"batch {batchId} failed and will be sent again", messages, logging.WARNING)
        self._abort(messages)


class RowStreamWriter(AzQueueStreamWriter):
    """Writes the micro-batches of a stream on Spark 4.0. Spark 4.0 passes rows, not Arrow
    batches."""

    @short_tracebacks
    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Send all rows of one task. Raises InvalidRow or ServiceError, which fails the task."""
        return self._write(lambda: sum(1 for _ in iterator), lambda: iterator)


def _is_start(task: TaskContext | None) -> bool:
    """Return True for the first task of a batch write, and for the first task of a query's first
    micro-batch.

    If the account cannot be reached, this first task fails at once, because the configuration is
    probably wrong. All other tasks assume an outage, and retry their requests.
    """
    if task is None or task.partitionId() != 0:
        return False
    return (task.getLocalProperty("streaming.sql.batchId") or "0") == "0"


STREAM_WRITER = (
    AzQueueStreamWriter
    if hasattr(pyspark.sql.datasource, "DataSourceStreamArrowWriter")
    else RowStreamWriter
)
"""Stream writer for the installed version of Spark."""


def _prepared(messages: list[WriterCommitMessage | None]) -> list[Prepared]:
    """Return the prepared messages of each task. Raises AzQueueError if a task did not report."""
    found = [each.prepared for each in messages if isinstance(each, Acknowledged) and each.prepared]
    if len(found) != len(messages):
        raise AzQueueError(
            f"{len(messages) - len(found)} of {len(messages)} tasks did not report their messages:"
            " nothing was recorded. Please report this with the log of the driver"
        )
    return found


def _tell(
    what: str,
    messages: list[WriterCommitMessage | None],
    level: int = logging.INFO,
    committed: Committed | None = None,
) -> None:
    """Log the tasks' counts on the driver.

    Spark starts this process, and no code configures its loggers. So the level of this module's
    logger is set to INFO, unless a level is set. The line then reaches a handler, such as Spark's
    handler for the logs of workers.
    """
    if log.level == logging.NOTSET:
        log.setLevel(logging.INFO)
    known = [message for message in messages if isinstance(message, Acknowledged)]
    counts = {
        "rows": sum(each.sent.done for each in known),
        "stale": sum(each.sent.stale for each in known),
        "set_aside": sum(each.sent.set_aside for each in known),
        **asdict(sum((each.traffic for each in known), Traffic())),
    }
    took = _took(known)
    published = took | (committed.as_dict() if committed else {})
    is_skipped = committed is not None and committed.is_skipped
    log.log(
        logging.WARNING if counts["stale"] or counts["set_aside"] or is_skipped else level,
        "%s: %d rows acknowledged, %d with a stale receipt, %d dead-lettered; %d bytes, %d requests"
        " repeated, %d of them after 503 or 429%s%s",
        what,
        *counts.values(),
        "; a request took {p50_seconds} s (p50), {p99_seconds} s (p99)".format_map(took)
        if took
        else "",
        f". {committed.in_words()}" if committed else "",
        # Spark's log handler requires strings in the context.
        extra={"context": {name: str(count) for name, count in (counts | published).items()}},
    )


def _took(known: Iterable[Acknowledged]) -> dict[str, str]:
    """Return quantiles of the latency of successful requests, as texts; empty if unknown."""
    found: Latencies = {}
    for each in known:
        found = added(found, each.latencies)
    good = [took for name, took in found.items() if " " not in name and took.count]
    if not good:
        return {}
    of_all = reduce(add, good)
    return {f"p{share}_seconds": f"{of_all.quantile(share / 100):.3g}" for share in (50, 99)}


_SLICE_BYTES = 8 * 2**20
"""Approximate size, in bytes, of the part of a record batch that is converted to Python values at
once."""

_SLICE_ROWS = 10_000
"""Maximum number of rows that are converted to Python values at once.

A limit on rows is needed because short values take much more memory in Python than in Arrow.
"""


def tuples(
    batches: Iterable[pa.RecordBatch], wanted: Collection[int]
) -> Iterator[tuple[object, ...]]:
    """Yield the rows of record batches. Columns whose position is not in `wanted` are None."""
    for batch in batches:
        step = max(1, batch.num_rows * _SLICE_BYTES // max(batch.nbytes, _SLICE_BYTES))
        step = min(step, _SLICE_ROWS)
        for start in range(0, batch.num_rows, step):
            part = batch.slice(start, step)
            yield from zip(
                *(
                    column.to_pylist() if place in wanted else itertools.repeat(None, len(column))
                    for place, column in enumerate(part.columns)
                ),
                strict=True,
            )
