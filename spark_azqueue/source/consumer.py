"""The consumer, which Spark's calls reach: one protocol for all ways to keep leased messages.

One instance lives for a whole query run; Spark calls it from one thread. This module does not
import pyspark: `readers.py` translates.
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
    """The part of the source that runs on the driver."""

    initial: OffsetJson
    """Offset of a query that has read nothing: the same in every run, with a log or not."""

    def freeze_cutoff(self) -> None:
        """Read only messages inserted by now (the service's clock, whole seconds), from now on."""

    def latest(self, wanted: Wanted) -> OffsetJson:
        """Settle the batches that are proven committed, then return the offset of the next batch.

        Returns the start itself if there is nothing new.
        """

    def plan(
        self, start: Mapping[str, Any], end: OffsetJson, *, is_proven: bool = True
    ) -> list[bytes]:
        """Return the input of each task of the batch that ends at `end`.

        The input is the task's rows as an Arrow stream or, with leaseOn=executors, its slot of the
        plan. is_proven: False if the engine may not have committed the start.
        """

    def committed(self, offset: Mapping[str, Any]) -> None:
        """Settle this offset and all earlier ones: they are proven committed. May be repeated."""

    def give_back(self, offset: OffsetJson, timeout_s: float) -> bool | None:
        """Release the messages of a batch of this run whose rows the engine never requested.

        Returns True if the messages come again in a later batch, and False if only a write-ahead
        log has them. Returns None for a batch of an earlier run: the sink may have its rows, so it
        may skip the batch. May be repeated. Raises AzQueueError or TimeoutError.
        """

    def report(self) -> Report:
        """Return the backlog, the held messages and this run's counters. Seldom sends a request."""

    def close(self) -> None:
        """Stop renewing, finish due deletes, release messages of no batch, all within seconds."""


def consumer_for(config: SourceConfig, columns: Columns) -> Consumer:
    """Return the consumer that the options select. Nothing is sent before its first call."""
    if config.write_ahead_log and config.executors:
        return ExecutorsConsumer(config, config.write_ahead_log, config.executors)
    if config.write_ahead_log:
        return LogConsumer(config, columns, config.write_ahead_log)
    return LeasedConsumer(config, columns)
