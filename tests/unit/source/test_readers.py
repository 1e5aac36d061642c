"""The door of the source: what it must never do to Spark."""

import json

import pytest

from spark_azqueue.metrics.report import Report
from spark_azqueue.options.parse import source_config
from spark_azqueue.service.queues import reach
from spark_azqueue.source.columns import source_columns
from spark_azqueue.source.readers import AzQueueStreamReader


def reader(fake, **options):
    given = {"secret.connectionString": fake.connection_string, "queue": "orders", **options}
    config = source_config(given, {})
    columns = source_columns(config.body_type, permissive=False)
    return AzQueueStreamReader(config, columns, columns)


def test_the_report_is_json_without_a_secret(fake):
    fake.create_queue("orders")
    fake.put("orders", "a")
    made = reader(fake)
    made.latestOffset(made.initialOffset())
    said = made.reportLatestOffset()
    made.stop()

    assert Report.from_json(json.loads(json.dumps(said))).backlog == {"orders": 1}
    assert fake.key not in json.dumps(said)


def test_what_is_doubtful_is_told_once_at_the_start(fake, caplog):
    fake.create_queue("orders")
    made = reader(fake, visibilityTimeout="30000")
    for _ in range(2):
        made.initialOffset()
    made.stop()

    assert [text for text in caplog.messages if "is 30000, and a number" in text] == caplog.messages
    assert len(caplog.messages) == 1


def test_reporting_never_raises(fake, monkeypatch):
    made = reader(fake)
    monkeypatch.setattr(reach, "check_reachable", lambda account: 1 / 0)

    with pytest.raises(ZeroDivisionError):
        made.initialOffset()
    assert made.reportLatestOffset() is None
