"""The stream reader and the batch reader that Spark calls.

Spark makes two instances of the stream reader. One instance has its own process on the driver for a
whole run of a query, and gets all calls except `read`. The other instance is only pickled: copies
of it run `read` in other processes. So the constructor only stores its arguments, and the first
call creates the consumer.
"""

from __future__ import annotations

import logging
import signal
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition

from spark_azqueue.errors import AzQueueError, short_tracebacks
from spark_azqueue.options.source_config import SourceConfig
from spark_azqueue.service.messages import MOST_IN_A_BATCH, MOST_IN_A_PLAN
from spark_azqueue.service.workers import collect_seldom, freeze_loaded_modules

from . import one_reader
from .columns import Columns, check_requested
from .offsets import OffsetJson
from .reports import CarriedReports
from .rows import record_batches

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows
    from pyspark.sql.streaming.datasource import (
        SupportsTriggerAvailableNow as SupportsTriggerAvailableNow,
    )

    from spark_azqueue.metrics.report import Report

    from .engine_calls import EngineCalls
else:
    try:
        from pyspark.sql.streaming.datasource import ReadMaxRows, SupportsTriggerAvailableNow
    except ImportError:  # Spark 4.0 and 4.1 lack read limits and availableNow for Python sources

        class SupportsTriggerAvailableNow:
            """Stand-in for Spark's mixin of this name, which exists since Spark 4.2."""


log = logging.getLogger(__name__)


@dataclass
class QueuePartition(InputPartition):
    """Some rows of a micro-batch as an Arrow IPC stream. A second read returns the same rows.

    With leaseOn=executors, `stream` has a slot of the plan (see `executors/consumer.py`).
    """

    stream: bytes

    def __repr__(self) -> str:  # so that logs contain no bodies
        return f"QueuePartition({len(self.stream)} bytes)"


class AzQueueStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reader for `spark.readStream.format("azqueue")`.

    Messages are delivered at least once, and only once in a run of the query.
    """

    def __init__(
        self, config: SourceConfig, requested: Columns, available: Columns, load: str = ""
    ) -> None:
        """Store the arguments.

        load: unique name of this `load()`, the same in all of its processes.
        """
        self._config = config
        self._requested = requested
        self._available = available
        self._load = load
        self._consumer: EngineCalls | None = None
        self._reports = CarriedReports()

    @short_tracebacks
    def initialOffset(self) -> OffsetJson:
        """Return the offset before the first batch. This offset is the same in every run."""
        return self._running().initial

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return `maxMessagesPerTrigger`, which Spark 4.2 and later pass to `latestOffset`."""
        most = MOST_IN_A_PLAN if self._config.executors else MOST_IN_A_BATCH
        return ReadMaxRows(self._config.max_messages or most)

    @short_tracebacks
    def prepareForTriggerAvailableNow(self) -> None:
        """From now on, read only the messages that are in the queues now."""
        self._running().freeze_cutoff()

    @short_tracebacks
    def latestOffset(
        self, start: OffsetJson | None = None, limit: ReadLimit | None = None
    ) -> OffsetJson:
        """Settle the committed batches, lease the next batch, and return its offset.

        Spark 4.0 and 4.1 pass no arguments, and get the report as a field of the offset. Raises
        AzQueueError, after which Spark stops the query.
        """
        named = None if start is None else self._reports.plain(start)
        offset = self._alone().latest(named, getattr(limit, "max_rows", None))
        return self._reports.whole(offset, lambda: self._for_an_offset(start))

    @short_tracebacks
    def partitions(self, start: OffsetJson, end: OffsetJson) -> list[InputPartition]:
        """Return the batch's rows, cut into partitions. A batch of an earlier run is replayed."""
        named = self._reports.plain(start), self._reports.plain(end)
        return [QueuePartition(stream) for stream in self._alone().plan(*named)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the partition's rows. Every call returns the same rows.

        This method sends no request to a queue, except with leaseOn=executors. With largeBody=blob,
        this method reads bodies from blobs. With leaseOn=executors, the first call dequeues, stores
        and deletes the messages.
        """
        assert isinstance(partition, QueuePartition)
        freeze_loaded_modules()
        if self._config.executors:
            return self._leased(partition)
        batches = record_batches(partition.stream)
        if self._config.claim_check is None:
            return batches
        from .large_bodies import resolved

        return resolved(batches, self._requested, self._config)

    @short_tracebacks
    def _leased(self, partition: QueuePartition) -> Iterator[pa.RecordBatch]:
        from .executors.rows import rows_of_task

        task = TaskContext.get()
        is_repeated = task is not None and task.attemptNumber() > 0
        yield from rows_of_task(
            partition.stream, self._config, self._requested, is_repeated=is_repeated
        )

    def commit(self, end: OffsetJson) -> None:
        """Settle the committed batch. Never raises; after a failure, the next call repeats it."""
        try:
            self._running().committed(self._reports.plain(end))
        except Exception as error:  # noqa: BLE001 (Spark must be able to repeat or skip commits)
            log.warning("settling after a commit failed, and will be tried again: %s", error)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return the backlog and the counters (see `Report`), which Spark shows in the progress.

        Spark 4.2 and later call this after each `latestOffset`. Never raises, because an error
        would end the query.
        """
        report = self._report()
        return None if report is None else report.to_json()

    def _for_an_offset(self, start: OffsetJson | None) -> dict[str, Any] | None:
        report = None if start is not None else self._report()
        return None if report is None else report.for_an_offset(time.time())

    def _report(self) -> Report | None:
        try:
            return self._running().report()
        except Exception:
            log.debug("there is nothing to report", exc_info=True)
            return None

    def stop(self) -> None:
        """Finish due deletes within a few seconds, and close the connections."""
        if self._consumer:
            self._consumer.close()
        one_reader.leave(self._load)

    def _alone(self) -> EngineCalls:
        """Lock the `load()` for this process. Return the object that handles calls. Raises
        LoadConflict.

        The calls before `latestOffset` and `partitions` do not lock. If a query fails while it
        initializes, Spark does not stop the source process, which would then keep the lock.
        """
        if _is_own_process():
            one_reader.take(self._load)
        return self._running()

    def _running(self) -> EngineCalls:
        if self._consumer is None:
            # Imported here, so that the processes of `read` do not load libcurl. Spark's workers
            # collect garbage after every task, and this takes longer if more modules are loaded.
            from spark_azqueue.service.queues.reach import check_reachable

            from .consumer import consumer_for
            from .engine_calls import EngineCalls, plans_ahead
            from .large_bodies import carried
            from .preflight import with_settings_of_queues

            for doubt in self._config.doubts:
                log.warning("%s", doubt)
            check_reachable(self._config.account)
            config = with_settings_of_queues(self._config)
            columns = carried(check_requested(self._requested, self._available), config)
            consumer = consumer_for(config, columns)
            self._consumer = EngineCalls(consumer, plans_ahead=plans_ahead())
            if _is_own_process():
                collect_seldom()
                _stop_on_sigterm()
        return self._consumer

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_consumer": None, "_reports": CarriedReports()}


class RefusedStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Used in place of a stream reader that cannot be created. Each call raises the reason.

    `DataSource.streamReader` does not raise the reason itself, because Spark 4.3 would then call
    `stop` of a reader that does not exist, and lose the error.
    """

    def __init__(self, reason: AzQueueError) -> None:
        self._reason = reason

    @short_tracebacks
    def _raise(self, *_: Any) -> Any:
        raise self._reason

    initialOffset: Any = _raise  # noqa: N815
    prepareForTriggerAvailableNow: Any = _raise  # noqa: N815
    latestOffset: Any = _raise  # noqa: N815
    partitions: Any = _raise
    read: Any = _raise

    def commit(self, end: OffsetJson) -> None:
        """Do nothing, because there was no batch."""


def _is_own_process() -> bool:
    """True in the process that Spark starts for one stream reader."""
    main = sys.modules["__main__"].__spec__
    return main is not None and main.name == "pyspark.sql.streaming.python_streaming_source_runner"


def _stop_on_sigterm() -> None:
    """Ensure that `stop()` runs to its end, although Spark sends this process two SIGTERMs."""
    if threading.current_thread() is not threading.main_thread():
        return

    def leave(signum: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise SystemExit(0)

    signal.signal(signal.SIGTERM, leave)


class AzQueueReader(DataSourceReader):
    """Reader for `spark.read.format("azqueue")`: a peek, which leases and changes no message."""

    def __init__(self, config: SourceConfig, requested: Columns, available: Columns) -> None:
        self._config = config
        self._requested = requested
        self._available = available

    @short_tracebacks
    def partitions(self) -> list[InputPartition]:
        """Peek at each queue once. Return the rows as partitions.

        Raises QueueNotFound, AccessDenied, ServiceError, UndecodableBody or InvalidSchema.
        """
        from spark_azqueue.service.queues.client import QueueClient
        from spark_azqueue.service.queues.reach import check_reachable

        from .large_bodies import carried
        from .peek import peeked
        from .preflight import with_settings_of_queues

        check_reachable(self._config.account)
        config = with_settings_of_queues(self._config)
        columns = carried(check_requested(self._requested, self._available), config)
        client = QueueClient(config.account)
        try:
            streams = peeked(config, columns, client)
        finally:
            client.close()
        return [QueuePartition(stream) for stream in streams]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the partition's rows. If there are no partitions, Spark passes None."""
        if not isinstance(partition, QueuePartition):
            return iter(())
        from .large_bodies import resolved

        batches = record_batches(partition.stream)
        return resolved(batches, self._requested, self._config)
