"""A pool of daemon threads."""

import threading

import pytest

from spark_azqueue.options.parse import sink_config
from spark_azqueue.service.workers import Workers
from spark_azqueue.sink.columns import SinkColumns
from spark_azqueue.sink.row_errors import requests
from spark_azqueue.sink.sender import Sender

SOON = 10.0


def threads(name):
    return [t for t in threading.enumerate() if t.name.startswith(f"azqueue-{name}-")]


def test_a_result_and_an_exception_are_in_the_future():
    workers = Workers(2, "results")

    good = workers.submit(lambda a, b: a + b, 1, 2)
    bad = workers.submit(int, "no number")

    assert good.result(SOON) == 3
    assert isinstance(bad.exception(SOON), ValueError)


def test_even_what_is_no_exception_does_not_end_a_thread():
    workers = Workers(1, "exits")

    def leave():
        raise SystemExit

    assert isinstance(workers.submit(leave).exception(SOON), SystemExit)
    assert workers.submit(int).result(SOON) == 0


def test_calls_run_in_the_order_of_arrival():
    workers, order = Workers(1, "order"), []

    futures = [workers.submit(order.append, n) for n in range(50)]

    for future in futures:
        future.result(SOON)
    assert order == list(range(50))


def test_as_many_at_once_as_there_are_threads_and_no_more():
    workers = Workers(3, "width")
    everyone = threading.Barrier(3)

    # Each call waits until three of them are under way: with fewer threads it would break.
    futures = [workers.submit(everyone.wait, SOON) for _ in range(9)]

    for future in futures:
        future.result(SOON)
    assert len(threads("width")) == 3


def test_threads_are_started_only_as_they_are_needed():
    workers = Workers(100, "lazy")
    assert threads("lazy") == []

    for _ in range(50):
        workers.submit(int).result(SOON)

    # One does, or a few where the next call came before the last one's thread was idle again.
    assert 1 <= len(threads("lazy")) < 50


def test_a_wave_after_a_wave_finds_all_threads():
    workers = Workers(2, "waves")
    for future in [workers.submit(int) for _ in range(20)]:
        future.result(SOON)

    together = threading.Barrier(2)
    futures = [workers.submit(together.wait, SOON) for _ in range(2)]

    for future in futures:
        future.result(SOON)


def test_a_call_that_was_cancelled_before_its_turn_never_runs():
    workers = Workers(1, "cancel")
    go, ran = threading.Event(), []
    first = workers.submit(go.wait, SOON)

    second = workers.submit(ran.append, 2)
    assert second.cancel()
    go.set()

    assert first.result(SOON)
    workers.submit(int).result(SOON)
    assert ran == []


def test_threads_are_daemons_so_a_process_can_end():
    workers = Workers(1, "daemons")
    workers.submit(int).result(SOON)

    assert [thread.daemon for thread in threads("daemons")] == [True]


@pytest.mark.parametrize("count", [1, 4])
def test_many_calls_from_many_threads_all_run(count):
    workers, ran = Workers(count, f"many{count}"), []
    futures = []

    def submit():
        futures.extend(workers.submit(ran.append, n) for n in range(200))

    callers = [threading.Thread(target=submit) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(SOON)
    for future in futures:
        future.result(SOON)

    assert len(ran) == 800
    assert len(threads(f"many{count}")) <= count


@pytest.fixture
def no_threads(monkeypatch):
    """While it holds True no thread can be started."""
    holds, start = [True], threading.Thread.start

    def refuse(thread):
        if holds[0]:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    return holds


def test_a_call_for_which_no_thread_can_be_started_is_refused_and_never_runs(no_threads):
    workers, ran = Workers(1, "refused"), []

    with pytest.raises(RuntimeError, match="can't start new thread"):
        workers.submit(ran.append, 1)
    no_threads[0] = False
    workers.submit(ran.append, 2).result(SOON)

    assert ran == [2]


def test_where_no_further_thread_can_be_started_the_others_do_the_work(no_threads):
    workers, go = Workers(8, "fewer"), threading.Event()
    no_threads[0] = False
    first = workers.submit(go.wait, SOON)
    no_threads[0] = True

    others = [workers.submit(int) for _ in range(3)]
    go.set()

    assert first.result(SOON)
    assert [future.result(SOON) for future in others] == [0, 0, 0]
    assert len(threads("fewer")) == 1


def test_a_task_leaves_no_threads_behind(fake):
    # Spark's Python workers live on, and run one task after the other.
    fake.create_queue("orders")
    config = sink_config({"secret.connectionString": fake.connection_string, "queue": "orders"}, {})
    before = set(threading.enumerate())

    rows = [(str(n),) for n in range(20)]
    assert Sender(config).send(requests(rows, SinkColumns(0, None, None, None), config)).done == 20

    senders = [thread for thread in set(threading.enumerate()) - before if "send" in thread.name]
    for thread in senders:
        thread.join(1.0)
    assert [thread.name for thread in senders if thread.is_alive()] == []
