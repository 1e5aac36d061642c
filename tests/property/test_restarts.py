"""How many starts it takes to find poison messages."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from world.service import POISON, SOURCE, Service
from world.spark import Spark

from spark_azqueue.running.supervisor import RunResult, run_until_done

pytestmark = pytest.mark.usefixtures("simulated_time")


class Query:
    """One run of the simulation, to its end or to the batch that fails."""

    def __init__(self, spark: Spark, poison: set[str]) -> None:
        self._spark, self._poison = spark, poison
        self.recentProgress: list[dict[str, Any]] = []
        spark.start()

    def awaitTermination(self, timeout: float) -> bool:
        spark = self._spark
        before = spark.committed_texts.total()
        while spark.trigger(fails_on=self._poison.__contains__):
            self.recentProgress = [{"numInputRows": spark.committed_texts.total() - before}]
            if spark.consumer is None:
                raise RuntimeError("a batch failed")
        spark.stop()
        return True


def supervise(spark: Spark, poison: set[str], **limits: int) -> RunResult:
    return run_until_done(lambda: Query(spark, poison), sleep=lambda _: None, **limits)


def a_query(texts: int, maximum: int, most: int) -> tuple[Service, Spark]:
    service = Service()
    for name in (SOURCE, POISON):
        service.account.create(name)
    for number in range(texts):
        service.account.queue(SOURCE).put(f"m{number}", now=service.clock.now())
    options = {"maxDequeueCount": str(maximum), "maxMessagesPerTrigger": str(most)}
    return service, Spark(service, options, available_now=True)


@pytest.mark.parametrize("maximum", [1, 2, 5])
@pytest.mark.parametrize("poison", [{"m7"}, {"m1", "m2", "m40"}, {f"m{i}" for i in range(20, 30)}])
@pytest.mark.parametrize("most", [8, 64])
def test_a_bounded_number_of_restarts_finds_all_poison(
    maximum: int, poison: set[str], most: int
) -> None:
    service, spark = a_query(64, maximum, most)
    failures = 20 + (maximum + 12) * len(poison)

    assert supervise(spark, poison, restarts=failures, restarts_in_all=failures).finished
    assert {view.text for view in service.views(POISON)} == poison
    assert service.views() == []
    assert spark.committed_texts == Counter({f"m{i}" for i in range(64)} - poison)


def test_poison_in_many_batches_takes_few_restarts_without_progress() -> None:
    poison = {f"m{number}" for number in range(3, 300, 10)}
    service, spark = a_query(300, 2, 10)

    result = supervise(spark, poison, restarts=5)

    assert result.finished
    assert result.restarts > 20
    assert {view.text for view in service.views(POISON)} == poison


@pytest.mark.parametrize("maximum", [1, 2, 5])
def test_a_queue_of_nothing_but_one_poison_message_does_not_stand_for_ever(maximum: int) -> None:
    service, spark = a_query(1, maximum, 8)

    result = supervise(spark, {"m0"}, restarts=20)

    assert result.finished
    assert result.restarts == 2 * maximum + 3
    assert [view.text for view in service.views(POISON)] == ["m0"]


@pytest.mark.parametrize("messages", [2, 8, 64])
def test_if_every_message_fails_it_gives_up_and_at_most_one_is_moved(messages: int) -> None:
    """It is the sink, and not the messages."""
    service, spark = a_query(messages, 2, 64)

    assert not supervise(spark, {f"m{number}" for number in range(messages)}, restarts=60).finished
    assert len(service.views(POISON)) <= 1
    assert len(service.views()) >= messages - 1
