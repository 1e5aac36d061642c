"""The calls of Spark 4.0 and 4.1 as they were written down there, for both consumers of the driver.

LO: a bare `latestOffset()`; P: `partitions`; C: `commit`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from door import Door
from log_stores import MemoryLogStore

from spark_azqueue.errors import CheckpointMismatch, InvalidOption
from spark_azqueue.options.log import LogConfig, LogPlace
from spark_azqueue.options.parse import source_config
from spark_azqueue.source.columns import source_columns
from spark_azqueue.source.driver.leased import LeasedConsumer
from spark_azqueue.source.log.consumer import LogConsumer
from spark_azqueue.source.offsets import OffsetJson
from spark_azqueue.source.rows import record_batches
from spark_azqueue.testing import FakeQueueService

QUEUE = "orders"
DELETED_IN_S = 10.0


class Query:
    """A source, and what Spark asks of it."""

    def __init__(self, fake: FakeQueueService, *, has_log: bool, **options: str) -> None:
        self.fake = fake
        self.store = MemoryLogStore() if has_log else None
        self.options = options
        self.source = self.started()

    def started(self) -> Door:
        """A process of the query."""
        given = {"secret.connectionString": self.fake.connection_string, "queue": QUEUE}
        config = source_config(given | self.options, {})
        columns = source_columns(config.body_type, permissive=False)
        if self.store is None:
            return Door(LeasedConsumer(config, columns))
        log = LogConfig(LogPlace(container=None, folder="/memory"), None)
        return Door(LogConsumer(config, columns, log, store=self.store.another()))

    def latest(self) -> OffsetJson:
        return self.source.latest(None, None)

    def new(self, before: OffsetJson) -> OffsetJson:
        """Ask until there is something new: a queue that was empty rests for a moment."""
        for _ in range(1_000):  # each call waits for a part of that rest
            if (found := self.latest()) != before:
                return found
        raise AssertionError("nothing new comes")

    def rows(self, start: OffsetJson, end: OffsetJson) -> list[str]:
        return sorted(
            body
            for part in self.source.plan(start, end)
            for batch in record_batches(part)
            for body in batch.column("body").to_pylist()
        )

    def left(self) -> int:
        self.source.engine.wait(DELETED_IN_S)
        return self.fake.count(QUEUE)


@pytest.fixture(params=[False, True], ids=["without a log", "with a log"])
def query(request: pytest.FixtureRequest, fake: FakeQueueService) -> Iterator[Query]:
    fake.create_queue(QUEUE)
    made = Query(fake, has_log=request.param)
    yield made
    made.source.close()


@pytest.mark.parametrize("goes_on", [False, True])
def test_a_run_that_ends_before_it_can_isolate_a_poison_message_says_so(
    fake: FakeQueueService, caplog: pytest.LogCaptureFixture, *, goes_on: bool
) -> None:
    """After a failure without a log: P(N,N); P(N-1,N), and with availableNow nothing more."""
    fake.create_queue(QUEUE)
    failed = Query(fake, has_log=False, maxDequeueCount="2")
    put(failed, "a", "b")
    end = failed.latest()
    again = Query(fake, has_log=False, maxDequeueCount="2")
    assert again.rows(end, end) == again.rows(failed.source.initial, end) == []
    if goes_on:
        again.latest()
    again.source.close()
    failed.source.close()
    assert ("no poison message is isolated: set writeAheadLog" in caplog.text) is not goes_on


def put(query: Query, *bodies: str) -> list[str]:
    query.fake.put_many(QUEUE, bodies)
    return sorted(bodies)


def test_a_query_that_begins_on_an_empty_queue(query: Query) -> None:
    """Row 2: LO=i; P(i,i); LO=i … LO=a; C(i); P(i,a)."""
    start = query.source.initial
    assert query.latest() == start
    assert query.rows(start, start) == []
    for _ in range(3):
        assert query.latest() == start
    sent = put(query, "a", "b")
    end = query.new(start)
    query.source.committed(start)
    assert query.rows(start, end) == sent
    assert query.latest() == end
    assert query.left() == 0


def test_a_load_without_data_beside_one_with_data(query: Query) -> None:
    """Row 11: batch 0: P(i,i), then C(a) at each batch without a P."""
    start = query.source.initial
    assert query.latest() == start
    assert query.rows(start, start) == []
    for _ in range(3):
        query.source.committed(start)
        assert query.latest() == start
    sent = put(query, "a")
    end = query.new(start)
    query.source.committed(start)
    assert query.rows(start, end) == sent
    for _ in range(3):
        assert query.latest() == end
        query.source.committed(end)
    more = put(query, "b")
    last = query.new(end)
    query.source.committed(end)
    assert query.rows(end, last) == more


def test_a_query_that_does_not_need_the_rows_is_refused(query: Query) -> None:
    """Row 14: LO=a; no P; LO=a; LO=b; C(a); no P."""
    put(query, "a")
    first = query.latest()
    assert query.latest() == first, "or it is the wrapper's report: P comes yet"
    put(query, "b")
    assert query.new(first) != first
    assert query.left() == 2, "nothing proves the first"
    query.source.committed(first)
    with pytest.raises(CheckpointMismatch, match=r"limit\(0\)"):
        query.latest()
    assert query.left() == 2


def test_the_wrapper_of_available_now_asks_twice_before_the_first_plan(query: Query) -> None:
    """Row 9: LO=a; LO for the progress, its answer unused; P(i,a); LO."""
    start = query.source.initial
    sent = put(query, "a", "b")
    end = query.latest()
    put(query, "c")
    assert query.latest() == end
    assert query.rows(start, end) == sent
    assert query.latest() != end
    assert query.left() == 1


def test_the_second_run_with_the_wrapper_is_refused_and_deletes_nothing(query: Query) -> None:
    """Row 10: LO=f; P(N,N). Spark would write f as if it followed N."""
    put(query, "a")
    end = query.latest()
    query.rows(query.source.initial, end)
    put(query, "b")
    query.source.close()
    again = query.started()
    again.latest(None, None)
    with pytest.raises(InvalidOption, match=r"triggerAvailableNowWrapper.*Set it to false"):
        again.plan(end, end)
    again.close()

    query.source = query.started()
    assert query.rows(end, end) == []
    assert query.left() == 2


def test_after_a_probe_of_a_query_that_had_no_data(query: Query) -> None:
    """Row 4 at the initial offset: P(i,i); LO=a; P(i,a)."""
    start = query.source.initial
    assert query.rows(start, start) == []
    assert query.latest() == start
    sent = put(query, "a")
    assert query.rows(start, query.new(start)) == sent


def test_a_run_of_one_batch_dequeues_nothing_ahead(query: Query) -> None:
    """Row 7: LO; P; end. The next run reads what is left, and no message was leased for nothing."""
    put(query, *(f"m{number}" for number in range(5_000)))
    first = query.latest()
    assert len(query.rows(query.source.initial, first)) == 4_096
    query.source.engine.builder.wait_for_prefetch()
    assert query.fake.visible(QUEUE) == 904

    second = query.latest()
    assert len(query.rows(first, second)) == 904
