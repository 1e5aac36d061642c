"""What an availableNow run says it has drained is drained, also after kills of renewed batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from doubles import NeverRuns
from world.logged import LoggedSpark
from world.service import POISON, SOURCE, Service
from world.spark import VISIBILITY_S, Spark

from spark_azqueue.errors import NotDrained
from spark_azqueue.options.choices import DeleteAfter
from spark_azqueue.service.workers import Submits
from spark_azqueue.source.suspects import REPEATS

from .test_log_scenarios import a_query, bodies, drain, each_once, send

pytestmark = pytest.mark.usefixtures("simulated_time")

BARE = pytest.mark.parametrize("bare", [False, True], ids=["4.2", "4.0"])


def renewed(spark: Spark) -> Callable[[], None]:
    """While a batch runs, its leases are renewed: the receipts that were written down are dead."""

    def long_work() -> None:
        for _ in range(3):
            spark.service.pass_time(VISIBILITY_S / 2 + 1)
            spark.renew()

    return long_work


def killed_in_a_replay(spark: LoggedSpark) -> None:
    """It is started, plans the batch again, renews its leases, and is killed."""
    spark.start_only_the_process()
    spark.replays()
    renewed(spark)()
    spark.kill()


def visible(service: Service) -> int:
    return sum(view.visible for view in service.views())


def test_what_a_given_up_batch_held_is_read_by_the_same_run() -> None:
    """Its leases were renewed by a process that was killed: no release can be right."""
    service, spark = a_query(8, maxDequeueCount="1")
    service.account.create(POISON)
    spark.trigger(dies="planned")
    for _ in range(REPEATS - 1):
        killed_in_a_replay(spark)
    spark.available_now = True

    drain(spark)

    assert spark.given_up() == {1}
    assert bodies(spark) == each_once(8)
    assert service.views() == []


@pytest.mark.parametrize("ends", ["at once", "killed", "stopped"])
def test_also_if_the_process_that_gave_it_up_has_ended(ends: str) -> None:
    """Its messages are in no batch then, and hidden."""
    service, spark = a_query(8, maxDequeueCount="1")
    service.account.create(POISON)
    spark.trigger(dies="planned")
    for _ in range(REPEATS - 1):
        killed_in_a_replay(spark)
    send(service, "new")
    if ends != "at once":  # it writes another batch, whose header says how far it has come
        spark.trigger()
        spark.trigger()
    else:
        spark.start_only_the_process()
        assert spark.replays() == []
    assert spark.given_up() == {1}
    if ends == "stopped":
        spark.stop()
    spark.kill()
    spark.available_now = True

    drain(spark)

    assert bodies(spark) == [*each_once(8), "new"]
    assert service.views() == []


@pytest.mark.parametrize("settings", [{}, {"delete_after": DeleteAfter.LOG}], ids=["commit", "log"])
@pytest.mark.parametrize("kills", [1, 2])
def test_what_was_committed_is_deleted_by_the_run_that_drains(
    settings: dict[str, Any], kills: int
) -> None:
    """So that the log may be turned off then: nothing of it is left in the queue."""
    service, spark = a_query(8, settings)
    if kills == 1:
        spark.trigger(dies="after_sink", meanwhile=renewed(spark))
    else:
        spark.trigger(dies="after_sink")
        killed_in_a_replay(spark)
    spark.available_now = True

    drain(spark)
    spark.stop()

    assert service.views() == []
    without = Spark(service, {}, available_now=True)
    service.pass_time(10 * VISIBILITY_S)
    assert not without.trigger(), "the procedure of the page gives nothing twice"
    assert bodies(spark) == each_once(8)


def test_it_waits_no_longer_than_a_queue_has_messages() -> None:
    """The service counts hidden ones, too: with none left there is nothing to wait for."""
    service, spark = a_query(8)
    spark.trigger(dies="after_sink", meanwhile=renewed(spark))
    queue = service.account.queue(SOURCE)
    service.pass_time(10 * VISIBILITY_S)
    for view in queue.dequeue(now=service.clock.now(), count=32):
        queue.delete(view.id, view.receipt, now=service.clock.now())
    spark.available_now = True
    began = service.clock.now()

    drain(spark)

    assert service.clock.now() - began < VISIBILITY_S
    assert bodies(spark) == each_once(8)


def test_what_it_waited_for_once_holds_up_no_later_run() -> None:
    """Until when leases may last stands in the log, beside what is owed."""
    service, spark = a_query(8)
    spark.trigger(dies="after_sink", meanwhile=renewed(spark))
    queue = service.account.queue(SOURCE)
    service.pass_time(10 * VISIBILITY_S)
    (gone, *_) = queue.dequeue(now=service.clock.now(), count=1, visibility=1)
    queue.delete(gone.id, gone.receipt, now=service.clock.now())
    send(service, "for later")  # so that the queue is not empty
    service.account.queue(SOURCE).dequeue(now=service.clock.now(), count=32, visibility=3_000)
    spark.available_now = True
    for run in range(3):
        began = service.clock.now()
        drain(spark)
        spark.stop()
        took = service.clock.now() - began
        assert (took > VISIBILITY_S / 2) is (run == 0)


def test_a_wait_of_more_than_an_hour_is_an_error_that_says_until_when() -> None:
    service, spark = a_query(8, visibilityTimeout="2 days")
    spark.trigger(dies="after_sink")
    spark.start_only_the_process()
    spark.replays()
    service.pass_time(86_400)
    spark.renew()
    spark.kill()
    spark.available_now = True

    with pytest.raises(NotDrained, match=r"but 8 messages may be hidden .*until 20\d\d-.*again"):
        drain(spark)
    spark.stop()

    service.pass_time(3 * 86_400)
    drain(spark)
    assert service.views() == []
    assert bodies(spark) == each_once(8)


@BARE
def test_a_batch_is_given_up_before_anything_is_renewed(bare: bool) -> None:
    """So the receipts in the log still hold, and its messages are there at once."""
    service, spark = a_query(8, maxDequeueCount="1")
    service.account.create(POISON)
    spark.bare = bare
    spark.trigger(dies="planned")
    for _ in range(REPEATS - 1):
        spark.start_only_the_process()
        spark.replays()
        spark.kill()

    spark.start_only_the_process()
    spark.replays()

    assert spark.given_up() == {1}
    assert visible(service) == 8


def test_a_process_with_longer_leases_in_between_is_known_to_the_next() -> None:
    """It renews, and is killed before it writes a segment: a mark says how long it leases."""
    service, spark = a_query(8)
    spark.trigger(dies="after_sink")
    spark.next_start_with(visibilityTimeout="3000")
    spark.start_only_the_process()
    spark.replays()
    service.pass_time(VISIBILITY_S / 2 + 1)
    spark.renew()
    spark.kill()
    spark.next_start_with(visibilityTimeout=str(VISIBILITY_S))
    spark.available_now = True

    drain(spark)

    assert service.views() == []
    assert bodies(spark) == each_once(8)


@pytest.mark.parametrize("count", [24, 32], ids=["nothing to write ahead", "one batch ahead"])
def test_leases_that_auto_makes_longer_are_no_longer_than_the_log_says(count: int) -> None:
    service, spark = a_query(count, visibilityTimeout="auto")

    def minutes(count: int) -> Callable[[], None]:
        def work() -> None:
            for _ in range(count * 6):
                service.pass_time(10)
                spark.renew()

        return work

    spark.trigger()
    spark.trigger(meanwhile=minutes(15))  # batch 3 is written ahead meanwhile
    spark.trigger(dies="after_sink", meanwhile=minutes(3))
    spark.available_now = True

    drain(spark)

    assert service.views() == []
    assert bodies(spark) == each_once(count)


def test_a_mark_of_an_orderly_end_counts_for_the_very_next_process_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    service, spark = a_query(8)
    spark.trigger(dies="after_sink", meanwhile=renewed(spark))
    drain(spark)
    spark.stop()
    service.pass_time(2 * VISIBILITY_S)
    make = spark.make_workers

    def make_workers(count: int, name: str) -> Submits:
        return NeverRuns() if name == "leases" else make(count, name)

    with (
        monkeypatch.context() as patch
    ):  # it dequeues what is owed, and is killed before it deletes
        patch.setattr(spark, "make_workers", make_workers)
        patch.setattr("spark_azqueue.source.driver.engine._DELETES_AT_MOST_S", 0.0)
        spark.start_only_the_process()
        assert spark.consumer
        spark.calls.latest(spark.checkpoint.offsets[-1], 8)
        spark.kill()
    assert visible(service) == 0
    spark.available_now = True

    drain(spark)

    assert service.views() == []
    assert bodies(spark) == each_once(8)
