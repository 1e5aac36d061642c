"""The sender's large bodies, which threads store: what is put, counted, waited for and closed."""

import base64
import contextlib
import threading

import pytest
from consuming import wait_until
from senders import QUEUE, send, task

from spark_azqueue.errors import InvalidRow, Outcome, QueueNotFound, ServiceError
from spark_azqueue.service.blobs.references import Reference
from spark_azqueue.sink import large_bodies as performing
from spark_azqueue.sink import sender as sending
from spark_azqueue.sink.columns import SinkColumns
from spark_azqueue.sink.tally import Sent
from spark_azqueue.testing import Fault

SOON = 10.0
LARGE = "x" * 70_000


class Blobs:
    """Blobs that are stored in a list."""

    def __init__(self):
        self.stored = []
        self.closed = False

    def put(self, body):
        self.stored.append(body.data)
        return Reference("bodies", f"{len(self.stored):032x}", len(body.data))

    def close(self):
        self.closed = True


@pytest.fixture
def stored(monkeypatch):
    """In place of the blobs of the sender that is made next."""
    blobs = Blobs()
    monkeypatch.setattr(performing, "BlobStore", lambda *place, **options: blobs)
    return blobs


@pytest.fixture
def make(fake, stored):
    """Makes senders to the fake, whose blobs go nowhere."""

    def sender(**options):
        blobs = {
            "largeBody": "blob",
            "blobContainer": "bodies",
            "blobAccountUrl": "http://127.0.0.1:9/blobs",
        }
        return task(fake.connection_string, **blobs, **options)

    return sender


def texts(fake):
    return [view.text for view in fake.messages(QUEUE)]


def test_the_reference_is_put_in_the_queues_encoding(make, fake, stored):
    fake.create_queue(QUEUE)
    made = make(messageEncoding="base64")

    assert send(made, [(LARGE,)]) == Sent(done=1)

    expected = Reference("bodies", f"{1:032x}", 70_000).text
    assert [base64.b64decode(text).decode() for text in texts(fake)] == [expected]
    assert stored.closed


def test_each_try_stores_a_body_of_its_own(make, fake):
    fake.create_queue(QUEUE)
    fake.faults.add(Fault("put", "reply_lost", nth=1))
    made = make()

    assert send(made, [(LARGE,)]) == Sent(done=1)

    assert texts(fake) == [Reference("bodies", f"{n:032x}", 70_000).text for n in (1, 2)]


def test_a_missing_queue_is_created_for_a_large_body(make, fake, stored):
    made = make(createQueue="true")

    assert send(made, [(LARGE,)]) == Sent(done=1)

    assert fake.count(QUEUE) == 1
    assert len(stored.stored) == 1, "no blob is left to which nobody refers"


@pytest.mark.parametrize("operation", ["enqueue", "update"])
def test_a_missing_queue_is_told_where_it_may_not_be_created(make, fake, operation):
    leased = SinkColumns(body=0, message_id=1, pop_receipt=2)
    options = {} if operation == "enqueue" else {"createQueue": "true"}

    with pytest.raises(QueueNotFound, match="row 0 of this task"):
        send(make(operation=operation, **options), [(LARGE, "an-id", "AAAA")], leased)

    assert fake.requests["create"] == 0


@pytest.mark.parametrize("rows", [[("a",), (LARGE,)], [("a",), (LARGE,), (None,)]])
def test_a_task_leaves_no_connection_open_and_no_thread_behind(make, fake, stored, rows):
    fake.create_queue(QUEUE)
    before = set(threading.enumerate())
    made = make()

    with contextlib.suppress(InvalidRow):
        send(made, rows)

    for thread in set(threading.enumerate()) - before:
        if thread.name.startswith("azqueue-send"):
            thread.join(SOON)
            assert not thread.is_alive()
    wait_until(lambda: not fake.connections)  # the server hears of it some time later
    assert not fake.connections
    assert stored.closed


class Threaded:
    """Large bodies that take until the task has failed; notes who was closed too early."""

    def __init__(self, failing, outcome=Outcome.OK):
        self._failing = failing
        self._outcome = outcome
        self._closed = threading.Event()
        self.closed_too_early = []

    def perform(self, request):
        assert self._failing.wait(SOON)
        self.closed_too_early.append(self._closed.wait(0.1))
        return self._outcome

    def close(self):
        self._closed.set()


def rows_that_fail(failing, error):
    yield (LARGE,)
    failing.set()
    raise error


@pytest.mark.parametrize("error", [RuntimeError("of the user's function"), ServiceError("no")])
def test_a_task_that_fails_waits_for_the_large_bodies_under_way(make, fake, monkeypatch, error):
    monkeypatch.setattr(sending, "BUFFER_BYTES", 0)  # each row is sent when it is read
    failing = threading.Event()
    threaded = Threaded(failing)
    monkeypatch.setattr(sending, "LargeBodies", lambda *arguments: threaded)
    made = make()

    with pytest.raises(type(error)) as caught:
        send(made, rows_that_fail(failing, error))

    assert threaded.closed_too_early == [False]
    if isinstance(error, ServiceError):
        assert str(caught.value).endswith("acknowledged: 1 (a retry of the task sends them again).")
