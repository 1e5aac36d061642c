"""Calls a consumer as an engine does."""

from __future__ import annotations

from typing import Any

from spark_azqueue.source.calls import Wanted
from spark_azqueue.source.consumer import Consumer
from spark_azqueue.source.engine_calls import EngineCalls
from spark_azqueue.source.offsets import OffsetJson


class Door(EngineCalls):
    """Apache Spark's calls; all else is that of the consumer, such as its `engine`."""

    def __init__(self, consumer: Consumer) -> None:
        super().__init__(consumer, plans_ahead=False)
        self.consumer = consumer

    def __getattr__(self, name: str) -> Any:
        return getattr(self.consumer, name)


class Straight:
    """A consumer, called by a test that leaves out some of Spark's calls."""

    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer

    def latest(self, start: OffsetJson, most: int | None) -> OffsetJson:
        """The offset of the next batch; the start is committed."""
        return self.consumer.latest(Wanted(start, most))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.consumer, name)
