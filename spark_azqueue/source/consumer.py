"""Protocol of the consumers that Spark's calls reach. There is one consumer for each place where
leases or messages are stored.

One instance serves a whole run of a query. Spark calls the instance from one thread. This module
does not import pyspark; `readers.py` converts Spark's types.
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
from .runtime import DEFAULT, Runtime


class Consumer(Protocol):
    """The part of the source that runs on the driver."""

    initial: OffsetJson
    """Offset of a query that has read nothing. The offset is the same in every run, with or without
    a log."""

    def freeze_cutoff(self) -> None:
        """From now on, read only messages that were inserted before this call.

        The time of the call is read from the service's clock, in whole seconds.
        """

    def latest(self, wanted: Wanted) -> OffsetJson:
        """Settle the batches that are proven to be committed. Return the offset of the next batch.

        Returns the start if there is no next batch.
        """

    def plan(
        self, start: Mapping[str, Any], end: OffsetJson, *, is_proven: bool = True
    ) -> list[bytes]:
        """Return the input of each task of the batch that ends at `end`.

        The input is an Arrow stream of the task's rows. With leaseOn=executors, the input is the
        task's slot of the plan.

        is_proven: False if the engine may not have committed the start yet.
        """

    def committed(self, offset: Mapping[str, Any]) -> None:
        """Settle this offset and all earlier offsets, all of which are proven to be committed.

        The call may be repeated.
        """

    def give_back(self, offset: OffsetJson, timeout_s: float) -> bool | None:
        """Release the messages of a batch of this run, if its rows were never requested.

        Returns True if a later batch delivers the messages, and False if only a write-ahead log has
        the messages. Returns None for a batch of an earlier run: the sink may already have the rows
        of such a batch, and may skip the batch. The call may be repeated. Raises AzQueueError or
        TimeoutError.
        """

    def report(self) -> Report:
        """Return the backlog, the held messages and this run's counters.

        Most calls send no request.
        """

    def close(self) -> None:
        """Stop renewing leases, finish due deletes, and release undelivered messages. Takes some
        seconds."""


def consumer_for(config: SourceConfig, columns: Columns, runtime: Runtime = DEFAULT) -> Consumer:
    """Return the consumer that the options select.

    The consumer sends nothing before its first call.
    """
    if config.write_ahead_log and config.executors:
        return ExecutorsConsumer(config, config.write_ahead_log, config.executors, runtime=runtime)
    if config.write_ahead_log:
        return LogConsumer(config, columns, config.write_ahead_log, runtime=runtime)
    return LeasedConsumer(config, columns, runtime)
