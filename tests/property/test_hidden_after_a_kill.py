"""With the default options, what a killed process had leased is there again soon, at no cost."""

from __future__ import annotations

from typing import Any

import pytest
from world.logged import LoggedSpark
from world.service import SOURCE, Service
from world.spark import Spark

from .test_log_scenarios import send

pytestmark = pytest.mark.usefixtures("simulated_time")

AUTO = {"visibilityTimeout": "auto"}
SOON_S = 75
DIES = ["before_log", "after_log", "after_sink", "batch"]


def a_query(messages: int, *, log: bool = False, **options: str) -> tuple[Service, Any]:
    service = Service()
    service.account.create(SOURCE)
    send(service, *(f"m{number}" for number in range(messages)))
    make: Any = LoggedSpark if log else Spark
    return service, make(service, {**AUTO, **options})


def takes(service: Service, spark: Spark, seconds: int) -> Any:
    """A batch of so many seconds, with the thread that renews beside it."""

    def work() -> None:
        for _ in range(seconds):
            service.pass_time(1)
            spark.renew()

    return work


@pytest.mark.parametrize("dies", DIES)
@pytest.mark.parametrize("batches", [0, 1, 5])
@pytest.mark.parametrize("took", [1, 10])
def test_every_message_is_readable_soon_after_the_next_start(
    took: int, batches: int, dies: str
) -> None:
    service, spark = a_query(200)
    for _ in range(batches):
        spark.trigger(meanwhile=takes(service, spark, took))
    spark.trigger(dies=dies)
    spark.kill()

    service.pass_time(1)
    spark.start()
    spark.stop()
    service.pass_time(SOON_S)

    assert all(view.visible for view in service.views())
    assert len(service.views()) >= 200 - 8 * (batches + 1)


def test_batches_that_end_in_time_cost_no_renewal() -> None:
    """Each message waits while the batch before runs, and is held for two batches in all."""
    service, spark = a_query(400)
    while spark.trigger(meanwhile=takes(service, spark, 12)):
        pass

    assert service.updates == 0
    assert len(spark.committed_texts) == 400


def test_a_first_batch_that_takes_ten_minutes_is_renewed_seldom() -> None:
    service, spark = a_query(8)

    spark.trigger(meanwhile=takes(service, spark, 600))

    assert service.updates == 8 * 5
    assert not spark.trigger()
    assert service.views() == []


def test_what_waits_for_a_batch_is_renewed_for_a_short_time_only() -> None:
    service, spark = a_query(16)
    spark.trigger(meanwhile=takes(service, spark, 600))
    spark.kill()

    now = service.clock.now()
    waiting = [view for view in service.views() if not view.visible]

    assert waiting
    assert max(view.next_visible - now for view in waiting[-8:]) <= 60


@pytest.mark.parametrize(("deletes", "ahead"), [("true", 8), ("false", 0)])
def test_long_leases_that_the_user_relies_on_are_not_taken_ahead(deletes: str, ahead: int) -> None:
    service, spark = a_query(40, visibilityTimeout="30 minutes", deleteOnCommit=deletes)

    spark.trigger(dies="after_sink")

    assert sum(not view.visible for view in service.views()) == 8 + ahead


@pytest.mark.parametrize("dies", DIES)
def test_with_a_log_it_is_in_a_batch_or_readable_soon(dies: str) -> None:
    service, spark = a_query(200, log=True)
    for _ in range(3):
        spark.trigger(meanwhile=takes(service, spark, 1))
    spark.trigger(dies=dies)
    spark.kill()
    in_the_log = {text for _, text in spark.logged_rows()}

    service.pass_time(SOON_S)

    assert all(view.visible for view in service.views() if view.text not in in_the_log)
