"""An availableNow run reads everything that was there when it began, and ends.

The real Consumer over model queues that others keep sending to: before every dequeue newer
messages arrive. The look's limits are made small, so that a run meets them.
"""

from __future__ import annotations

from collections import Counter

import pytest
from budget import EXAMPLES
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from world.service import Service
from world.spark import Spark

from spark_azqueue.source.intake import polling as cutoff

ENOUGH = 12


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, simulated_time: None) -> None:
    monkeypatch.setattr(cutoff, "ENOUGH_NEWER", ENOUGH)
    monkeypatch.setattr(cutoff, "NEWER_AT_MOST", 10 * ENOUGH)


def a_run(old: list[int], **options: str) -> tuple[Service, Spark, set[str]]:
    """A query over len(old) queues with so many messages each; returns their texts, too."""
    service = Service()
    names = [f"queue-{n}" for n in range(len(old))]
    texts = set()
    for name, count in zip(names, old, strict=True):
        service.account.create(name)
        for n in range(count):
            texts.add(service.account.queue(name).put(f"{name} {n}", now=service.clock.now()).text)
    service.clock.advance(2)
    spark = Spark(service, {"queue": ",".join(names), **options}, available_now=True)
    return service, spark, texts


def run(spark: Spark, service: Service, *, newer: int, batches: int = 1_000) -> None:
    """The whole run, while so many newer messages come before each dequeue."""
    spark.start()
    service.clock.advance(2)

    def send(name: str) -> None:
        for _ in range(newer):
            service.account.queue(name).put("newer", now=service.clock.now())

    service.before_dequeue = send
    for _ in range(batches):
        if not spark.trigger():
            return
    pytest.fail("the run does not end")


@given(
    old=st.lists(st.integers(0, 30), min_size=1, max_size=12),
    parallelism=st.integers(1, 9),
    newer=st.integers(0, 4),
    most=st.integers(1, 20),
)
@settings(
    max_examples=EXAMPLES,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_a_run_reads_all_that_was_there_in_every_queue(
    old: list[int], parallelism: int, newer: int, most: int
) -> None:
    service, spark, texts = a_run(
        old, parallelism=str(parallelism), maxMessagesPerTrigger=str(most)
    )

    run(spark, service, newer=newer)

    assert spark.committed_texts == Counter(dict.fromkeys(texts, 1))


def test_newer_messages_in_many_queues_do_not_hide_the_old_ones_of_the_last() -> None:
    """More queues than requests at once, and eight of them never short of newer messages."""
    service, spark, texts = a_run([0] * 8 + [50], parallelism="8")

    run(spark, service, newer=3)

    assert set(spark.committed_texts) == texts


@pytest.mark.parametrize("visibility_s", [1, 2])
def test_without_deleting_a_look_does_not_collect_the_same_messages_over_and_over(
    visibility_s: int,
) -> None:
    """Leases that are shorter than a look: what the run gave out is visible again and again."""
    service, spark, texts = a_run([40], deleteOnCommit="false", visibilityTimeout=str(visibility_s))
    spark.start()
    service.before_dequeue = lambda name: service.clock.advance(1)
    batches = 0
    while spark.trigger():
        batches += 1
        assert batches <= 100, "the run does not end"

    assert set(spark.committed_texts) == texts
    assert max(spark.committed_texts.values()) == 1
    # Each look releases each message of the run once, however often it came meanwhile.
    assert service.releases <= (batches + 1) * len(texts)


def test_a_run_without_deleting_ends_when_it_can_remember_no_more(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(cutoff, "HANDED_OUT_AT_MOST", 16)
    service, spark, texts = a_run([40], deleteOnCommit="false", maxMessagesPerTrigger="8")

    run(spark, service, newer=0)

    assert len(spark.committed_texts) == 16
    assert len(service.views("queue-0")) == len(texts) == 40
    assert "start it again for the rest" in caplog.text


def test_what_is_deleted_is_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cutoff, "HANDED_OUT_AT_MOST", 16)
    service, spark, texts = a_run([40], maxMessagesPerTrigger="8")

    run(spark, service, newer=0)

    assert set(spark.committed_texts) == texts
