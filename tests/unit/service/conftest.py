"""A queue 'orders' on the fake, and a client for it that makes one attempt per call."""

from __future__ import annotations

import pytest
from refs import ORDERS

from spark_azqueue.options.account import read_account
from spark_azqueue.service.queues.client import AzureQueue
from spark_azqueue.service.queues.transport import Transport
from spark_azqueue.testing import FakeQueueService


@pytest.fixture
def service(fake: FakeQueueService) -> FakeQueueService:
    """The fake, with a queue 'orders'."""
    fake.create_queue("orders")
    return fake


@pytest.fixture
def orders(service: FakeQueueService) -> AzureQueue:
    """The queue 'orders' of `service`."""
    account = read_account({"secret.connectionString": service.connection_string}, {})
    return AzureQueue(Transport(account), ORDERS)
