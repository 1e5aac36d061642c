"""What a task cost, and how the driver tells it."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from senders import Task, task

from spark_azqueue.options.parse import sink_config
from spark_azqueue.sink import writers
from spark_azqueue.sink.columns import SinkColumns
from spark_azqueue.sink.row_errors import requests
from spark_azqueue.sink.tally import Sent, Traffic
from spark_azqueue.sink.writers import Acknowledged, AzQueueStreamWriter, AzQueueWriter
from spark_azqueue.testing import FakeQueueService, Fault

COLUMNS = SinkColumns(body=0, message_id=1, pop_receipt=2)


def sender(fake: FakeQueueService, **options: str) -> Task:
    return task(fake.connection_string, **options)


def send(made: Task, *bodies: str | bytes) -> Traffic:
    rows = [(body, None, None) for body in bodies]
    made.sender.send(requests(rows, COLUMNS, made.config))
    return made.sender.traffic


def test_repeated_requests_are_counted_and_why(fake: FakeQueueService) -> None:
    fake.create_queue("orders")
    fake.faults.add(Fault("put", "busy_503", nth=2), Fault("put", "error_500", nth=3))
    fake.faults.add(Fault("put", "busy_503", nth=4))

    found = send(sender(fake, parallelism="1"), "a", "b")

    assert found == Traffic(bytes=2, retries=3, throttled=2)


def test_a_retry_that_gives_up_is_none(fake: FakeQueueService) -> None:
    fake.create_queue("orders")
    fake.faults.add(Fault("put", "forbidden", nth=2))
    made = sender(fake, parallelism="1")

    with pytest.raises(Exception, match="row 1 of this task"):
        send(made, "a", "b")

    assert made.sender.traffic == Traffic(bytes=1)


MESSAGES: list[Any] = [
    Acknowledged(Sent(3), Traffic(30, 2, 1), None),
    None,
    Acknowledged(Sent(4), Traffic(40), None),
]


def writer(kind: type) -> Any:
    config = sink_config({"secret.connectionString": "AccountName=a;AccountKey=a2V5"}, {})
    return kind(config, COLUMNS, None)


def test_the_driver_logs_them_for_each_write(caplog: pytest.LogCaptureFixture) -> None:
    writer(AzQueueWriter).commit(MESSAGES)
    writer(AzQueueStreamWriter).commit(MESSAGES, 12)

    counts = (
        "7 rows acknowledged, 0 with a stale receipt, 0 dead-lettered; 70 bytes, 2 requests"
        " repeated, 1 of them after 503 or 429"
    )
    assert caplog.messages == [f"all written: {counts}", f"batch 12: {counts}"]
    assert {record.levelno for record in caplog.records} == {logging.INFO}
    assert caplog.records[0].context == {  # type: ignore[attr-defined]
        "rows": "7",
        "stale": "0",
        "set_aside": "0",
        "bytes": "70",
        "retries": "2",
        "throttled": "1",
    }


def test_the_log_says_how_long_requests_took(
    fake: FakeQueueService, caplog: pytest.LogCaptureFixture
) -> None:
    fake.create_queue("orders")
    fake.faults.add(Fault("put", "slow", nth=2, seconds=0.3), Fault("put", "busy_503", nth=3))
    made = sender(fake, parallelism="1")
    traffic = send(made, *"abcdefghij")
    took = made.sender.latencies
    assert {name: each.count for name, each in took.items()} == {"put": 10, "put 503": 1}
    assert sum(took["put"].counts[7:]) == 1, "one took more than 250 ms"

    writer(AzQueueWriter).commit([*MESSAGES, Acknowledged(Sent(10), traffic, latencies=took)])

    p99 = took["put"].quantile(0.99)
    assert f" s (p50), {p99:.3g} s (p99)" in caplog.messages[0]
    assert caplog.records[0].context["p99_seconds"] == f"{p99:.3g}"  # type: ignore[attr-defined]


def test_a_level_that_somebody_set_stays(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writers.log, "level", logging.ERROR)
    writers.log.manager._clear_cache()  # type: ignore[attr-defined]

    writer(AzQueueWriter).commit(MESSAGES)

    assert caplog.messages == []
    assert writers.log.level == logging.ERROR
    monkeypatch.undo()
    writers.log.manager._clear_cache()  # type: ignore[attr-defined]
