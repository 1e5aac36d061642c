"""availableNow queries as Spark runs them, without Spark: the calls of 4.0 and 4.1, and of 4.2.

The source is the real one. A query's checkpoint and log outlive its runs.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from door import Door
from log_stores import MemoryLogStore

from spark_azqueue.options.log import LogConfig, LogPlace
from spark_azqueue.options.parse import source_config
from spark_azqueue.source.columns import source_columns
from spark_azqueue.source.driver.leased import LeasedConsumer
from spark_azqueue.source.log.consumer import LogConsumer
from spark_azqueue.source.offsets import OffsetJson
from spark_azqueue.source.rows import record_batches
from spark_azqueue.testing import FakeQueueService


class Scheduled:
    """A query that is started again and again. old: as Spark 4.0 and 4.1 run it."""

    def __init__(
        self,
        fake: FakeQueueService,
        queue: str = "orders",
        *,
        old: bool,
        has_log: bool = False,
        **options: str,
    ) -> None:
        self.options = {
            "secret.connectionString": fake.connection_string,
            "queue": queue,
            "parallelism": "1",
            **options,
        }
        self.old = old
        self._clock = fake.clock
        self.rows: list[str] = []
        self.runs: list[Run] = []
        self.before_commit: Callable[[int], None] = lambda run: None
        """Called with the number of the run, from 0, when its rows were read. It may raise."""
        self.skips: Callable[[int], bool] = lambda batch: False
        """True for a batch, from 1, that the sink has already, so it reads no row of it."""
        self._store = MemoryLogStore() if has_log else None
        self._offsets: list[OffsetJson] = []
        self._committed = 0

    def start(self) -> Run:
        self.runs.append(Run(self, len(self.runs)))
        return self.runs[-1]

    def source(self) -> Door:
        config = source_config(self.options, {})
        columns = source_columns(config.body_type, permissive=False)
        if self._store is None:
            return Door(LeasedConsumer(config, columns))
        log = LogConfig(LogPlace(container=None, folder="/memory"), None)
        return Door(LogConsumer(config, columns, log, store=self._store))

    def work(self, run: Run) -> None:
        """All that one run does, from its start to its end."""
        source = self.source()
        try:
            if self.old:
                self._one_batch(run, source)
            else:
                source.freeze_cutoff()
                while self._batch(run, source, self._newest(source)):
                    pass
        finally:
            source.close()

    def _newest(self, source: Door) -> OffsetJson:
        return self._offsets[-1] if self._offsets else source.initial

    def _one_batch(self, run: Run, source: Door) -> None:
        if self._offsets:
            source.plan(self._offsets[-1], self._offsets[-1])
        if self._committed < len(self._offsets):
            self._process(run, source, is_again=True)
        else:
            self._batch(run, source, None)

    def _batch(self, run: Run, source: Door, start: OffsetJson | None) -> bool:
        """A batch, if there is one; else an idle trigger."""
        if start is not None and self._committed < len(self._offsets):
            self._process(run, source, is_again=True)
            return True
        newest = self._newest(source)
        end = source.latest(start, None if self.old else 100_000)
        if end == newest:
            run.tell(newest, newest, 0, report=source.report().to_json())
            return False
        self._offsets.append(end)
        if newest != source.initial:
            source.committed(newest)
        self._process(run, source)
        return True

    def _process(self, run: Run, source: Door, *, is_again: bool = False) -> None:
        end = self._offsets[-1]
        start = self._offsets[-2] if len(self._offsets) > 1 else source.initial
        parts = source.plan(start, end)
        bodies = [
            body
            for part in ([] if self.skips(end["batch"]) else parts)
            for batch in record_batches(part)
            for body in batch.column("body").to_pylist()
        ]
        began = self._clock.now()
        self.before_commit(run.number)
        self.rows += bodies
        self._committed = len(self._offsets)
        seconds = self._clock.now() - began
        run.tell(start, end, len(bodies), is_again=is_again, seconds=seconds)

    def roll_back(self) -> None:
        """Go back behind the first batch, as a checkpoint that was restored from a copy."""
        self.rows = self.rows[: sum(each["numInputRows"] for each in self.runs[0].recentProgress)]
        self._offsets, self._committed = self._offsets[:1], 1

    def counts(self) -> Counter[str]:
        """How often each body came."""
        return Counter(self.rows)


class Run:
    """What `start` returns: as much of a StreamingQuery as a supervisor needs."""

    def __init__(self, query: Scheduled, number: int) -> None:
        self._query, self.number = query, number
        self.recentProgress: list[dict[str, Any]] = []
        self.stopped = False
        self.has_ended = False

    def awaitTermination(self, timeout: float | None = None) -> bool:
        self._query.work(self)
        self.has_ended = True
        return True

    def stop(self) -> None:
        self.stopped = True

    def tell(
        self,
        start: OffsetJson,
        end: OffsetJson,
        rows: int,
        *,
        is_again: bool = False,
        seconds: float = 0.0,
        report: Mapping[str, Any] | None = None,
    ) -> None:
        """A progress event of this run. is_again: Spark asked for no offset in it."""
        if start == end and self.recentProgress and not self._query.old:
            return  # Spark tells of an idle trigger ten seconds after a batch
        latest = json.dumps(end if self._query.old else report or {"version": 1})
        source = {
            "startOffset": json.dumps(start),
            "endOffset": json.dumps(end),
            "latestOffset": None if is_again else latest,
            "numInputRows": rows,
        }
        self.recentProgress.append(
            {
                "runId": str(self.number),
                "batchId": end["batch"] - (start != end),
                "numInputRows": rows,
                "durationMs": {"triggerExecution": int(seconds * 1_000)},
                "sources": [source],
            }
        )


def numbered(count: int, name: str = "m") -> Sequence[str]:
    """So many bodies."""
    return [f"{name}{number}" for number in range(count)]
