"""A queue 'orders' on the fake, and a client for it that makes one attempt per call."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from queues import OneQueue
from refs import ORDERS

from spark_azqueue.options.account import read_account
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.testing import FakeQueueService


@pytest.fixture
def service(fake: FakeQueueService) -> FakeQueueService:
    """The fake, with a queue 'orders'."""
    fake.create_queue("orders")
    return fake


@pytest.fixture
def client(service: FakeQueueService) -> Iterator[QueueClient]:
    """The queues of `service`."""
    account = read_account({"secret.connectionString": service.connection_string}, {})
    made = QueueClient(account)
    yield made
    made.close()


@pytest.fixture
def orders(service: FakeQueueService) -> OneQueue:
    """The queue 'orders' of `service`."""
    account = read_account({"secret.connectionString": service.connection_string}, {})
    return OneQueue(account, ORDERS)
