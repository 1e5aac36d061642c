"""What several unit tests begin with."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from consuming import Spark

from spark_azqueue.testing import FakeQueueService


@pytest.fixture
def spark(fake: FakeQueueService) -> Iterator[Spark]:
    """Starts consumers on the fake, where there is a queue 'orders'."""
    fake.create_queue("orders")
    made = Spark(fake)
    yield made
    made.stop()
