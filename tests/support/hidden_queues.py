"""Queues in memory for the transactional sink, and whole processes of it over one log.

Only the few methods of a client that it uses. A message counts as shown once an update that makes
it visible before its last seconds was carried out.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from email.utils import formatdate
from typing import Any

import pytest
from log_stores import MemoryLogStore

from spark_azqueue.errors import AccessDenied, Outcome, QueueNotFound, ServiceUnavailable
from spark_azqueue.options.parse import sink_config
from spark_azqueue.options.sink_config import SinkConfig
from spark_azqueue.service.messages import Lease, QueueRef, seconds_of
from spark_azqueue.service.names import TRANSACTIONS
from spark_azqueue.service.queues.calls import Delete, Show
from spark_azqueue.sink.transaction import log as logs
from spark_azqueue.sink.transaction import record
from spark_azqueue.sink.transaction import show as showing
from spark_azqueue.sink.transaction.commit import Committed, Transactions
from spark_azqueue.sink.transaction.names import Transaction
from spark_azqueue.sink.transaction.record import Hidden, Prepared
from spark_azqueue.sink.transaction.show import ServiceClock
from spark_azqueue.sink.transaction.task import WritePlan, Writer

ACCOUNT = "shop"
QUERY = "00000000-0000-0000-0000-0000000000aa"
WEEK = 7 * 86_400
KEY = "A" * 86 + "=="


@dataclass
class Message:
    row: str
    receipt: str
    visible: float
    expires: float


@dataclass
class HiddenQueues:
    """An account's queues, their clock, and what was seen of them.

    shown: the ids of the messages of each row that were shown. destroyed: rows of which a message
    was hidden when its queue was cleared.
    """

    now: float = 1_800_000_000.0
    queues: dict[str, dict[str, Message]] = field(default_factory=lambda: defaultdict(dict))
    deleted: set[str] = field(default_factory=set)
    shown: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    destroyed: set[str] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)
    before_show: Callable[[str], None] = lambda row: None
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def clock(self) -> float:
        return self.now

    def put(self, queue: str, row: str, life: int = WEEK, delay: int = 0) -> Hidden:
        self.deleted.discard(queue)  # as with createQueue
        number = next(self.numbers)
        message = Message(row, f"r{number}", self.now + life - 1, self.now + life)
        self.queues[queue][f"id-{number}"] = message
        lease = Lease(QueueRef(ACCOUNT, queue), f"id-{number}", message.receipt)
        return Hidden(lease, int(self.now) + delay if delay else 0, int(message.expires))

    def _live(self, lease: Lease) -> Message | None:
        found = self.queues[lease.queue.name].get(lease.message_id)
        if found is None or found.expires <= self.now or found.receipt != lease.pop_receipt:
            return None
        return found

    def carry_out(self, call: Any) -> Outcome:
        if call.queue.name in self.deleted:
            raise QueueNotFound("no queue", status=404, date=formatdate(self.now, usegmt=True))
        found = self._live(call.lease)
        if found is None:
            return Outcome.GONE
        if isinstance(call, Delete):
            del self.queues[call.queue.name][call.lease.message_id]
            return Outcome.OK
        assert isinstance(call, Show)
        self.before_show(found.row)
        found.receipt = f"r{next(self.numbers)}"
        found.visible = self.now + seconds_of(call.delay, self.now)
        self.shown[found.row].append(call.lease.message_id)
        return Outcome.OK

    def consumer(self, queue: str, *, read_committed: bool) -> list[str]:
        """The rows that a consumer would get now."""
        last = 2 if read_committed else 0
        return [
            each.row
            for each in self.queues[queue].values()
            if each.visible <= self.now < each.expires and each.expires - self.now > last
        ]

    def clear(self, queue: str, *, delete: bool = False) -> None:
        self.destroyed |= {each.row for each in self.queues[queue].values()}
        self.queues[queue].clear()
        if delete:
            self.deleted.add(queue)


class Steps:
    """The calls of one process, to queues and log, and what happens before one of them."""

    def __init__(self) -> None:
        self.count = 0
        self.hooks: dict[int, Callable[[], None]] = {}

    def at(self, calls: int, happens: Callable[[], None]) -> None:
        self.hooks[self.count + calls] = happens

    def step(self) -> None:
        happens = self.hooks.pop(self.count, None)
        self.count += 1
        if happens:
            happens()


class Store(MemoryLogStore):
    """The log of one process."""

    steps: Steps | None = None

    def _called(self, method: str, name: str) -> None:
        if self.steps and method not in ("open", "close"):
            self.steps.step()
        super()._called(method, name)


class Client:
    """The queues, as one process sees them."""

    def __init__(self, service: HiddenQueues, steps: Steps) -> None:
        self.service = service
        self.steps = steps

    def queue(self, ref: QueueRef) -> Client:
        self.ref = ref
        return self

    def check(self) -> datetime:
        self.steps.step()
        if self.ref.name in self.service.deleted:
            date = formatdate(self.service.now, usegmt=True)
            raise QueueNotFound("no queue", status=404, date=date)
        return datetime.fromtimestamp(int(self.service.now), timezone.utc)

    def in_flight(self) -> Flight:
        return Flight(self)

    def close(self) -> None:
        pass


class Flight:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._results: list[tuple[Any, Any]] = []

    def __len__(self) -> int:
        return len(self._results)

    def begin(self, tag: Any, call: Any, retry: Any = None) -> None:
        self._client.steps.step()
        self._results.append((tag, self._result(call)))

    def try_begin(self, tag: Any, call: Any, retry: Any = None) -> bool:
        if len(self._results) >= 2:
            return False
        self.begin(tag, call, retry)
        return True

    def ended(self, timeout_s: float | None = None) -> list[tuple[Any, Any]]:
        results, self._results = self._results[::-1], []
        return results

    def _result(self, call: Any) -> Any:
        service = self._client.service
        fault = service.faults.pop(0) if service.faults else None
        if fault == "busy":
            return ServiceUnavailable("HTTP 503", status=503, outcome=Outcome.RETRY)
        if fault == "denied":
            return AccessDenied("HTTP 403", status=403)
        try:
            found = service.carry_out(call)
            if fault == "lost":  # the answer: the repeat is refused
                return Outcome.PROBABLY if found is Outcome.OK else found
        except QueueNotFound as error:
            return error
        return found

    def close(self) -> None:
        self._results.clear()


Rows = Sequence[tuple[str, str, int]]
"""Of a batch: queue, text and delay of each."""


@dataclass
class Process:
    """One process of the driver at a time: plan, tasks, commit and abort."""

    service: HiddenQueues
    store: Store
    steps: Steps
    transactions: Transactions
    writer: Writer
    config: SinkConfig
    client: Any

    @classmethod
    def of(
        cls,
        service: HiddenQueues,
        log: MemoryLogStore,
        writer: Writer,
        *,
        lossy: bool = False,
        **options: str,
    ) -> Process:
        steps = Steps()
        store = Store(log.where, log.objects, kind=TRANSACTIONS)
        store.steps = steps
        given = {
            "secret.connectionString": f"AccountName={ACCOUNT};AccountKey={KEY}",
            "transactionLog": "file:/log",
            "failOnDataLoss": str(not lossy).lower(),
        }
        config = sink_config(given | options, {})
        client: Any = Client(service, steps)
        transactions = Transactions(config, store, client)
        return cls(service, store, steps, transactions, writer, config, client)

    def plan(self) -> WritePlan:
        return self.transactions.plan(lambda _: None)

    def tasks(
        self, plan: WritePlan, rows: Rows, tasks: int = 2, abandoned: int = 0
    ) -> list[Prepared]:
        """Put these rows. abandoned: of the first so many a copy is put whose answer is lost."""
        done = []
        for number in range(tasks):
            own = rows[number::tasks]
            if plan.is_recorded(self.writer):
                done.append(self.writer.passed_over(len(own), plan.log))
                continue
            copies = [self.service.put(*row[:2]) for row in own[:abandoned]]
            hidden = [self.service.put(queue, text, delay=delay) for queue, text, delay in own]
            done.append(self.writer.prepared(len(own), hidden, len(copies), plan.log))
        return done

    def commit(self, plan: WritePlan, prepared: Sequence[Prepared]) -> Committed:
        return self.transactions.commit(plan, prepared)

    def run(self, rows: Rows, tasks: int = 2) -> Committed:
        plan = self.plan()
        return self.commit(plan, self.tasks(plan, rows, tasks))

    def transaction(self, plan: WritePlan) -> Transaction:
        return plan.transaction(self.writer.query, self.writer.batch)


def twice(service: HiddenQueues) -> dict[str, int]:
    """The rows that were shown more than once."""
    return {
        row: count
        for row, count in Counter({row: len(ids) for row, ids in service.shown.items()}).items()
        if count > 1
    }


def of_service(service: HiddenQueues, monkeypatch: pytest.MonkeyPatch) -> None:
    """The processes' clocks are the service's."""
    monkeypatch.setattr(showing, "ServiceClock", lambda date: ServiceClock(date, service.clock))


def small(patch: pytest.MonkeyPatch) -> None:
    """Parts, chunks and marks with few rows."""
    for module in (logs, record):
        patch.setattr(module, "CHUNK_ROWS", 2)
    patch.setattr(record, "INLINE_AT_MOST", 150)
    patch.setattr(record, "PART_BYTES", 150)
    patch.setattr(showing, "MARK_EVERY", 2)
