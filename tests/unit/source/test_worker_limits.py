"""Deletes and releases with limits that are learned: a full queue holds up no other."""

import threading

from limited import Limited
from refs import ORDERS, ref
from settled import Recorded, worker_of

from spark_azqueue.errors import Outcome
from spark_azqueue.service.messages import Lease
from spark_azqueue.service.queues.calls import Delete, Release
from spark_azqueue.service.workers import Workers

SOON = 10.0
OTHERS = ref("others")


class Queue:
    def delete(self, lease):
        return Outcome.OK

    def update(self, lease, visibility_s):
        return Outcome.OK, None


def leases(queue, count):
    return [Lease(queue, f"{queue.name}-{number}", "r") for number in range(count)]


def worker_for(service, workers=None):
    recorded = Recorded()
    return worker_of(service, recorded, workers=workers, parallelism=None), recorded.outcomes


def test_a_queue_at_its_limit_does_not_block_the_deletes_of_others():
    service = Limited(lambda name: Queue(), ORDERS)
    worker, reported = worker_for(service)
    full, free = leases(ORDERS, 5), leases(OTHERS, 5)

    worker.delete([*full, *free])
    worker.wait(SOON)

    assert reported == dict.fromkeys([*full, *free], Outcome.OK)
    assert [call.lease for call in service.begun] == [*free, *full]
    assert service.refused >= 1


def test_releases_do_not_wait_for_deletes_that_fill_the_limit():
    service = Limited(lambda name: Queue(), ORDERS)
    workers = Workers(1, "leases")
    worker, reported = worker_for(service, workers)
    start = threading.Event()
    workers.submit(start.wait, SOON)  # both are there when the thread begins

    worker.delete(leases(ORDERS, 100))
    worker.release_later(leases(ORDERS, 3))
    start.set()
    worker.wait(SOON)

    kinds = [type(call) for call in service.begun]
    assert kinds == [Release] * 3 + [Delete] * 100
    assert len(reported) == 100


def test_few_releases_are_under_way_at_once():
    class Counting(Limited):
        most = 0

        def in_flight(self):
            flight = super().in_flight()
            begin = flight.begin

            def counted(*arguments):
                begin(*arguments)
                self.most = max(self.most, len(flight))

            flight.begin = counted
            return flight

    service = Counting(lambda name: Queue())
    worker, _ = worker_for(service)

    assert worker.release(leases(ORDERS, 300)) == 300

    assert service.most == 64


def test_deletes_that_still_wait_for_the_limit_are_given_up_in_time():
    class Full(Limited):
        def in_flight(self):
            flight = super().in_flight()
            flight.ended = lambda timeout_s=None: threading.Event().wait(0.001) or []
            return flight

    service = Full(lambda name: Queue(), ORDERS)
    worker, reported = worker_for(service)

    worker.delete(leases(ORDERS, 20))
    worker.wait(0.05)
    given_up = len(reported)
    service.full.clear()
    worker.wait(0.05)

    assert given_up >= 19, "all but the one that was just asking"
    assert set(reported.values()) == {Outcome.RETRY}
