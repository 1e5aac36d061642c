"""A whole query in one thread: the real Consumer over a model queue, driven by a model of Spark.

Spark is modelled from its own order of calls (4.2 and later): offsets are logged before a batch
runs, commits after it, and a new process that finds an unfinished batch replays it first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from doubles import AtOnce

from spark_azqueue.options.parse import source_config
from spark_azqueue.options.source_config import SourceConfig
from spark_azqueue.service.messages import Lease, QueueRef
from spark_azqueue.source.columns import source_columns
from spark_azqueue.source.driver.leased import LeasedConsumer
from spark_azqueue.source.leases.states import State
from spark_azqueue.source.offsets import QueueOffset
from spark_azqueue.source.rows import record_batches
from spark_azqueue.source.runtime import Runtime

from .process import Simulated
from .service import SOURCE, Service

VISIBILITY_S = 100


@dataclass
class Spark:
    """A streaming query: its checkpoint, its process (the Consumer), and its sink."""

    service: Service
    options: dict[str, str] = field(default_factory=dict)
    available_now: bool = False
    bare: bool = False  # as Spark 4.0 and 4.1 call: latestOffset() without a start, after a probe
    once: bool = False  # with trigger(once=True), which sets no limit (4.2 and later)
    offsets: list[dict[str, Any]] = field(default_factory=list)
    commits: int = 0  # batches 0 … commits-1 are committed
    consumer: LeasedConsumer | None = None
    committed: set[tuple[str, str]] = field(default_factory=set)  # (id, body)
    to_be_deleted: set[tuple[str, str]] = field(default_factory=set)
    """Those of `committed` that were given out with deleteOnCommit=true."""
    committed_texts: Counter[str] = field(default_factory=Counter)
    given_in_run: Counter[tuple[str, str]] = field(default_factory=Counter)
    runs: int = 0
    another_has_data: bool = False
    """At the next trigger the query's other load has data, so a batch runs without ours."""
    renewals_run: bool = False
    """Time passes with a renewal thread beside it: the leases are kept."""

    def __post_init__(self) -> None:
        self._queues: Simulated | None = None
        self._settling = AtOnce(1, "leases")
        self._renewing = False
        self._config = self._read_options()
        if self.renewals_run:
            self.service.while_time_passes = self.keep_leases

    def config(self) -> SourceConfig:
        return self._config

    def queues_there(self) -> tuple[QueueRef, ...]:
        """The queues that the query reads and that exist."""
        return self.config().selection.among(self.service.account.names())

    def _read_options(self) -> SourceConfig:
        given = {
            "queue": SOURCE,
            "secret.connectionString": "AccountName=memory;AccountKey=c2VjcmV0",
            "visibilityTimeout": str(VISIBILITY_S),
            "receiveParallelism": "1",
            "maxMessagesPerTrigger": "8",
            **self.options,
        }
        return source_config(given, {})

    def next_start_with(self, **options: str) -> None:
        """The next process has these options as well."""
        self.options.update(options)
        self._config = self._read_options()

    def runtime(self) -> Runtime:
        """Simulated queues and time. Renewals happen when a test says so, not in a thread."""
        assert self._queues
        return Runtime(
            client=self._queues,
            renews=False,
            make_workers=self.make_workers,
            clock=self.service.clock.now,
            now=self.service.wall,
            sleep=self.service.pass_time,
        )

    def start(self) -> None:
        """Start the query's process; it replays what the last one left unfinished."""
        config = self.config()
        columns = source_columns(config.body_type, permissive=False)
        self._queues = Simulated(config.account, self.service)
        self.consumer = LeasedConsumer(config, columns, self.runtime())
        self.given_in_run.clear()
        self.runs += 1
        if self.available_now:
            self.consumer.freeze_cutoff()
        if self.bare and self.offsets:  # before the commit log is read
            assert self._rows(self.offsets[-1], self.offsets[-1]) == []
        if len(self.offsets) > self.commits:
            rows = self._rows(self._start_of(self.commits), self.offsets[self.commits])
            assert rows == [], "a replayed batch gives no rows"
            self._check_replayed(self.offsets[self.commits])
            self.commits += 1

    def make_workers(self, count: int, name: str) -> AtOnce:
        made = AtOnce(count, name)
        if name == "leases":
            self._settling = made
        return made

    def pending_in_checkpoint(self) -> int:
        """How many pending deletes the offsets name that a start of the process reads."""
        read = self.offsets[-2:]
        return sum(len(QueueOffset.from_json(each, account="memory").pending) for each in read)

    def _start_of(self, batch: int) -> dict[str, Any]:
        assert self.consumer
        return self.offsets[batch - 1] if batch else self.consumer.initial

    def _check_replayed(self, offset: dict[str, Any]) -> None:
        """Promise 4: available again at the restart, unless renewed since or somebody else's."""
        leases = QueueOffset.from_json(offset, account="memory").leases
        held = {(lease.message_id, lease.pop_receipt) for lease in leases}
        for queue in self.queues_there():
            for view in self.service.views(queue.name):
                assert (view.id, view.receipt) not in held, "each lease of a replayed batch is dead"

    def _rows(self, start: dict[str, Any], end: dict[str, Any]) -> list[dict[str, Any]]:
        assert self.consumer
        rows: list[dict[str, Any]] = []
        for partition in self.consumer.plan(start, end):
            for batch in record_batches(partition):
                rows.extend(batch.to_pylist())
        return rows

    def trigger(
        self,
        *,
        dies: str = "",
        fails_on: Callable[[str], bool] | None = None,
        meanwhile: Callable[[], None] | None = None,
    ) -> bool:
        """One round of Spark's loop. Returns False where there was nothing new.

        dies: "before_log", "after_log", "after_sink" (kill -9 there), "batch" (the batch fails and
        the process is ended politely). fails_on: bodies that make their batch fail. meanwhile: what
        happens in the world while the batch runs.
        """
        if self.consumer is None:
            self.start()
        consumer, config = self.consumer, self.config()
        assert consumer
        start = self._start_of(self.commits)
        if self.bare:
            end = consumer.latest(None, None)
        else:
            end = consumer.latest(start, None if self.once else config.max_messages)
        another = self._another_has_data()
        if end == start and self.offsets and not another:
            return False
        if dies == "before_log":
            return self._kill()
        self.offsets.append(end)
        if self.commits:
            consumer.committed(start)
        if dies == "after_log":
            return self._kill()
        if end == start:  # another load has data, or it is the first batch of all
            if self.commits == 0:
                assert self._rows(end, end) == []
            self.commits += 1
            return False
        rows = self._rows(start, end)
        assert rows == self._rows(start, end), "the same rows, however often it is planned"
        for row in rows:
            self.given_in_run[row["message_id"], row["body"]] += 1
        if meanwhile:
            meanwhile()
        if dies == "batch" or (fails_on and any(fails_on(row["body"]) for row in rows)):
            consumer.close()
            return self._kill()
        if dies == "after_sink":
            return self._kill()
        self.commits += 1
        for row in rows:
            self.committed.add((row["message_id"], row["body"]))
            if config.delete_on_commit:
                self.to_be_deleted.add((row["message_id"], row["body"]))
            self.committed_texts[row["body"]] += 1
        return True

    def _another_has_data(self) -> bool:
        """The query has a second load, which has data when a test says so."""
        has, self.another_has_data = self.another_has_data, False
        return has

    def stop(self) -> None:
        """query.stop(): the process gets a moment to close."""
        if self.consumer:
            self.consumer.close()
        self._kill()

    def kill(self) -> None:
        """kill -9: what was sent may still arrive, nothing is heard any more."""
        self._kill()

    def _kill(self) -> bool:
        self.consumer = None
        if self._queues:
            self._queues.kill()
        return True

    def renew(self) -> None:
        """What the renewal thread would do now."""
        if self.consumer and not self._renewing:
            self._renewing = True
            try:
                self.consumer.engine.holder.worker.renew_due()
            finally:
                self._renewing = False

    def renew_while(self, happens: Callable[[], None]) -> None:
        """What the renewal thread would do now; if an answer hangs, this happens before it."""
        if self.service.while_time_passes or not self.consumer:
            return self.renew()
        settling = self._settling

        def once() -> None:
            if not settling.busy:  # its thread is this one
                self.service.while_time_passes = None
                happens()

        self.service.while_time_passes = once
        try:
            self.renew()
        finally:
            self.service.while_time_passes = None

    def keep_leases(self) -> None:
        """Renew, and check promise 6: no held message is there for others to take.

        Except those whose own renewal, or dequeue, had no answer.
        """
        self.renew()
        taken = self.held_and_visible()
        assert not taken, "held, renewed in time, and yet there for somebody else"

    def held_and_visible(self) -> set[str]:
        """Ids of messages in hand that a dequeue could take, though their leases are certain."""
        if self.consumer is None:
            return set()
        holder = self.consumer.engine.holder
        visible = {
            Lease(queue, view.id, "")
            for queue in self.queues_there()
            for view in self.service.views(queue.name)
            if view.visible and view.id not in self.service.unsure
        }
        with holder.ledger as ledger:
            held = {each for each in visible if ledger.state(each) is State.HELD}
        return set() if holder.worker.is_stopped else {each.message_id for each in held}
