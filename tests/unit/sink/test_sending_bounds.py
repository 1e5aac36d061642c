"""Rows under way are bounded, by their bytes and by their number."""

from doubles import OneByOne
from senders import send, sender

from spark_azqueue.errors import QueueNotFound
from spark_azqueue.sink import sender as sending
from spark_azqueue.sink.tally import Sent

NOWHERE = "AccountName=acc;AccountKey=a2V5"


class Watched:
    """Calls under way, answered one at a time; notes how many bytes were under way at most."""

    def __init__(self, answer):
        self._answer = answer
        self._under_way = []
        self.most = 0

    def __len__(self):
        return len(self._under_way)

    def begin(self, request, call, retry=None):
        self._under_way.append(request)
        self.most = max(self.most, sum(each.size for each in self._under_way))

    def ended(self, timeout_s=None):
        request = self._under_way.pop(0)
        return [(request, self._answer(request))]

    def close(self):
        pass


def test_bytes_count_again_when_a_row_is_sent_again_to_a_queue_that_was_created(monkeypatch):
    # Given rows of which so many are under way at most, all to queues that are to be created
    monkeypatch.setattr(sending, "LOOK_AHEAD_BYTES", 1_000)
    answered = set()

    def answer(request):
        if request.row in answered:
            return None
        answered.add(request.row)
        return QueueNotFound("it is missing", status=404)

    made = sender(NOWHERE, OneByOne(None), createQueue="true", sendParallelism="64")
    watched = made._flight = Watched(answer)

    # When each is sent twice
    assert send(made, [("x" * 200,) for _ in range(100)]) == Sent(done=100)

    # Then never more than one row beyond the bound was under way, and in the end nothing is
    assert 1_000 < watched.most <= 1_200
    assert made._bytes_under_way == 0


def test_rows_under_way_are_bounded_by_number_too(monkeypatch):
    made = sender(NOWHERE, sendParallelism="3")
    watched = made._flight = Watched(lambda request: None)

    assert send(made, [("x",) for _ in range(20)]) == Sent(done=20)

    assert watched.most == 3
