"""One query of leaseOn=executors over the real client and the strict fake: its driver and tasks."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from door import Straight
from log_stores import MemoryLogStore

from spark_azqueue.options.parse import source_config
from spark_azqueue.options.source_config import SourceConfig
from spark_azqueue.service.blobs.store import Removals
from spark_azqueue.service.names import EXECUTORS
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.source.columns import source_columns
from spark_azqueue.source.executors.consumer import ExecutorsConsumer
from spark_azqueue.source.executors.folder import PlanFolder
from spark_azqueue.source.executors.plan import Plan
from spark_azqueue.source.executors.rows import batches_of
from spark_azqueue.source.executors.slot import SlotTask
from spark_azqueue.source.runtime import Runtime
from spark_azqueue.testing import FakeQueueService

Offset = dict[str, object]

WITH_BLOBS = {
    "largeBody": "blob",
    "blobContainer": "bodies",
    "secret.blobConnectionString": "AccountName=fakeaccount;AccountKey=a2V5;"
    "BlobEndpoint=http://127.0.0.1:1/fakeaccount",
}
"""Options for bodies over 64 KiB. Nothing answers at that address."""


class Query:
    """One folder, and the processes that use it."""

    def __init__(self, fake: FakeQueueService, **options: str) -> None:
        self.fake = fake
        self.store = MemoryLogStore(kind=EXECUTORS)
        given = {
            "secret.connectionString": fake.connection_string,
            "queue": "orders,returns",
            "leaseOn": "executors",
            "writeAheadLog": "file:/not/used",
            "deleteAfter": "log",
        }
        self.config: SourceConfig = source_config(given | options, {})
        self.clients: list[QueueClient] = []
        for queue in ("orders", "returns"):
            fake.create_queue(queue)

    def driver(
        self,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        removals: Removals | None = None,
    ) -> Straight:
        config = self.config
        assert config.write_ahead_log
        assert config.executors
        runtime = Runtime(client=self.client(), clock=clock, sleep=sleep)
        return Straight(
            ExecutorsConsumer(
                config,
                config.write_ahead_log,
                config.executors,
                store=self.store.another(),
                removals=removals,
                runtime=runtime,
            )
        )

    def task(
        self, plan: Plan, slot: int = 0, store: MemoryLogStore | None = None
    ) -> tuple[SlotTask, MemoryLogStore]:
        store = store or self.store.another()
        folder = PlanFolder(store, self.config.account.name)
        log = self.config.write_ahead_log
        assert log
        lose = not log.fail_on_data_loss
        return SlotTask(self.config, plan, slot, folder, self.client(), lose=lose), store

    def rows(self, plan: Plan) -> list[str]:
        """Run each task of a plan once."""
        return sorted(self.raw(plan))

    def raw(self, plan: Plan) -> list[Any]:
        """The same, with bodies of either type, in their order."""
        found: list[Any] = []
        for slot in range(len(plan.slots)):
            given = self.task(plan, slot)[0].rows()
            columns = source_columns(self.config.body_type, permissive=False)
            for batch in batches_of(given, columns):
                found += batch.column("body").to_pylist()
        return found

    def plan(self, offset: Offset) -> Plan:
        return Plan.from_json(offset, account=self.config.account.name)

    def left(self) -> int:
        return self.fake.count("orders") + self.fake.count("returns")

    def close(self) -> None:
        for client in self.clients:
            client.close()

    def client(self) -> QueueClient:
        self.clients.append(QueueClient(self.config.account))
        return self.clients[-1]


def fill(query: Query, count: int, prefix: str = "m") -> list[str]:
    bodies = [f"{prefix}{number}" for number in range(count)]
    query.fake.put_many("orders", bodies[::2])
    query.fake.put_many("returns", bodies[1::2])
    return sorted(bodies)


def first_plan(query: Query) -> tuple[ExecutorsConsumer, Plan]:
    driver = query.driver()
    offset = driver.latest(driver.initial, None)
    return driver, query.plan(offset)
