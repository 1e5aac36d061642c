"""The sender against the fake: what is acknowledged, what is stale, what is told where it fails."""

import logging
import threading

import pytest
from refs import ORDERS

from spark_azqueue.errors import InvalidRow, QueueNotFound, StaleReceipt
from spark_azqueue.options.account import read_account
from spark_azqueue.options.parse import sink_config
from spark_azqueue.service.queues.calls import Dequeue
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.sink.columns import SinkColumns
from spark_azqueue.sink.row_errors import requests
from spark_azqueue.sink.sender import BUFFER_BYTES, Sender
from spark_azqueue.sink.tally import Sent
from spark_azqueue.testing import Fault

QUEUE = "orders"
BODY = SinkColumns(body=0)
LEASED = SinkColumns(message_id=0, pop_receipt=1, body=2, visibility_delay=3)


@pytest.fixture
def send(fake):
    """Sends rows to the fake, by the whole way but Spark."""
    fake.create_queue(QUEUE)

    def sends(rows, columns=BODY, **options):
        given = {"secret.connectionString": fake.connection_string, "queue": QUEUE, **options}
        config = sink_config(given, {})
        return Sender(config).send(requests(rows, columns, config))

    return sends


@pytest.fixture
def old(fake, send):
    """Ten messages, m0 to m9: (id, receipt) of each, from before they are leased."""
    fake.put_many(QUEUE, [f"m{n}" for n in range(10)])
    return [(view.id, view.receipt) for view in fake.messages(QUEUE)]


@pytest.fixture
def leased(fake, old):
    """The same on lease: (id, receipt) of each. The receipt is one for all, as on the service."""
    account = read_account({"secret.connectionString": fake.connection_string}, {})
    client = QueueClient(account)
    page = client.now(Dequeue(ORDERS, 10, 600))
    client.close()
    return [(lease.message_id, lease.pop_receipt) for _, lease in page.received]


def texts(fake):
    return [view.text for view in fake.messages(QUEUE)]


def test_deletes_by_receipt(fake, send, leased):
    rows = [(*pair, None, None) for pair in leased[:7]]

    assert send(rows, LEASED, operation="delete") == Sent(done=7)
    assert texts(fake) == ["m7", "m8", "m9"]


def test_updates_by_receipt(fake, send, leased):
    rows = [
        (*leased[0], None, None),  # retry at once
        (*leased[1], None, 60),  # retry later
        (*leased[2], "stage 2", 30),  # saved progress
    ]

    assert send(rows, LEASED, operation="update", visibilityDelay="0") == Sent(done=3)
    now = fake.clock.now()
    found = {view.text: view.next_visible - now for view in fake.messages(QUEUE)}
    assert found["m0"] <= 0
    assert found["m1"] == pytest.approx(60, abs=5)
    assert found["stage 2"] == pytest.approx(30, abs=5)
    assert found["m3"] > 500, "the others are still on lease"
    assert fake.visible(QUEUE) == 1
    fake.clock.advance(61)
    assert fake.visible(QUEUE) == 3


@pytest.mark.parametrize("operation", ["update", "delete"])
def test_stale_receipts_are_counted_told_and_change_nothing(
    fake, send, old, leased, caplog, operation
):
    before = texts(fake)
    with caplog.at_level(logging.WARNING):
        stale = [(*pair, "new", 9) for pair in old[1:8]]
        good = [(*leased[9], "new", 9)]
        assert send([*stale, *good], LEASED, operation=operation) == Sent(done=1, stale=7)

    assert texts(fake)[:9] == before[:9]
    (record,) = caplog.records
    assert record.getMessage().startswith("7 of 8 rows of this task had a stale receipt")
    assert leased[1][0] in record.getMessage()


@pytest.mark.parametrize("operation", ["update", "delete"])
def test_a_stale_receipt_stops_the_write_where_that_is_asked_for(send, old, leased, operation):
    rows = [(*leased[0], None, None), (*old[1], None, None)]
    with pytest.raises(StaleReceipt) as caught:
        send(rows, LEASED, operation=operation, onStaleReceipt="fail", parallelism="1")

    text = str(caught.value)
    assert f"row 1 of this task has a stale receipt, for message {leased[1][0]}" in text
    assert "acknowledged: 1 (for a retry of the task their receipts are stale)" in text
    assert leased[0][1] not in text
    assert old[1][1] not in text


@pytest.mark.parametrize("operation", ["update", "delete"])
def test_a_change_whose_answer_was_lost_is_not_taken_for_stale(fake, send, leased, operation):
    fake.faults.add(Fault(operation, "reply_lost", every=3, times=3))
    rows = [(*pair, "new", 60) for pair in leased]

    assert send(rows, LEASED, operation=operation, onStaleReceipt="fail") == Sent(done=10)
    assert texts(fake) == (["new"] * 10 if operation == "update" else [])


@pytest.mark.parametrize("operation", ["update", "delete"])
def test_a_queue_is_not_created_for_messages_that_it_cannot_hold(fake, send, leased, operation):
    with pytest.raises(QueueNotFound, match=r"row 0 of this task.*queue 'missing'"):
        send(
            [(*leased[0], None, None)],
            LEASED,
            operation=operation,
            queue="missing",
            createQueue="true",
        )


def test_a_missing_queue_is_named_and_the_others_are_written(fake, send):
    columns = SinkColumns(body=0, queue=1)
    with pytest.raises(QueueNotFound, match=r"queue 'missing'.*createQueue=true.*acknowledged: 1"):
        send([("a", None), ("b", "missing")], columns, parallelism="1")
    assert texts(fake) == ["a"]

    assert send([("b", "missing")], columns, createQueue="true") == Sent(done=1)
    assert [view.text for view in fake.messages("missing")] == ["b"]


def test_nothing_is_sent_where_a_row_in_sight_is_bad(fake, send):
    with pytest.raises(InvalidRow, match=r"row 99 .*acknowledged: 0"):
        send([("x",)] * 99 + [(None,)])

    assert fake.requests["put"] == 0


def test_a_task_larger_than_the_buffer_is_sent_as_it_is_read(fake, send):
    large = "x" * 65_000
    count = BUFFER_BYTES // len(large) + 50

    def rows():
        for _ in range(count):
            yield (large,)
        assert fake.requests["put"] > 0, "not all of it is held before the first is sent"

    assert send(rows()) == Sent(done=count)


def test_where_the_rows_themselves_fail_nothing_goes_on_behind_the_tasks_back(fake, send):
    large = "x" * 65_000
    fake.faults.add(Fault("put", "slow", every=1, seconds=0.02))

    def rows():
        for _ in range(BUFFER_BYTES // len(large) + 20):
            yield (large,)
        raise RuntimeError("of the user's own function")

    with pytest.raises(RuntimeError, match="of the user's own function"):
        send(rows(), parallelism="2")
    sent = fake.requests["put"]
    assert 0 < sent < 25, "those under way were cancelled or waited for"
    # Nobody is left to send more: the threads that did have ended.
    for thread in threading.enumerate():
        if thread.name.startswith("azqueue-send"):
            thread.join(10.0)
            assert not thread.is_alive()
    assert fake.requests["put"] == sent


def test_a_queue_is_created_once_for_all_that_wait_for_it(fake, send):
    columns = SinkColumns(body=0, queue=1)
    rows = [(str(n), "later") for n in range(100)]

    assert send(rows, columns, createQueue="true") == Sent(done=100)
    assert fake.count("later") == 100
    assert fake.requests["create"] == 1
