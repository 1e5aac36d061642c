"""A whole query in one thread: the real Consumer over a model queue, driven by a model of Spark.

Spark is modelled from its own order of calls (4.2 and later): offsets are logged before a batch
runs, commits after it, and a new process that finds an unfinished batch replays it first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from doubles import AtOnce, OneByOne

from spark_azqueue.errors import Outcome, ServiceError
from spark_azqueue.options.source_config import SourceConfig, source_config
from spark_azqueue.service.answers import classify, service_error
from spark_azqueue.service.messages import Lease, Message
from spark_azqueue.service.queues.calls import Page
from spark_azqueue.source.columns import source_columns
from spark_azqueue.source.consumer import Consumer
from spark_azqueue.source.rows import record_batches
from spark_azqueue.testing import FakeClock, MessageView, ModelAccount
from spark_azqueue.testing import ServiceError as Refusal

SOURCE = "orders"
POISON = "orders-poison"
VISIBILITY_S = 100


@dataclass
class Service:
    """The account, its clock, and the faults that the next requests meet."""

    clock: FakeClock = field(default_factory=lambda: FakeClock(1_800_000_000.0, frozen=True))
    account: ModelAccount = field(default_factory=ModelAccount)
    lost_replies: Counter[str] = field(default_factory=Counter)
    lost_requests: Counter[str] = field(default_factory=Counter)
    busy: Counter[str] = field(default_factory=Counter)
    twice: int = 0
    deleted: list[tuple[str, str]] = field(default_factory=list)
    updates: int = 0
    releases: int = 0
    before_dequeue: Callable[[str], None] | None = None
    """Called with a queue's name before each dequeue: what others send meanwhile."""

    def queue(self, name: str) -> MemoryQueue:
        return MemoryQueue(self, name)

    def views(self, name: str = SOURCE) -> list[MessageView]:
        return self.account.queue(name).messages(now=self.clock.now())

    def take(self, counter: Counter[str], operation: str) -> bool:
        if counter[operation] <= 0:
            return False
        counter[operation] -= 1
        return True


class MemoryQueue:
    """AzureQueue's interface over the model, with the translation of refusals as over HTTP."""

    def __init__(self, service: Service, name: str) -> None:
        self._service = service
        self._queue = service.account.queue(name)
        self.name = name

    def _ask(self, operation: str, act: Callable[[float], Any], *, by_receipt: bool = False) -> Any:
        service = self._service
        if service.take(service.busy, operation):
            raise service_error(operation, status=503, code="ServerBusy")
        if service.take(service.lost_requests, operation):
            raise service_error(operation, status=None)
        try:
            answer = act(service.clock.now())
        except Refusal as refusal:
            raise service_error(
                operation, status=refusal.status, code=refusal.code, by_receipt=by_receipt
            ) from None
        finally:
            if service.take(service.lost_replies, operation):
                raise service_error(operation, status=None) from None
        return answer

    def dequeue(self, count: int, visibility_s: int) -> Page:
        if self._service.before_dequeue:
            self._service.before_dequeue(self.name)
        sent_at = self._service.clock.now()
        twice = self._service.twice > 0
        self._service.twice = 0
        views = self._ask(
            "dequeue",
            lambda now: self._queue.dequeue(
                now=now, count=count, visibility=visibility_s, twice=twice
            ),
        )
        return Page(tuple(self._message(view) for view in views), count, sent_at)

    def _message(self, view: MessageView) -> Message:
        return Message(
            queue=self.name,
            message_id=view.id,
            text=view.text,
            insertion_time=int(view.insertion) * 1_000_000,
            expiration_time=int(view.expiration) * 1_000_000,
            dequeue_count=view.dequeue_count,
            next_visible_time=int(view.next_visible) * 1_000_000,
            pop_receipt=view.receipt,
        )

    def count(self) -> int:
        return len(self._service.views(self.name))

    def delete(self, lease: Lease) -> Outcome:
        def act(now: float) -> None:
            self._queue.delete(lease.message_id, lease.pop_receipt, now=now)
            self._service.deleted.append((self.name, lease.message_id))

        return self._by_receipt("delete", act)[0]

    def update(self, lease: Lease, visibility_s: int) -> tuple[Outcome, Lease | None]:
        self._service.updates += 1
        self._service.releases += visibility_s == 0
        outcome, view = self._by_receipt(
            "update",
            lambda now: self._queue.update(
                lease.message_id, lease.pop_receipt, now=now, visibility=visibility_s
            ),
        )
        return outcome, Lease(self.name, lease.message_id, view.receipt) if view else None

    def put(self, text: str, delay_s: int = 0, ttl_s: int | None = None) -> None:
        ttl = 7 * 86_400 if ttl_s is None else ttl_s
        self._ask(
            "put",
            lambda now: self._queue.put(text, now=now, visibility_delay=delay_s, ttl=ttl),
        )

    def check(self) -> datetime:
        return datetime.fromtimestamp(self._service.clock.now(), timezone.utc)

    def check_put(self) -> None:
        pass

    def _by_receipt(self, operation: str, act: Callable[[float], Any]) -> tuple[Outcome, Any]:
        try:
            return Outcome.OK, self._ask(operation, act, by_receipt=True)
        except ServiceError as error:
            if error.status and classify(error.status, error.code, by_receipt=True).refused:
                return error.outcome, None
            raise


@dataclass
class Spark:
    """A streaming query: its checkpoint, its process (the Consumer), and its sink."""

    service: Service
    options: dict[str, str] = field(default_factory=dict)
    available_now: bool = False
    bare: bool = False  # as Spark 4.0 and 4.1 call: latestOffset() without a start, after a probe
    offsets: list[dict[str, Any]] = field(default_factory=list)
    commits: int = 0  # batches 0 … commits-1 are committed
    consumer: Consumer | None = None
    committed: set[tuple[str, str]] = field(default_factory=set)  # (id, body)
    committed_texts: Counter[str] = field(default_factory=Counter)
    given_in_run: Counter[tuple[str, str]] = field(default_factory=Counter)
    runs: int = 0

    def config(self) -> SourceConfig:
        given = {
            "queue": SOURCE,
            "secret.connectionString": "AccountName=memory;AccountKey=c2VjcmV0",
            "visibilityTimeout": str(VISIBILITY_S),
            "receiveParallelism": "1",
            "maxMessagesPerTrigger": "8",
            **self.options,
        }
        return source_config(given, {})

    def start(self) -> None:
        """Start the query's process; it replays what the last one left unfinished."""
        config = self.config()
        columns = source_columns(config.body_type, permissive=False)
        self.consumer = Consumer(
            config,
            columns,
            client=OneByOne(self.service.queue),
            renews=False,  # renewals happen when a test says so, not in a thread
            make_workers=AtOnce,
            clock=self.service.clock.now,
            sleep=self.service.clock.advance,
        )
        self.given_in_run.clear()
        self.runs += 1
        if self.available_now:
            self.consumer.only_what_is_there()
        if self.bare and self.offsets:  # before the commit log is read
            assert self._rows(self.offsets[-1], self.offsets[-1]) == []
        if len(self.offsets) > self.commits:
            rows = self._rows(self._start_of(self.commits), self.offsets[self.commits])
            assert rows == [], "a replayed batch gives no rows"
            self._check_replayed(self.offsets[self.commits])
            self.commits += 1

    def _start_of(self, batch: int) -> dict[str, Any]:
        assert self.consumer
        return self.offsets[batch - 1] if batch else self.consumer.initial

    def _check_replayed(self, offset: dict[str, Any]) -> None:
        """Promise 4: available again at the restart, unless renewed since or somebody else's."""
        from spark_azqueue.source.offsets import QueueOffset

        leases = QueueOffset.from_json(offset, account="memory").leases
        receipts = {lease.pop_receipt for lease in leases}
        for name in self.config().queues:
            for view in self.service.views(name):
                assert view.receipt not in receipts, "every receipt of a replayed batch is dead"

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
        consumer = self.consumer
        assert consumer
        start = self._start_of(self.commits)
        end = consumer.latest(None if self.bare else start, None)
        if end == start:
            return False
        if dies == "before_log":
            return self._kill()
        self.offsets.append(end)
        if self.commits:
            consumer.committed(start)
        if dies == "after_log":
            return self._kill()
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
            self.committed_texts[row["body"]] += 1
        return True

    def stop(self) -> None:
        """query.stop(): the process gets a moment to close."""
        if self.consumer:
            self.consumer.close()
        self._kill()

    def _kill(self) -> bool:
        self.consumer = None
        return True

    def renew(self) -> None:
        """What the renewal thread would do now."""
        if self.consumer:
            self.consumer.renew_due()
