"""Readers of `readLog` that Spark calls. The readers only forward calls.

Partitions name objects of the log, and tasks read the objects. So no row passes through the driver.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition

from spark_azqueue.errors import short_tracebacks
from spark_azqueue.journal.journal import Journal
from spark_azqueue.journal.refusals import tell_loss
from spark_azqueue.options.replay import ReplayConfig
from spark_azqueue.service.names import Kind

from ..columns import Columns, check_requested
from ..offsets import OffsetJson
from ..readers import SupportsTriggerAvailableNow
from .batches import Piece, chosen_batches, parted, pieces_of
from .follower import Follower
from .objects import objects_of, rows_of
from .survey import history_of, journal_of, opened_log, store_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.streaming.datasource import ReadLimit


@dataclass
class LogPartition(InputPartition):
    """Partition of a read: some objects of a log.

    A second read of a partition returns the same rows, as long as its objects are in the log.
    """

    kind: Kind
    account: str
    uuid: str
    pieces: tuple[Piece, ...]
    may_lack_removed: bool = False


class LogReader(DataSourceReader):
    """`spark.read` with `readLog`: the committed batches of a log. Writes nothing."""

    def __init__(self, config: ReplayConfig, requested: Columns, available: Columns) -> None:
        self._config = config
        self._requested = requested
        self._available = available

    @short_tracebacks
    def partitions(self) -> list[InputPartition]:
        """Choose the batches to read, and return their objects as partitions.

        Raises the errors of `opened_log` and `chosen_batches`, and LostSegment.
        """
        check_requested(self._requested, self._available)
        config = self._config
        found = opened_log(config)
        try:
            batches, losses = chosen_batches(history_of(found).survey(), config)
        finally:
            found.close()
        for error in losses:
            tell_loss(error, lose=not config.fail_on_data_loss)
        may_lack = not config.has_start
        return _partitions(found, parted(pieces_of(batches)), may_lack_removed=may_lack)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the partition's rows. Spark passes None if there are no partitions."""
        return _read(partition, self._config, self._requested)


class LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """`spark.readStream` with `readLog`: follows the query that writes the log. Writes nothing.

    Any number of streams may read one log. If Spark repeats a micro-batch, it has the same batches
    of the log again.
    """

    def __init__(self, config: ReplayConfig, requested: Columns, available: Columns) -> None:
        self._config = config
        self._requested = requested
        self._available = available
        self._follower: Follower | None = None

    @short_tracebacks
    def initialOffset(self) -> OffsetJson:
        """Return the offset before the first batch. The offset is the same in every run."""
        return self._running().initial

    @short_tracebacks
    def prepareForTriggerAvailableNow(self) -> None:
        """Read only the batches that are committed now."""
        self._running().freeze_cutoff()

    @short_tracebacks
    def latestOffset(
        self, start: OffsetJson | None = None, limit: ReadLimit | None = None
    ) -> OffsetJson:
        """Return the offset that ends the next micro-batch of up to `maxBatchesPerTrigger` batches.
        Raises AzQueueError."""
        return self._running().latest(start)

    @short_tracebacks
    def partitions(self, start: OffsetJson, end: OffsetJson) -> list[InputPartition]:
        """Return the partitions of a micro-batch, the same whenever the micro-batch is repeated."""
        follower = self._running()
        return _partitions(follower.opened, follower.plan(start, end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the partition's rows, the same in every call."""
        return _read(partition, self._config, self._requested)

    def commit(self, end: OffsetJson) -> None:
        """Do nothing, because Spark's checkpoint stores the position."""

    def stop(self) -> None:
        """Close the connections."""
        if self._follower:
            self._follower.close()

    def _running(self) -> Follower:
        if self._follower is None:
            check_requested(self._requested, self._available)
            self._follower = Follower(self._config)
        return self._follower

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_follower": None}


def _partitions(
    found: Journal, parts: list[tuple[Piece, ...]], *, may_lack_removed: bool = False
) -> list[InputPartition]:
    return [
        LogPartition(found.store.kind, found.account, found.uuid, part, may_lack_removed)
        for part in parts
    ]


@short_tracebacks
def _read(
    partition: InputPartition | None, config: ReplayConfig, requested: Columns
) -> Iterator[pa.RecordBatch]:
    if not isinstance(partition, LogPartition):
        return
    journal = journal_of(store_of(config, partition.kind), partition.account, partition.uuid)
    try:
        yield from rows_of(
            objects_of(journal),
            partition.pieces,
            config,
            requested,
            may_lack_removed=partition.may_lack_removed,
        )
    finally:
        journal.close()
