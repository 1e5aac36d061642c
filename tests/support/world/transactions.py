"""The transactional sink in the world: its queues, and whole processes of it over one log.

A message counts as shown once an update that makes it visible before its last seconds was carried
out.
"""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from log_stores import MemoryLogStore

from spark_azqueue.journal import identity
from spark_azqueue.options.parse import sink_config
from spark_azqueue.options.sink_config import SinkConfig
from spark_azqueue.service.incoming import Answer
from spark_azqueue.service.messages import Lease, QueueRef
from spark_azqueue.service.names import TRANSACTIONS
from spark_azqueue.service.queues.calls import Show
from spark_azqueue.sink.transaction import log as logs
from spark_azqueue.sink.transaction import names, record, task
from spark_azqueue.sink.transaction import show as showing
from spark_azqueue.sink.transaction.commit import Committed, Transactions
from spark_azqueue.sink.transaction.names import Transaction
from spark_azqueue.sink.transaction.record import Hidden, Prepared
from spark_azqueue.sink.transaction.show import ServiceClock
from spark_azqueue.sink.transaction.task import WritePlan, Writer

from .process import AtOnceClient, Flight, SteppedStore
from .service import Service

ACCOUNT = "shop"
QUERY = "00000000-0000-0000-0000-0000000000aa"
WEEK = 7 * 86_400
KEY = "A" * 86 + "=="


def options(**more: str) -> SinkConfig:
    given = {"secret.connectionString": f"AccountName={ACCOUNT};AccountKey={KEY}"}
    return sink_config(given | {"transactionLog": "file:/log"} | more, {})


class HiddenQueues(Service):
    """An account's queues, and what was seen of them. A queue is there unless it was deleted.

    before_show: gets the row of a message that is shown now. shown: the ids of the messages of each
    row that were shown. destroyed: rows of which a message was in a queue that was cleared.
    """

    def __init__(self, before_show: Callable[[str], None] = lambda row: None) -> None:
        super().__init__()
        self.before_show = before_show
        self.deleted: set[str] = set()
        self.shown: dict[str, list[str]] = defaultdict(list)
        self.destroyed: set[str] = set()

    def put(self, queue: str, row: str, life: int = WEEK, delay: int = 0) -> Hidden:
        self.deleted.discard(queue)  # as with createQueue
        self.account.create(queue)
        now = self.clock.now()
        view = self.account.queue(queue).put(row, now=now, visibility_delay=life - 1, ttl=life)
        lease = Lease(QueueRef(ACCOUNT, queue), view.id, view.receipt)
        return Hidden(lease, int(now) + delay if delay else 0, int(view.expiration))

    def carry_out(self, call: Any, *, is_sure: bool = False) -> Answer:
        if call.queue.name not in self.deleted:
            self.account.create(call.queue.name)
        if not isinstance(call, Show):
            return super().carry_out(call, is_sure=is_sure)
        lease = call.lease
        held = {view.id: view for view in self.views(lease.queue.name)}.get(lease.message_id)
        if held is not None and held.receipt == lease.pop_receipt:
            self.before_show(held.text)
        given = super().carry_out(call, is_sure=is_sure)
        if given.status < 300:
            assert held
            self.shown[held.text].append(held.id)
        return given

    def consumer(self, queue: str, *, read_committed: bool) -> list[str]:
        """The rows that a consumer would get now."""
        last = self.clock.now() + (2 if read_committed else 0)
        return [view.text for view in self.views(queue) if view.visible and view.expiration > last]

    def clear(self, queue: str, *, delete: bool = False) -> None:
        self.destroyed |= {view.text for view in self.views(queue)}
        if queue in self.account.names():
            self.account.delete(queue)
        if delete:
            self.deleted.add(queue)


class Steps:
    """The calls of one process, to queues and log, and what happens before one of them."""

    def __init__(self) -> None:
        self.count = 0
        self.hooks: dict[int, Callable[[], None]] = {}

    def at(self, calls: int, happens: Callable[[], None]) -> None:
        self.hooks[self.count + calls] = happens

    def stop(self, call: str) -> str:
        happens = self.hooks.pop(self.count, None)
        self.count += 1
        if happens:
            happens()
        return ""


class Client(AtOnceClient):
    """The queues, as one process sees them. Answers come in another order."""

    def __init__(self, service: HiddenQueues, steps: Steps) -> None:
        super().__init__(options().account, service, steps.stop)

    def in_flight(self) -> Unordered:
        return Unordered(self.made)


class Unordered(Flight):
    """At most two at once, whose results come in another order."""

    def try_begin(self, tag: Any, call: Any, *_: Any) -> bool:
        if len(self) >= 2:
            return False
        self.begin(tag, call)
        return True

    def ended(self, timeout_s: float | None = None) -> list[tuple[Any, Any]]:
        return super().ended()[::-1]


Rows = Sequence[tuple[str, str, int]]
"""Of a batch: queue, text and delay of each."""


@dataclass
class Process:
    """One process of the driver at a time: plan, tasks, commit and abort."""

    service: HiddenQueues
    store: SteppedStore
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
        **more: str,
    ) -> Process:
        steps = Steps()
        store = SteppedStore(
            service, steps.stop, where=log.where, objects=log.objects, kind=TRANSACTIONS
        )
        store.faults = log.faults  # what the next puts meet, whoever makes them
        config = options(**{"failOnDataLoss": str(not lossy).lower(), **more})
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


@contextlib.contextmanager
def lost(log: MemoryLogStore, who: int, what: int) -> Iterator[set[int]]:
    """The folder has lost an object, or a byte of it is flipped: the numbers that this may cost.

    Then it is put back from a backup, unless it is not needed any more.
    """
    name = sorted(log.objects)[who % len(log.objects)]
    at, before = names.as_record_name(name), log.objects[name]
    if what % 2:
        log.remove(name)
    else:
        log.damage(name, what % len(before))
    yield {at.number} if at else set()
    listed = names.all_parsed(log.objects)
    is_needed = at is None or not any(each.number > at.number for each in listed)
    is_needed |= at is not None and at.number in names.records_in(listed).get(at.key, ())
    if is_needed if what % 2 else name in log.objects:
        log.objects[name] = before


def twice(service: HiddenQueues) -> dict[str, int]:
    """The rows that were shown more than once."""
    return {
        row: count
        for row, count in Counter({row: len(ids) for row, ids in service.shown.items()}).items()
        if count > 1
    }


def with_ids(patch: pytest.MonkeyPatch) -> Callable[[], str]:
    """Ids that are the same each time. Returns what makes them."""
    numbers = itertools.count(1)

    def made() -> str:
        return f"{next(numbers) * 7919 % 10**9:032x}"

    ids = SimpleNamespace(uuid4=lambda: SimpleNamespace(hex=made()))
    for module in (identity, task):
        patch.setattr(module, "uuid", ids)
    return made


def of_service(service: HiddenQueues, monkeypatch: pytest.MonkeyPatch) -> None:
    """The processes' clocks are the service's."""
    monkeypatch.setattr(showing, "ServiceClock", lambda date: ServiceClock(date, service.wall))


def small(patch: pytest.MonkeyPatch) -> None:
    """Parts, chunks and marks with few rows."""
    for module in (logs, record):
        patch.setattr(module, "CHUNK_ROWS", 2)
    patch.setattr(record, "INLINE_AT_MOST", 350)
    patch.setattr(record, "PART_BYTES", 350)
    patch.setattr(showing, "MARK_EVERY", 2)
