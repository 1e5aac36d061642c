"""`spark.read.format("azqueue")`: a look at up to 32 visible messages of each queue.

A peek takes no lease and raises no dequeue count. It is made once, while Spark plans the read, so
that a task which is run again shows the same rows. Ring: door.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from . import arrow
from .azure_queue import AzureQueues
from .columns import Columns, check_requested
from .config import SourceConfig
from .errors import told_plainly
from .gathering import decoded
from .resolving import carried, resolved
from .retry import CONTROL
from .source import QueuePartition

if TYPE_CHECKING:
    import pyarrow as pa


class AzQueueReader(DataSourceReader):
    """Batch side of the source: a peek."""

    def __init__(self, config: SourceConfig, requested: Columns, available: Columns) -> None:
        self._config = config
        self._requested = requested
        self._available = available

    @told_plainly
    def partitions(self) -> list[InputPartition]:
        """One request for each queue. Raises QueueNotFound, AccessDenied, ServiceError."""
        columns = carried(check_requested(self._requested, self._available), self._config)
        service = AzureQueues(self._config.account)
        parts: list[InputPartition] = []
        try:
            for name in self._config.queues:
                messages = CONTROL(service.queue(name).peek, self._config.peek_messages)
                rows = [decoded(message, self._config, leased=False) for message in messages]
                parts += map(QueuePartition, arrow.partitions(rows, columns, len(rows)))
        finally:
            service.close()
        return parts

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Hand on what the partition holds. Spark makes one None where there are no partitions."""
        if not isinstance(partition, QueuePartition):
            return iter(())
        batches = arrow.record_batches(partition.stream)
        return resolved(batches, self._requested, self._config)
