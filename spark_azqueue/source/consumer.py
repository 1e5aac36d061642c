"""What Spark's calls meet: one consumer, whichever way a query keeps what it has leased.

One instance lives for a whole query run; Spark calls it from one thread. Knows no pyspark:
`readers.py` translates.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from spark_azqueue.metrics.report import Report
from spark_azqueue.options.source_config import SourceConfig

from .calls import Wanted
from .columns import Columns
from .driver.leased import LeasedConsumer
from .executors.consumer import ExecutorsConsumer
from .log.consumer import LogConsumer
from .offsets import OffsetJson


class Consumer(Protocol):
    """The driver-side half of the source."""

    initial: OffsetJson
    """The offset of a query that has read nothing: the same in every run, with a log or not."""

    def freeze_cutoff(self) -> None:
        """From now on read only messages inserted by now (the service's clock, whole seconds)."""

    def latest(self, wanted: Wanted) -> OffsetJson:
        """Settle what is proven committed, then return the offset of the next batch.

        Returns the start itself if there is nothing new.
        """

    def plan(
        self, start: Mapping[str, Any], end: OffsetJson, *, is_proven: bool = True
    ) -> list[bytes]:
        """What each task of the batch that ends at `end` gets.

        Its rows as an Arrow stream or, with leaseOn=executors, what it has to do. is_proven: False
        if the engine may not have committed the start.
        """

    def committed(self, offset: Mapping[str, Any]) -> None:
        """This offset is proven committed, and each one before it: settle them. Repeatable."""

    def give_back(self, offset: OffsetJson, timeout_s: float) -> bool | None:
        """Release the messages of a batch of this run whose rows were never asked for. Repeatable.

        Returns True if they come again in a later batch, False if a write-ahead log alone has them,
        None for a batch of an earlier run: the sink may have its rows, and skips it rightly.
        Raises AzQueueError or TimeoutError.
        """

    def report(self) -> Report:
        """The backlog, what is held, and what this run has counted. Sends little, seldom."""

    def close(self) -> None:
        """End renewals, finish deletes that are due, release what is in no batch: in seconds."""


def consumer_for(config: SourceConfig, columns: Columns) -> Consumer:
    """The consumer that the options ask for. Nothing is sent before its first call."""
    if config.write_ahead_log and config.executors:
        return ExecutorsConsumer(config, config.write_ahead_log, config.executors)
    if config.write_ahead_log:
        return LogConsumer(config, columns, config.write_ahead_log)
    return LeasedConsumer(config, columns)
