"""What several unit tests begin with."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import urllib3
from consuming import Consumers
from fake_calls import NOW, caller

from spark_azqueue.testing import FakeClock, FakeQueueService


@pytest.fixture
def spark(fake: FakeQueueService) -> Iterator[Consumers]:
    """Starts consumers on the fake, where there is a queue 'orders'."""
    fake.create_queue("orders")
    made = Consumers(fake)
    yield made
    made.stop()


@pytest.fixture
def service() -> Iterator[FakeQueueService]:
    """A fake whose clock stands still, with a queue 'orders'."""
    with FakeQueueService(FakeClock(NOW, frozen=True)) as running:
        running.create_queue("orders")
        yield running


@pytest.fixture
def call(service: FakeQueueService) -> Iterator[Callable[..., urllib3.BaseHTTPResponse]]:
    """Sends one request to `service`; see `fake_calls.caller`."""
    with urllib3.PoolManager(retries=False, timeout=10) as pool:
        yield caller(service, pool)


@pytest.fixture
def metadata(
    service: FakeQueueService,
) -> Callable[[dict[str, str]], urllib3.BaseHTTPResponse]:
    """One GET /orders?comp=metadata with these headers."""

    def send(headers: dict[str, str]) -> urllib3.BaseHTTPResponse:
        return urllib3.request(
            "GET", f"{service.url}/orders?comp=metadata", headers=headers, retries=False
        )

    return send
