"""A whole query in one thread: the real consumer over the simulated service, driven as Spark does.

Spark is modelled from its own order of calls (4.2 and later): offsets are logged before a batch
runs, commits after it, and a new process that finds an unfinished batch replays it first.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from doubles import AtOnce

from spark_azqueue.metrics.source_progress import CLOSING
from spark_azqueue.options.choices import PoisonFormat
from spark_azqueue.options.parse import source_config
from spark_azqueue.options.source_config import SourceConfig
from spark_azqueue.service.messages import Lease, QueueRef
from spark_azqueue.source.columns import Columns, source_columns
from spark_azqueue.source.driver.leased import LeasedConsumer
from spark_azqueue.source.engine_calls import EngineCalls
from spark_azqueue.source.leases.states import State
from spark_azqueue.source.offsets import QueueOffset
from spark_azqueue.source.rows import record_batches
from spark_azqueue.source.runtime import Runtime

from .process import Simulated
from .service import SOURCE, Service
from .turns import Killed

VISIBILITY_S = 100

DIES = ("before_log", "after_log", "planned", "batch", "after_sink")
"""Where a process may end in a trigger: killed before or after Spark has logged the offset, when
the batch is planned, or after the sink has it; "batch": the batch fails, and it ends politely."""

Row = tuple[str, str]
"""Message id and body, the same text for either type; of one that does not decode, see NO_BODY."""

NO_BODY = "(not decoded) "
"""With onUndecodable=permissive, before the text in _corrupt_record, if there is that column."""


def a_row(row: dict[str, Any]) -> Row:
    """A row of the source, or of a log that is read."""
    body, corrupt = row["body"], row.get("_corrupt_record")
    text = NO_BODY + (corrupt or "") if body is None else body
    return row["message_id"], text if isinstance(text, str) else text.decode("latin-1")


@dataclass
class SparkLogs:
    """Spark's offset log and commit log: batches 0 … commits-1 are committed."""

    offsets: list[dict[str, Any]] = field(default_factory=list)
    commits: int = 0


class FencedError(Exception):
    """Spark's own: another driver has written this batch's offset."""


class BatchFailedError(Exception):
    """A row made its batch fail: the query ends, and its process is asked to close."""


@dataclass
class Spark:
    """A streaming query: its checkpoint, its process (the consumer), and what it has committed.

    bare: as Spark 4.0 and 4.1 call: latestOffset() without a start, after a probe. once: with
    trigger(once=True), which sets no limit (4.2 and later). ahead: another engine, which plans so
    many batches before the first of them is committed. renewals_run: time passes with a renewal
    thread beside it. is_poison: bodies that make their batch fail.
    """

    service: Service
    options: dict[str, str] = field(default_factory=dict)
    available_now: bool = False
    bare: bool = False
    once: bool = False
    ahead: int = 0
    checkpoint: SparkLogs = field(default_factory=SparkLogs)
    consumer: Any = None
    committed: set[Row] = field(default_factory=set)
    to_be_deleted: set[Row] = field(default_factory=set)
    """Those of `committed` that were given out with deleteOnCommit=true."""
    committed_texts: Counter[str] = field(default_factory=Counter)
    given_in_run: Counter[Row] = field(default_factory=Counter)
    runs: int = 0
    another_has_data: bool = False
    """At the next trigger the query's other load has data, so a batch runs without ours."""
    renewals_run: bool = False
    is_poison: Callable[[str], bool] = lambda _: False
    as_sent: Callable[[str, str], str] = lambda message_id, body: body
    """The text from which the body of this message was made."""
    is_at_work: bool = False
    """It is in the middle of something, perhaps in a pause."""

    def __post_init__(self) -> None:
        self._queues: Simulated | None = None
        self._settling = AtOnce(1, "leases")
        self._renewing = False
        self._config = self._read_options()
        if self.renewals_run:
            self.service.while_time_passes = self.keep_leases

    @property
    def offsets(self) -> list[dict[str, Any]]:
        return self.checkpoint.offsets

    # ── its process ───────────────────────────────────────────────────────────────────────────────

    def config(self) -> SourceConfig:
        return self._config

    def queues_there(self) -> tuple[QueueRef, ...]:
        """The queues that the query reads and that exist."""
        return self.config().selection.among(self.service.account.names())

    def _read_options(self) -> SourceConfig:
        given = {
            "queue": SOURCE,
            "secret.connectionString": "AccountName=memory;AccountKey=c2VjcmV0",
            "maxDequeueCount": "none",
            "visibilityTimeout": str(VISIBILITY_S),
            "parallelism": "1",
            "maxMessagesPerTrigger": "8",
            **self.options,
        }
        return replace(source_config(given, {}), poison_format=PoisonFormat.COPY)

    def next_start_with(self, **options: str) -> None:
        """The next process has these options as well."""
        self.options.update(options)
        self._config = self._read_options()

    def restart_with(self, **options: str) -> None:
        """The query stops, and its next process has these options as well."""
        self.stop()
        self.next_start_with(**options)

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

    def make_workers(self, count: int, name: str) -> AtOnce:
        made = AtOnce(count, name)
        if name == "leases":
            self._settling = made
        return made

    def columns(self) -> Columns:
        return source_columns(self.config().body_type, permissive=False)

    def made_consumer(self) -> Any:
        return LeasedConsumer(self.config(), self.columns(), self.runtime())

    def start_only_the_process(self) -> None:
        """Start the query's process, and call nothing."""
        self._queues = Simulated(self.config().account, self.service)
        self.consumer = self.made_consumer()
        clock = self.service.clock.now
        self.calls = EngineCalls(
            self.consumer,
            plans_ahead=self.ahead > 0,
            clock=clock,
            sleep=self.service.pass_time,
        )
        self.runs += 1
        self.given_in_run.clear()
        if self.available_now:
            self.calls.freeze_cutoff()

    def start(self) -> int:
        """Start the query's process; it repeats what the last one left unfinished: so many."""
        self.start_only_the_process()
        at, repeated = self.checkpoint, 0
        if self.bare and at.offsets:  # before the commit log is read
            assert self.planned(len(at.offsets) - 1, probe=True) == []
        while len(at.offsets) > at.commits:
            self.run_batch(at.commits, is_repeated=True)
            repeated += 1
        return repeated

    def stop(self) -> None:
        """query.stop(): the process gets a moment to close. Perhaps it is killed meanwhile."""
        with contextlib.suppress(Killed), self.at_work():
            if self.consumer:
                self.calls.close()
            self.kill()

    def kill(self) -> bool:
        """kill -9: what was sent may still arrive, nothing is heard any more. True."""
        self.consumer = None
        if self._queues:
            self._queues.kill()
        return True

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        """It is in the middle of something."""
        self.is_at_work, before = True, self.is_at_work
        try:
            yield
        finally:
            self.is_at_work = before

    # ── batches ───────────────────────────────────────────────────────────────────────────────────

    def start_of(self, batch: int) -> dict[str, Any]:
        """Where a batch begins."""
        start: dict[str, Any] = self.offsets[batch - 1] if batch else self.calls.initial
        return start

    def planned(self, batch: int, *, probe: bool = False) -> list[list[Row]]:
        """The rows of a batch, by partition."""
        end = self.offsets[batch]
        return [
            [a_row(row) for each in record_batches(partition) for row in each.to_pylist()]
            for partition in self.calls.plan(end if probe else self.start_of(batch), end)
        ]

    def trigger(
        self,
        *,
        dies: str = "",
        fails_on: Callable[[str], bool] | None = None,
        meanwhile: Callable[[], None] | None = None,
    ) -> bool:
        """One round of Spark's loop. Returns False where there was nothing new.

        dies: one of DIES. fails_on: bodies that make their batch fail, if not `is_poison`.
        meanwhile: what happens in the world while the batch runs.
        """
        try:
            with self.at_work():
                trigger = self._trigger_ahead if self.ahead else self._trigger
                return trigger(dies, fails_on or self.is_poison, meanwhile)
        except (BatchFailedError, Killed):
            return True

    def _trigger(
        self, dies: str, fails_on: Callable[[str], bool], meanwhile: Callable[[], None] | None
    ) -> bool:
        if self.consumer is None:
            self.start()
        at, batch = self.checkpoint, self.checkpoint.commits
        start, end = self.start_of(batch), self.latest()
        another = self._another_has_data()
        if end == start and at.offsets and not another:
            return False
        if dies == "before_log":
            return self.kill()
        self._fence(is_first=len(at.offsets) <= batch)
        at.offsets.append(end)
        if batch:
            self.calls.committed(start)
        if dies == "after_log":
            return self.kill()
        if end == start and batch:  # another load has data: nothing is planned of this one
            self.writes(batch, [])
            self.commits(batch, [])
            return False
        if dies == "planned":
            self.planned(batch)
            return self.kill()
        rows = self.run_batch(batch, meanwhile, lambda text: dies == "batch" or fails_on(text))
        if dies == "after_sink":
            return self.kill()
        self.commits(batch, rows)
        return bool(end != start)

    def _trigger_ahead(
        self, dies: str, fails_on: Callable[[str], bool], meanwhile: Callable[[], None] | None
    ) -> bool:
        """Plan batches ahead, run them at once, and commit in order those that have not failed."""
        if self.consumer is None:
            self.start()
        at, first = self.checkpoint, self.checkpoint.commits
        rows: dict[int, list[Row]] = {}
        self._another_has_data()
        for batch in range(first, first + self.ahead):
            end = self.latest(batch)
            if end == self.start_of(batch):
                break
            if dies == "before_log":
                return self.kill()
            self._fence(is_first=len(at.offsets) <= batch)
            at.offsets.append(end)
            if first:
                self.calls.committed(self.start_of(first))
            if dies == "after_log":
                return self.kill()
            rows[batch] = self._given(batch)
        if dies == "planned":
            return self.kill()
        if rows and meanwhile:
            meanwhile()
        fails_at = first + len(self.committed) % self.ahead if dies == "batch" else -1
        failed = [
            batch
            for batch, given in rows.items()
            if batch == fails_at or any(fails_on(text) for _, text in given)
        ]
        for batch in reversed(rows):
            if batch not in failed:
                self.writes(batch, rows[batch])
        if dies == "after_sink":
            return self.kill()
        for batch, given in rows.items():
            if batch in failed:
                self.stop()
                raise BatchFailedError
            self.commits(batch, given)
        return bool(rows)

    def latest(self, batch: int | None = None) -> dict[str, Any]:
        """Ask for the end of this batch, by default of the next one."""
        start = self.start_of(self.checkpoint.commits if batch is None else batch)
        most = None if self.bare or self.once else self.config().max_messages
        return self.calls.latest(None if self.bare else start, most)

    def run_batch(
        self,
        batch: int,
        meanwhile: Callable[[], None] | None = None,
        fails_on: Callable[[str], bool] | None = None,
        *,
        is_repeated: bool = False,
    ) -> list[Row]:
        """The batch is planned, and the sink has it. is_repeated: it is committed, too."""
        rows = self._given(batch, is_repeated=is_repeated)
        if meanwhile:
            meanwhile()
        if any(map(fails_on or self.is_poison, (text for _, text in rows))):
            self.stop()
            raise BatchFailedError
        self.writes(batch, rows)
        if is_repeated:
            self.commits(batch, rows)
        return rows

    def _given(self, batch: int, *, is_repeated: bool = False) -> list[Row]:
        """The rows of a batch that is planned."""
        parts = self.planned(batch)
        assert parts == self.planned(batch), "the same rows, however often it is planned"
        self.gave(batch, parts, is_repeated=is_repeated)
        return [(key, self.as_sent(key, body)) for part in parts for key, body in part]

    def gave(self, batch: int, parts: list[list[Row]], *, is_repeated: bool) -> None:
        """Rows were given. Without a log those of a repeated batch come in later ones."""
        self.given_in_run.update(row for part in parts for row in part)
        if is_repeated:
            assert parts == [], "a replayed batch gives no rows"
            if CLOSING in self.offsets[batch]:  # it has none
                return
            self._check_replayed(self.offsets[batch])

    def writes(self, batch: int, rows: list[Row]) -> None:
        """The sink has these rows."""

    def commits(self, batch: int, rows: list[Row]) -> None:
        """Spark's commit log has the batch."""
        self._fence(is_first=self.checkpoint.commits == batch)
        self.checkpoint.commits += 1
        self.committed.update(rows)
        if self.config().delete_on_commit:
            self.to_be_deleted.update(rows)
        self.committed_texts.update(text for _, text in rows)

    def _fence(self, *, is_first: bool) -> None:
        if not is_first:
            self.kill()
            raise FencedError

    def _check_replayed(self, offset: dict[str, Any]) -> None:
        """Promise 4: available again at the restart, unless renewed since or somebody else's."""
        leases = QueueOffset.from_json(offset, account="memory").leases
        held = {(lease.message_id, lease.pop_receipt) for lease in leases}
        for queue in self.queues_there():
            for view in self.service.views(queue.name):
                assert (view.id, view.receipt) not in held, "each lease of a replayed batch is dead"

    def _another_has_data(self) -> bool:
        """The query has a second load, which has data when a test says so."""
        has, self.another_has_data = self.another_has_data, False
        return has

    def pending_in_checkpoint(self) -> int:
        """How many pending deletes the offsets name that a start of the process reads."""
        read = self.offsets[-2:]
        return sum(len(QueueOffset.from_json(each, account="memory").pending) for each in read)

    # ── leases ────────────────────────────────────────────────────────────────────────────────────

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
        with holder.locked_ledger as ledger:
            held = {each for each in visible if ledger.state(each) is State.HELD}
        return set() if holder.worker.is_stopped else {each.message_id for each in held}
