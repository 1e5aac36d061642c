"""Azure's own client, for tests of the fake."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from azure.storage.queue import QueueClient
from fake_calls import VERSION

from spark_azqueue.testing import FakeQueueService


@pytest.fixture
def client(service: FakeQueueService) -> Iterator[QueueClient]:
    """The queue 'orders' of `service`, by the SDK without retries."""
    with QueueClient.from_connection_string(
        service.connection_string, "orders", api_version=VERSION, retry_total=0
    ) as made:
        yield made
