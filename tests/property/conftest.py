"""What the simulations begin with."""

from __future__ import annotations

import pyarrow as pa
import pytest
import tenacity
from world.service import TIME

from spark_azqueue.service import retry
from spark_azqueue.service.wire import transport
from spark_azqueue.source import rows
from spark_azqueue.source.batches import receiver as receiving
from spark_azqueue.source.leases import worker
from spark_azqueue.source.log import progress


class _Halfway:
    """In place of chance, so that an example can be repeated."""

    def uniform(self, low: float, high: float) -> float:
        return (low + high) / 2


@pytest.fixture
def simulated_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses, deadlines and retries take simulated time; pages hold three messages; more
    than two owed deletes stand in a list."""
    for module in (receiving, retry, tenacity, transport):
        monkeypatch.setattr(module, "time", TIME)
    monkeypatch.setattr(retry, "_chance", _Halfway())
    monkeypatch.setattr(worker, "_GLANCE_S", 1.0)
    monkeypatch.setattr(receiving, "MAX_PER_REQUEST", 3)
    monkeypatch.setattr(progress, "IN_PLACE", 2)
    # To begin, Zstandard takes ten times as long as all else with a batch of few messages.
    monkeypatch.setattr(rows, "codec", lambda: pa.Codec("lz4"))
