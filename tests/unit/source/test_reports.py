"""The report in the offsets of Spark 4.0 and 4.1: in new ones, and never as another text."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from spark_azqueue.errors import CheckpointMismatch
from spark_azqueue.metrics.report import Report
from spark_azqueue.options.parse import source_config
from spark_azqueue.source.columns import source_columns
from spark_azqueue.source.offsets import OffsetJson
from spark_azqueue.source.readers import AzQueueStreamReader
from spark_azqueue.testing import FakeQueueService

MODES: dict[str, dict[str, str]] = {
    "no log": {},
    "log": {"writeAheadLog": "file:{}/wal"},
    "executors": {
        "writeAheadLog": "file:{}/wal",
        "leaseOn": "executors",
        "deleteAfter": "log",
    },
}


class Query:
    """The readers of one query, and how Spark hands them what it has stored."""

    def __init__(self, fake: FakeQueueService, options: dict[str, str]) -> None:
        self.fake = fake
        fake.create_queue("orders")
        given = {"secret.connectionString": fake.connection_string, "queue": "orders"}
        self._config = source_config(given | options, {})
        self.readers: list[AzQueueStreamReader] = []

    def reader(self) -> AzQueueStreamReader:
        columns = source_columns(self._config.body_type, permissive=False)
        self.readers.append(AzQueueStreamReader(self._config, columns, columns))
        return self.readers[-1]

    def batch(self, reader: AzQueueStreamReader, start: str, body: str) -> str:
        """A message comes, and its batch is read."""
        self.fake.put("orders", body)
        end = new(reader, start)
        for part in reader.partitions(json.loads(start), json.loads(end)):
            list(reader.read(part))
        return end


@pytest.fixture(params=MODES)
def query(request: pytest.FixtureRequest, fake: FakeQueueService, tmp_path) -> Iterator[Query]:
    made = Query(fake, {name: text.format(tmp_path) for name, text in MODES[request.param].items()})
    yield made
    for reader in made.readers:
        reader.stop()


def asked(reader: AzQueueStreamReader, start: str | None = None) -> str:
    """The text that Spark stores. start: what Spark 4.2 tells."""
    return json.dumps(reader.latestOffset(*([json.loads(start)] if start else [])))


def new(reader: AzQueueStreamReader, before: str) -> str:
    for _ in range(1_000):  # each call waits for a part of a rest
        if (found := asked(reader)) != before:
            return found
    raise AssertionError("nothing new comes")


def named(reader: AzQueueStreamReader, offset: str) -> None:
    assert reader.partitions(json.loads(offset), json.loads(offset)) == []


def report_in(text: str) -> OffsetJson | None:
    found: OffsetJson | None = json.loads(text).get("report")
    return found


def test_a_new_batch_has_one_and_an_idle_answer_is_the_very_text(query: Query) -> None:
    reader = query.reader()
    start = json.dumps(reader.initialOffset())
    first = query.batch(reader, start, "a")
    assert report_in(first) is None, "Spark has named nothing yet: it may not be new"
    second = query.batch(reader, first, "b")

    told = report_in(second)
    assert told
    assert Report.from_json(told).counters.delivered >= 1
    assert query.fake.key not in second
    for _ in range(3):
        assert asked(reader) == second


def test_a_restart_goes_on_from_the_text_with_its_report(query: Query) -> None:
    reader = query.reader()
    first = query.batch(reader, json.dumps(reader.initialOffset()), "a")
    second = query.batch(reader, first, "b")
    assert asked(reader) == second  # which proves it
    reader.stop()

    again = query.reader()
    named(again, second)
    for _ in range(3):
        assert asked(again) == second
    third = query.batch(again, second, "c")
    assert report_in(third)
    assert report_in(third) != report_in(second)


def test_an_upgraded_spark_goes_on_from_it_too(query: Query) -> None:
    reader = query.reader()
    first = query.batch(reader, json.dumps(reader.initialOffset()), "a")
    second = query.batch(reader, first, "b")
    assert asked(reader) == second
    reader.stop()

    again = query.reader()
    for _ in range(3):
        assert asked(again, second) == second
    query.fake.put("orders", "c")
    for _ in range(1_000):
        if (third := asked(again, second)) != second:
            break
    assert report_in(third) is None, "Spark asks for it"


def test_a_batch_that_is_not_planned_yet_keeps_its_text(query: Query) -> None:
    reader = query.reader()
    first = query.batch(reader, json.dumps(reader.initialOffset()), "a")
    query.fake.put("orders", "b")
    second = new(reader, first)
    assert asked(reader) == second
    assert reader.partitions(json.loads(first), json.loads(second))


def _nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "damaged",
    [
        [1],
        None,
        "text",
        {"version": 1, "batch": 1, "account": "fakeaccount", "queues": _nested(5_000)},
        {"version": 1, "batch": 1, "account": "fakeaccount", "report": _nested(5_000)},
    ],
    ids=["list", "null", "text", "nested", "nested report"],
)
def test_a_damaged_offset_is_told_as_one(fake: FakeQueueService, damaged: object) -> None:
    query = Query(fake, {})
    reader = query.reader()
    with pytest.raises(CheckpointMismatch, match="cannot read, or did not write"):
        reader.partitions(reader.initialOffset(), damaged)  # type: ignore[arg-type]
    reader.stop()
