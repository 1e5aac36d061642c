"""Rows under way are bounded, by their bytes and by their number."""

import sys
import tracemalloc

import pyarrow as pa
import pytest
from doubles import OneByOne
from limited import Limited
from refs import ref
from senders import send, task

from spark_azqueue.errors import AccessDenied, Outcome, QueueNotFound
from spark_azqueue.options.choices import OnStaleReceipt, Operation
from spark_azqueue.service.messages import Lease
from spark_azqueue.sink import sender as sending
from spark_azqueue.sink.columns import SinkColumns
from spark_azqueue.sink.requests import DeleteRow, EnqueueRow
from spark_azqueue.sink.tally import Sent, TaskCounts
from spark_azqueue.sink.writers import tuples

NOWHERE = "AccountName=acc;AccountKey=a2V5"


class Watched:
    """Calls under way, answered one at a time; notes how many bytes were under way at most."""

    def __init__(self, answer):
        self._answer = answer
        self._under_way = []
        self.most = self.most_rows = 0
        self.sizes = []  # how many bytes were under way when each had begun

    def __len__(self):
        return len(self._under_way)

    def begin(self, request, call, retry=None):
        self._under_way.append(request)
        self.sizes.append(sum(each.size for each in self._under_way))
        self.most = max(self.sizes)
        self.most_rows = max(self.most_rows, len(self._under_way))

    def ended(self, timeout_s=None):
        request = self._under_way.pop(0)
        return [(request, self._answer(request))]

    def close(self):
        pass


class WatchedService(OneByOne):
    """A service whose calls are all in one flight."""

    def __init__(self, watched):
        super().__init__(None)
        self._watched = watched

    def in_flight(self):
        return self._watched


def size_of_a_row(text):
    return EnqueueRow(ref("orders", "acc"), text, 0, None, row=0).size


def test_bytes_count_again_when_a_row_is_sent_again_to_a_queue_that_was_created(monkeypatch):
    # Given rows of which so many are under way at most, all to queues that are to be created
    each = size_of_a_row("x" * 200)
    monkeypatch.setattr(sending, "BUFFER_BYTES", 5 * each)
    answered = set()

    def answer(request):
        if request.row in answered:
            return None
        answered.add(request.row)
        return QueueNotFound("it is missing", status=404)

    watched = Watched(answer)
    made = task(NOWHERE, WatchedService(watched), createQueue="true", parallelism="64")

    # When each is sent twice
    assert send(made, [("x" * 200,) for _ in range(100)]) == Sent(done=100)

    # Then never more than one row beyond the bound was under way, and to the end so many were:
    # what was answered does not count any more
    assert watched.most == 6 * each
    assert watched.sizes[5:-6] == [6 * each] * (200 - 11)


def test_rows_under_way_are_bounded_by_number_too(monkeypatch):
    watched = Watched(lambda request: None)
    made = task(NOWHERE, WatchedService(watched), parallelism="3")

    assert send(made, [("x",) for _ in range(20)]) == Sent(done=20)

    assert watched.most_rows == 3


class Queue:
    def put(self, text, delay_s=0, ttl_s=None):
        pass


TWO_QUEUES = SinkColumns(body=0, queue=1)


def test_rows_for_a_queue_at_its_limit_do_not_block_rows_for_others():
    service = Limited(lambda name: Queue(), ref("full-queue", "acc"))
    made = task(NOWHERE, service)
    rows = [("x", "full-queue" if number % 2 else "free-queue") for number in range(40)]

    assert send(made, rows, TWO_QUEUES) == Sent(done=40)

    names = [call.queue.name for call in service.begun]
    assert names == ["free-queue"] * 20 + ["full-queue"] * 20


def test_few_rows_wait_for_a_limit_and_then_no_more_are_read(monkeypatch):
    ahead = 100
    monkeypatch.setattr(sending, "BUFFER_BYTES", ahead * size_of_a_row("x"))
    service = Limited(lambda name: Queue(), ref("orders", "acc"))
    waiting = []

    def rows():
        for number in range(200):
            waiting.append(number - ahead - len(service.begun))
            yield ("x",)

    assert send(task(NOWHERE, service), rows()) == Sent(done=200)

    assert max(waiting) == sending.MOST_WAITING


ALL = SinkColumns(body=0, queue=1, visibility_delay=2, time_to_live=3)


@pytest.mark.parametrize(
    "row",
    [
        lambda number: ("", None, None, None),
        lambda number: (f"{number:08d}", None, None, None),
        lambda number: (f"{number:08d}", f"queue-{number:08d}", 1_000 + number, 600_000 + number),
        lambda number: (chr(0x1F600) + f"{number:0250d}", None, None, None),
        lambda number: (b"%08d" % number, None, None, None),
    ],
    ids=["empty", "8 bytes", "all columns", "four bytes for each character", "binary"],
)
def test_what_a_task_holds_before_its_first_message_is_bounded_whatever_its_rows(monkeypatch, row):
    # Given a task of very many rows that may hold so many bytes of them
    most = 2**20
    monkeypatch.setattr(sending, "BUFFER_BYTES", most)
    held = []

    class First(Queue):
        def put(self, text, delay_s=0, ttl_s=None):
            if not held:
                held.append(tracemalloc.get_traced_memory()[0])

    made = task(NOWHERE, OneByOne(lambda name: First()), parallelism="1")

    # When it is sent
    tracemalloc.start()
    try:
        send(made, (row(number) for number in range(10_000)), ALL)
    finally:
        tracemalloc.stop()

    # Then it held no more than that at its first message
    assert held[0] < most * 1.1


def test_few_rows_of_a_record_batch_become_python_values_at_once():
    batch = pa.record_batch({"body": [f"{number:02d}" for number in range(200_000)]})

    rows = tuples([batch], {0})
    tracemalloc.start()
    try:
        assert next(rows) == ("00",)
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()

    assert held < 2**20
    assert sum(1 for _ in rows) == 199_999


def test_rows_that_changed_nothing_are_counted_and_not_kept():
    tally = TaskCounts(Operation.DELETE, OnStaleReceipt.IGNORE)
    rows = [
        DeleteRow(Lease(ref("orders", "acc"), f"m{number}", "r"), row=number) for number in range(9)
    ]
    before = [sys.getrefcount(row) for row in rows]

    for row in rows:
        tally.begun()
        tally.answered(row, Outcome.GONE)
    del row

    assert [sys.getrefcount(row) for row in rows] == before
    assert tally.total() == Sent(stale=9)


def test_a_task_that_fails_forgets_the_rows_that_wait():
    class Refuses(Queue):
        def put(self, text, delay_s=0, ttl_s=None):
            raise AccessDenied("no", status=403)

    service = Limited(lambda name: Refuses(), ref("full-queue", "acc"))
    made = task(NOWHERE, service)
    rows = [("x", "full-queue"), ("y", "free-queue")]

    with pytest.raises(AccessDenied, match="acknowledged: 0"):
        send(made, rows, TWO_QUEUES)

    assert [call.queue.name for call in service.begun] == ["free-queue"]
