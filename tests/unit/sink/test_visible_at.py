"""The column `visible_at`: a message is not late by the time that its row waited in the task."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime, timezone
from types import SimpleNamespace

import pytest
from senders import task

from spark_azqueue.service.wire import transport
from spark_azqueue.sink.columns import SinkColumns
from spark_azqueue.sink.row_errors import requests
from spark_azqueue.testing import FakeQueueService, Fault

TIMED = SinkColumns(body=0, visible_at=1)


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """By how many seconds the clock of the requests is ahead."""
    ahead = [0.0]
    clock = SimpleNamespace(
        time=lambda: time.time() + ahead[0], monotonic=time.monotonic, sleep=time.sleep
    )
    monkeypatch.setattr(transport, "time", clock)
    return ahead


@pytest.mark.parametrize("lost", [False, True])
def test_a_delay_counts_from_the_request_and_not_from_the_row(
    fake: FakeQueueService, later: list[float], lost: bool
) -> None:
    fake.create_queue("orders")
    if lost:
        fake.faults.add(Fault("put", "busy_503", nth=1))
    moment = datetime.fromtimestamp(time.time() + 60, timezone.utc)

    def rows() -> Iterator[tuple[str, datetime]]:
        yield ("a", moment)
        later[0] += 13  # the task reads on before it sends the first row

    made = task(fake.connection_string)
    made.sender.send(requests(rows(), TIMED, made.config))

    fake.clock.advance(30)
    assert fake.visible("orders") == 0
    fake.clock.advance(47 - 30 + 1)
    assert fake.visible("orders") == 1
