"""What tests of leaseOn=executors begin with."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from executors import World
from executors_query import Query
from executors_scene import Scene

from spark_azqueue.testing import FakeQueueService


@pytest.fixture
def query(fake: FakeQueueService) -> Iterator[Query]:
    """A query over the real client and the strict fake."""
    made = Query(fake)
    yield made
    made.close()


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    """A driver and its tasks in the simulated world, step by step."""
    world = World(monkeypatch)
    yield Scene(world)
    world.close()
