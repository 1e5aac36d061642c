"""Requests that hang: whatever becomes of them, they cost nobody else a lease, or a row."""

from __future__ import annotations

from typing import Any

import pytest
from world.fates import ARRIVES, NEVER, Fault, late
from world.service import POISON, SOURCE, Service
from world.spark import VISIBILITY_S, Spark

from spark_azqueue.errors import ServiceError

pytestmark = pytest.mark.usefixtures("simulated_time")


def a_query(texts: int = 8, *, renewals_run: bool = False, **options: str) -> tuple[Service, Spark]:
    service = Service()
    service.account.create(SOURCE)
    service.account.create(POISON)
    for number in range(texts):
        service.account.queue(SOURCE).put(f"m{number}", now=service.clock.now())
    return service, Spark(service, options, renewals_run=renewals_run)


@pytest.mark.parametrize("fault", [NEVER, ARRIVES, late(7)], ids=str)
def test_a_renewal_that_hangs_costs_no_other_its_lease(fault: Fault) -> None:
    """Promise 6, while a second consumer polls: it can only get what hung itself."""
    service, spark = a_query(renewals_run=True, parallelism="2")
    taken: set[str] = set()
    unsure: set[str] = set()

    def long_work() -> None:
        for second in range(0, 3 * VISIBILITY_S, 5):
            if second % 60 == 30:
                service.faults["update"] = [fault]
            service.pass_time(5)
            unsure.update(service.unsure)
            views = service.account.queue(SOURCE).dequeue(now=service.clock.now(), count=32)
            taken.update(view.id for view in views)

    assert spark.trigger(meanwhile=long_work)

    assert service.met[fault.fate] >= 3
    assert len(unsure) < 8, "some were renewed all the time"
    assert taken <= unsure


@pytest.mark.parametrize("parallelism", [1, 2, 4])
def test_renewals_that_hang_keep_no_other_waiting(parallelism: int) -> None:
    """As many hang as may be under way: the others begin when it shows, not when those end."""
    service, spark = a_query(parallelism=str(parallelism))
    due = service.clock.now() + VISIBILITY_S / 2
    renewed_at: list[float] = []

    def work() -> None:
        service.clock.advance(VISIBILITY_S / 2)
        service.faults["update"] = [NEVER] * parallelism
        spark.renew()
        views = service.views()
        renewed_at.extend(view.next_visible - VISIBILITY_S - due for view in views)

    assert spark.trigger(meanwhile=work)

    assert sum(0 <= after <= 2 for after in renewed_at) == 8 - parallelism
    assert len(renewed_at) == 8


def test_a_renewal_is_given_up_in_time_for_another() -> None:
    service, spark = a_query(1, renewals_run=True)
    taken: list[Any] = []

    def work() -> None:
        service.faults["update"] = [NEVER] * 4
        for _ in range(2 * VISIBILITY_S // 5):
            service.pass_time(5)
            taken.extend(service.account.queue(SOURCE).dequeue(now=service.clock.now(), count=32))

    assert spark.trigger(meanwhile=work)

    assert service.met[NEVER.fate] == 4
    assert taken == []


@pytest.mark.parametrize("fault", [NEVER, ARRIVES, late(7)], ids=str)
@pytest.mark.parametrize("operation", ["dequeue", "delete"])
def test_no_row_comes_twice_when_requests_hang(operation: str, fault: Fault) -> None:
    service, spark = a_query(20)
    for _ in range(10):
        service.faults[operation] = [fault]
        spark.trigger()
    service.end_faults()
    for _ in range(3):
        service.pass_time(2 * VISIBILITY_S)
        while spark.trigger():
            pass

    assert service.met[fault.fate] >= 3
    assert service.views() == []
    assert spark.committed_texts == {f"m{number}": 1 for number in range(20)}


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("fault", [NEVER, ARRIVES])
def test_a_delete_that_hangs_is_repeated_in_time_and_not_remembered(
    fault: Fault, times: int
) -> None:
    """One attempt ends before the time for all of them: the repeat tells what became of it."""
    service, spark = a_query(2)
    service.faults["delete"] = [fault] * times

    assert spark.trigger()
    assert not spark.trigger()

    assert spark.consumer
    report = spark.consumer.report()
    assert service.met[fault.fate] == times
    assert (report.unconfirmed_deletes, report.counters.deletes_given_up) == (0, 0)
    assert report.counters.deleted == 2
    assert service.views() == []


def fails_until_the_copy(spark: Spark) -> None:
    for _ in range(12):
        spark.trigger(fails_on="m0".__eq__)


@pytest.mark.parametrize("fault", [NEVER, ARRIVES])
def test_a_poison_message_whose_copy_hangs_stays_until_a_copy_stands(fault: Fault) -> None:
    service, spark = a_query(1, maxDequeueCount="1")
    service.meet("put", fault, times=20)

    with pytest.raises(ServiceError, match="could not put into queue 'orders-poison'"):
        fails_until_the_copy(spark)

    spark.stop()
    assert len(service.views()) == 1
    service.end_faults()
    service.pass_time(VISIBILITY_S + 1)
    while spark.trigger(fails_on="m0".__eq__):
        pass
    assert {view.text for view in service.views(POISON)} == {"m0"}
    assert service.views() == []


def test_what_another_thread_begins_while_an_answer_hangs_is_settled() -> None:
    """The batch is committed while the renewal of one of its messages hangs: its delete waits."""
    service, spark = a_query(2)
    assert spark.trigger()
    service.clock.advance(VISIBILITY_S / 2)
    service.faults["update"] = [NEVER]
    service.account.queue(SOURCE).put("later", now=service.clock.now())

    spark.renew_while(spark.trigger)

    assert {view.text for view in service.views()} == {"later"}
    assert spark.committed_texts == {"m0": 1, "m1": 1, "later": 1}
