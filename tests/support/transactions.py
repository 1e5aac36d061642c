"""Processes that write batches of one query by transactions, over the fake and a log in memory."""

from __future__ import annotations

from log_stores import MemoryLogStore

from spark_azqueue.options.parse import sink_config
from spark_azqueue.service.names import TRANSACTIONS
from spark_azqueue.sink.columns import SinkColumns
from spark_azqueue.sink.row_errors import requests
from spark_azqueue.sink.sender import Sender
from spark_azqueue.sink.transaction.commit import Committed, Transactions
from spark_azqueue.sink.transaction.record import Prepared
from spark_azqueue.sink.transaction.task import WritePlan, Writer
from spark_azqueue.testing import FakeQueueService

QUERY = "0b5e7f0e-1111-4222-8333-444455556666"
COLUMNS = SinkColumns(body=0)
NOW = 1_790_000_000


class WrittenQueue:
    """A queue, a log, and processes that write batches of one query."""

    def __init__(self, fake: FakeQueueService) -> None:
        self.fake = fake
        self.store = MemoryLogStore(kind=TRANSACTIONS)
        self.options = {
            "secret.connectionString": fake.connection_string,
            "queue": "orders",
            "transactionLog": "file:/unused",
        }

    def process(self, run: int = 0, **options: str) -> Process:
        return Process(self, f"{run + 1:032x}", options)

    def visible(self) -> list[str]:
        now = self.fake.clock.now()
        found = self.fake.messages("orders")
        return sorted(each.text for each in found if each.next_visible <= now)

    def hidden(self) -> int:
        return self.fake.count("orders") - len(self.visible())


class Process:
    """One process of one run, with a store of its own over the same objects."""

    def __init__(self, world: WrittenQueue, run: str, options: dict[str, str]) -> None:
        self.world = world
        self.run = run
        self.config = sink_config(world.options | options, {})
        self.store = world.store.another()
        self.transactions = Transactions(self.config, self.store)

    def plan(self) -> WritePlan:
        return self.transactions.plan()

    def task(self, plan: WritePlan, batch: int, bodies: list[str]) -> Prepared:
        writer = Writer(QUERY, self.run, batch)
        if plan.is_recorded(writer):
            return writer.passed_over(len(bodies), plan.log)
        sender = Sender(self.config)
        sent = sender.send(requests([(body,) for body in bodies], COLUMNS, self.config))
        return writer.prepared(sent.done, sender.hidden, sender.abandoned, plan.log)

    def tasks(
        self, batch: int, *bodies: list[str], plan: WritePlan | None = None
    ) -> list[Prepared]:
        plan = plan or self.plan()
        return [self.task(plan, batch, each) for each in bodies]

    def commit(self, prepared: list[Prepared], plan: WritePlan | None = None) -> Committed:
        """plan: of the process that planned, if this is another one, as on Spark."""
        return self.transactions.commit(plan or self.plan(), prepared)

    def write(self, batch: int, *bodies: list[str]) -> Committed:
        plan = self.plan()
        return self.commit(self.tasks(batch, *bodies, plan=plan), plan)
