"""Rows under way are bounded, by their bytes and by their number."""

import pytest
from doubles import OneByOne
from limited import Limited
from refs import ref
from senders import send, task

from spark_azqueue.errors import AccessDenied, QueueNotFound
from spark_azqueue.sink import sender as sending
from spark_azqueue.sink.columns import SinkColumns
from spark_azqueue.sink.tally import Sent

NOWHERE = "AccountName=acc;AccountKey=a2V5"


class Watched:
    """Calls under way, answered one at a time; notes how many bytes were under way at most."""

    def __init__(self, answer):
        self._answer = answer
        self._under_way = []
        self.most = 0
        self.sizes = []  # how many bytes were under way when each had begun

    def __len__(self):
        return len(self._under_way)

    def begin(self, request, call, retry=None):
        self._under_way.append(request)
        self.sizes.append(sum(each.size for each in self._under_way))
        self.most = max(self.sizes)

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


def test_bytes_count_again_when_a_row_is_sent_again_to_a_queue_that_was_created(monkeypatch):
    # Given rows of which so many are under way at most, all to queues that are to be created
    monkeypatch.setattr(sending, "LOOK_AHEAD_BYTES", 1_000)
    answered = set()

    def answer(request):
        if request.row in answered:
            return None
        answered.add(request.row)
        return QueueNotFound("it is missing", status=404)

    watched = Watched(answer)
    made = task(NOWHERE, WatchedService(watched), createQueue="true", sendParallelism="64")

    # When each is sent twice
    assert send(made, [("x" * 200,) for _ in range(100)]) == Sent(done=100)

    # Then never more than one row beyond the bound was under way, and to the end so many were:
    # what was answered does not count any more
    assert 1_000 < watched.most <= 1_200
    assert watched.sizes[5:-6] == [1_200] * (200 - 11)


def test_rows_under_way_are_bounded_by_number_too(monkeypatch):
    watched = Watched(lambda request: None)
    made = task(NOWHERE, WatchedService(watched), sendParallelism="3")

    assert send(made, [("x",) for _ in range(20)]) == Sent(done=20)

    assert watched.most == 3


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
    monkeypatch.setattr(sending, "LOOK_AHEAD_BYTES", ahead)  # as many rows, of a byte each
    service = Limited(lambda name: Queue(), ref("orders", "acc"))
    waiting = []

    def rows():
        for number in range(200):
            waiting.append(number - ahead - len(service.begun))
            yield ("x",)

    assert send(task(NOWHERE, service), rows()) == Sent(done=200)

    assert max(waiting) == sending.MOST_WAITING


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
