"""Deletes and releases: each outcome is reported, and waiting for them is bounded."""

import threading

import pytest
from doubles import OneByOne
from queues import OneQueue
from refs import ORDERS
from settled import Recorded, worker_of

from spark_azqueue.errors import Outcome, QueueNotFound, ServiceUnavailable
from spark_azqueue.options.account import read_account
from spark_azqueue.service.messages import Lease
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.service.retry import LAST_WORDS, RetryPolicy
from spark_azqueue.source.leases import worker as working
from spark_azqueue.source.leases.worker import LeaseWorker
from spark_azqueue.testing import Fault

SOON = 10.0


class Bench:
    """A worker for the fake's queue, and what it reported."""

    def __init__(self, fake, parallelism=8):
        self.fake = fake
        fake.create_queue("orders")
        account = read_account({"secret.connectionString": fake.connection_string}, {})
        self.service = QueueClient(account)
        self.queue = OneQueue(account, ORDERS)
        self.ledger = Recorded()
        self.worker = self.worker_of(self.service, parallelism)

    def worker_of(self, service, parallelism=1, **more):
        return worker_of(service, self.ledger, parallelism=parallelism, **more)

    def lease(self, count):
        self.fake.put_many("orders", [str(n) for n in range(count)])
        leases = []
        while len(leases) < count:
            page = self.queue.dequeue(32, 60)
            leases += [lease for _, lease in page.received]
        return leases


@pytest.fixture
def bench(fake):
    return Bench(fake)


def test_nothing_to_wait_for(bench):
    bench.worker.delete([])
    bench.worker.wait(0.0)

    assert bench.worker.release([]) == 0


@pytest.mark.parametrize(
    ("kind", "outcome"),
    [("not_found", Outcome.GONE), ("receipt_mismatch", Outcome.LOST)],
)
def test_a_refused_delete_is_reported_and_not_repeated(bench, kind, outcome):
    (lease,) = bench.lease(1)
    bench.fake.faults.add(Fault("delete", kind))

    bench.worker.delete([lease])
    bench.worker.wait(SOON)

    assert bench.ledger.outcomes == {lease: outcome}
    assert bench.fake.requests["delete"] == 1


def test_a_service_that_stays_away_is_given_up_and_reported(bench, monkeypatch, caplog):
    monkeypatch.setattr(working, "SETTLE", RetryPolicy(0.1))
    (lease,) = bench.lease(1)
    bench.fake.stop()

    bench.worker.delete([lease])
    bench.worker.wait(SOON)

    assert bench.ledger.outcomes == {lease: Outcome.RETRY}
    assert "is remembered" in caplog.text


def test_an_error_that_nobody_foresaw_is_not_swallowed(bench, fake):
    # A credential of the user's own can raise what it likes.
    def find_queue(name):
        raise RuntimeError("the vault is closed")

    worker = bench.worker_of(OneByOne(find_queue))
    lease = Lease(ORDERS, "id", "AAAA")

    worker.delete([lease])
    with pytest.raises(RuntimeError, match="the vault is closed"):
        worker.wait(SOON)


def test_waiting_ends_in_time_and_what_was_not_begun_is_given_up(fake):
    # Given one thread, held up by the first of three deletes
    bench = Bench(fake, parallelism=1)
    leases = bench.lease(3)
    started, go = threading.Event(), threading.Event()

    class Held:
        def delete(self, lease):
            started.set()
            go.wait(SOON)
            return Outcome.OK

    worker = bench.worker_of(OneByOne(lambda name: Held()))
    worker.delete(leases)
    started.wait(SOON)

    # When the time to wait is over
    worker.wait(0.01)

    # Then the two others are given up, and the first is reported when it ends
    assert bench.ledger.outcomes == dict.fromkeys(leases[1:], Outcome.RETRY)
    go.set()
    worker.wait(SOON)
    assert bench.ledger.outcomes[leases[0]] is Outcome.OK
    assert set(bench.ledger.times.values()) == {1}


@pytest.mark.parametrize(("refuse", "told"), [(False, [False]), (True, [True])])
def test_a_group_tells_once_whether_any_receipt_was_refused(bench, refuse, told):
    leases = bench.lease(20)
    if refuse:
        bench.fake.faults.add(Fault("delete", "not_found", nth=7))
    ends = []

    bench.worker.delete(leases, ends.append)
    bench.worker.wait(SOON)

    assert ends == told


def test_the_blob_of_a_message_goes_when_that_is_deleted(bench):
    class WithBlobs(Recorded):
        def settled(self, lease, outcome):
            super().settled(lease, outcome)
            return f"blob of {lease.message_id}" if outcome is Outcome.OK else None

    gone = []
    leases = bench.lease(2)
    bench.fake.faults.add(Fault("delete", "not_found", nth=1))
    worker = worker_of(bench.service, WithBlobs(), on_deleted=gone.append)

    worker.delete(leases)
    worker.wait(SOON)

    assert gone == [f"blob of {leases[1].message_id}"]


# ── on the main road ──────────────────────────────────────────────────────────────────────────────


def test_a_queue_that_was_deleted_since_holds_nothing_to_delete(bench):
    leases = bench.lease(3)
    bench.fake.delete_queue("orders")

    bench.worker.delete_restored(leases, [])


@pytest.mark.parametrize(
    "act", [lambda s, leases: s.delete_restored(leases, []), lambda s, leases: s.release(leases)]
)
def test_without_an_answer_a_restart_does_not_go_on(bench, monkeypatch, act):
    leases = bench.lease(3)
    monkeypatch.setattr(working, "REPLAY", RetryPolicy(0.1))
    # `release` has its policy as a default value.
    monkeypatch.setattr(LeaseWorker.release, "__defaults__", (RetryPolicy(0.1), None))
    bench.fake.stop()

    with pytest.raises(ServiceUnavailable):
        act(bench.worker, leases)


def test_a_release_on_the_way_out_is_bounded(bench):
    leases = bench.lease(2)
    bench.fake.faults.add(Fault("update", "slow", seconds=0.5))

    with pytest.raises(TimeoutError):
        bench.worker.release(leases, LAST_WORDS, timeout_s=0.01)


def test_a_missing_queue_is_told_by_the_wait(bench):
    leases = bench.lease(1)
    bench.fake.delete_queue("orders")

    bench.worker.delete(leases)

    with pytest.raises(QueueNotFound):
        bench.worker.wait(SOON)


def test_messages_that_went_with_their_queue_are_deleted_if_it_may_go(bench):
    leases = bench.lease(3)
    bench.fake.delete_queue("orders")
    worker = bench.worker_of(bench.service, 8, may_vanish=lambda queue: True)

    worker.delete(leases)
    worker.wait(SOON)

    assert bench.ledger.outcomes == dict.fromkeys(leases, Outcome.OK)


def test_receipts_of_a_queue_that_is_gone_are_dead_if_it_may_go(bench):
    leases = bench.lease(3)
    bench.fake.delete_queue("orders")
    worker = bench.worker_of(bench.service, 8, may_vanish=lambda queue: True)

    assert worker.release(leases) == 0
    with pytest.raises(QueueNotFound):
        bench.worker.release(leases)
