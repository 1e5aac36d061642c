"""leaseOn=executors: a task knows what queues decide, though the source's process alone asks."""

from __future__ import annotations

import dataclasses
import pickle
from pathlib import Path
from typing import Any

import pytest
from executors_setting import ACCOUNT, CONFIG
from hypothesis import given
from hypothesis import strategies as st

from spark_azqueue.options.choices import OnUndecodable
from spark_azqueue.options.parse import source_config
from spark_azqueue.options.source_config import QUEUE_DECIDES, SourceConfig
from spark_azqueue.service.messages import QueueRef
from spark_azqueue.source.columns import source_columns
from spark_azqueue.source.executors.names import PlanId
from spark_azqueue.source.executors.plan import Plan, Slot
from spark_azqueue.source.executors.rows import SlotAssignment
from spark_azqueue.source.preflight import with_queue_settings
from spark_azqueue.source.readers import AzQueueReader, AzQueueStreamReader
from spark_azqueue.testing import FakeQueueService

PLAN = Plan(ACCOUNT, "a" * 32, PlanId(1, "b" * 32), (Slot((QueueRef(ACCOUNT, "aaa"),), 5, 1_000),))


def config_of(fake: FakeQueueService, **options: str) -> SourceConfig:
    given = {
        "secret.connectionString": fake.connection_string,
        "queue": "orders",
        "settingsFromQueue": "true",
        "messageEncoding": "base64",
    }
    return source_config(given | options, {})


def bodies(batches: Any) -> list[str]:
    return [body for batch in batches for body in batch.column("body").to_pylist()]


@pytest.mark.parametrize("is_replay", [False, True])
def test_a_threshold_of_the_queue_sets_aside_in_tasks(
    fake: FakeQueueService, tmp_path: Path, *, is_replay: bool
) -> None:
    """Before, tasks had onUndecodable=fail: both were deleted, and neither was anywhere else."""
    fake.create_queue("orders")
    fake.set_metadata("orders", {"poisonthreshold": "5"})
    fake.put("orders", "Z29vZA==")
    fake.put("orders", "!!bad")
    config = config_of(
        fake, leaseOn="executors", writeAheadLog=f"file:{tmp_path}/log", deleteAfter="log"
    )
    columns = source_columns(config.body_type, permissive=False)
    reader = AzQueueStreamReader(config, columns, columns)
    start = reader.initialOffset()
    offset = reader.latestOffset(start)
    if is_replay:
        reader.stop()
        reader = pickle.loads(pickle.dumps(reader))
    (partition,) = reader.partitions(start, offset)

    task = pickle.loads(pickle.dumps(reader))  # which is all that Spark gives an executor
    rows = bodies(task.read(partition))
    reader.stop()

    assert rows == ["good"]
    assert (fake.count("orders"), fake.count("orders-poison")) == (0, 1)


def test_a_peek_knows_them_too(fake: FakeQueueService) -> None:
    """With the threshold the stream sets such a message aside, so the peek is not to raise."""
    fake.create_queue("orders")
    fake.set_metadata("orders", {"poisonthreshold": "5"})
    fake.put("orders", "Z29vZA==")
    fake.put("orders", "!!bad")
    config = config_of(fake)
    columns = source_columns(config.body_type, permissive=False)
    reader = AzQueueReader(config, columns, columns)

    rows = [row for part in reader.partitions() for row in bodies(reader.read(part))]

    assert rows == ["good", None]


@given(
    timeout=st.none() | st.integers(1, 604_800),
    maximum=st.none() | st.integers(1, 1_000_000),
    undecodable=st.sampled_from(OnUndecodable),
)
def test_a_task_has_the_options_of_the_sources_process(
    timeout: int | None, maximum: int | None, undecodable: OnUndecodable
) -> None:
    written = dataclasses.replace(CONFIG, left_to_queue=frozenset(QUEUE_DECIDES))
    completed = dataclasses.replace(
        CONFIG,
        visibility_timeout=timeout,
        max_dequeue_count=maximum,
        on_undecodable=undecodable,
        left_to_queue=frozenset(),
    )

    told = SlotAssignment.from_bytes(SlotAssignment.by(PLAN, 0, completed).to_bytes(), written)

    assert told == SlotAssignment(PLAN, 0, completed)


def test_whatever_a_queue_may_decide_is_told() -> None:
    """A setting that queues decide one day, too, fails here until tasks are told of it."""
    written = dataclasses.replace(
        CONFIG,
        visibility_timeout=None,
        max_dequeue_count=None,
        on_undecodable=OnUndecodable.FAIL,
        left_to_queue=frozenset(QUEUE_DECIDES),
    )
    metadata = {"defaulttimeout": "90", "poisonthreshold": "3"}
    completed = with_queue_settings(written, dict.fromkeys(CONFIG.queues, metadata))

    told = SlotAssignment.from_bytes(SlotAssignment.by(PLAN, 0, completed).to_bytes(), written)

    assert completed != dataclasses.replace(written, left_to_queue=frozenset())
    assert told.config == completed
