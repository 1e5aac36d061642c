"""leaseOn=executors with maxDequeueCount: a batch that fails every time, and what comes instead."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from executors_query import WITH_BLOBS, Query, fill
from executors_scene import Scene
from executors_setting import TRIES

from spark_azqueue.errors import LostSegment
from spark_azqueue.options.choices import OnUndecodable
from spark_azqueue.service.blobs.references import Reference
from spark_azqueue.source.executors import closing, names
from spark_azqueue.source.executors.consumer import ExecutorsConsumer
from spark_azqueue.source.executors.folder import PlanFolder
from spark_azqueue.source.suspects import REPEATS
from spark_azqueue.testing import FakeQueueService


@pytest.fixture
def query(fake: FakeQueueService) -> Iterator[Query]:
    made = Query(fake, maxDequeueCount="2")
    for queue in ("orders-poison", "returns-poison"):
        fake.create_queue(queue)
    yield made
    made.close()


class Run:
    """What Spark does with a query, one process after another, until its sink has failed."""

    def __init__(self, query: Query, sick: str, removals: Any = None) -> None:
        self.query = query
        self.sick = sick
        self.removals = removals
        self.offsets: list[dict[str, Any]] = []
        self.batches: list[list[str]] = []
        self.driver: ExecutorsConsumer

    @property
    def before(self) -> dict[str, Any]:
        """The committed offset."""
        return self.offsets[len(self.batches) - 1] if self.batches else self.driver.initial

    def start(self, most: int | None = None) -> bool:
        """One process: until it fails (False), or has nothing more to do."""
        self.driver = self.query.driver(removals=self.removals)
        while True:
            if len(self.offsets) == len(self.batches):
                offset = self.driver.latest(self.before, most)
                if offset == self.before:
                    return True
                self.offsets.append(offset)
            rows = self.rows()
            if self.sick in rows:
                return False
            self.batches.append(rows)

    def rows(self) -> list[str]:
        """What the tasks of the batch that runs give."""
        offset = self.offsets[-1]
        has_tasks = self.driver.plan(self.before, offset)
        return self.query.rows(self.query.plan(offset)) if has_tasks else []

    def until_done(self, most: int | None = None) -> int:
        """Start it again and again. Returns how often it failed."""
        for failures in range(100):
            if self.start(most):
                return failures
        raise AssertionError("it does not end")


def test_poison_is_found_and_every_other_message_comes_once(
    query: Query, fake: FakeQueueService, caplog: pytest.LogCaptureFixture
) -> None:
    sent = fill(query, 100)
    run = Run(query, sick="m37")
    failures = run.until_done()
    assert sorted(row for rows in run.batches for row in rows) == sorted({*sent} - {"m37"})
    (envelope,) = [each.text for each in fake.messages("returns-poison")]
    assert '"body":"m37"' in envelope
    assert '"reason":"9 batches with it failed in a row, the last 4 with it alone' in envelope
    assert fake.count("orders-poison") == query.left() == 0
    assert failures == REPEATS + 1 + 4, "of all 100, of 7, and of it alone"
    assert f"failed {REPEATS} times and is abandoned: it has no rows, and its 100" in caplog.text
    assert run.batches[0] == [], "what the given up batch had comes under other numbers"


def test_the_counters_count_rows_once(query: Query) -> None:
    fill(query, 20)
    run = Run(query, sick="m3")
    while not (is_done := run.start()):
        before = len(run.batches)
    assert is_done
    counters = run.driver.report().counters
    assert counters.poison_moved == 1
    assert counters.delivered == sum(map(len, run.batches[before:]))
    assert (counters.dequeued, counters.deletes_refused) == (0, 0), "an earlier process did that"


def test_what_waits_does_not_wait_for_more_messages(fake: FakeQueueService) -> None:
    query = Query(fake, maxDequeueCount="1", minMessagesPerTrigger="40", maxTriggerDelay="1 hour")
    sent = fill(query, 40)
    fake.create_queue("orders-poison")
    run = Run(query, sick="m0")
    run.until_done()
    assert sorted(row for rows in run.batches for row in rows) == sorted({*sent} - {"m0"})
    query.close()


def test_without_the_option_a_batch_is_repeated_for_ever(fake: FakeQueueService) -> None:
    query = Query(fake, maxDequeueCount="none")
    fill(query, 4)
    run = Run(query, sick="m0")
    assert not any(run.start() for _ in range(10))
    assert not any(
        found.kind == "t"
        for found in map(names.as_slot_name, query.store.objects)
        if found is not None
    )
    query.close()


def test_a_batch_that_was_committed_once_is_never_given_up(query: Query) -> None:
    sent = fill(query, 4)
    driver = query.driver()
    offset = driver.latest(driver.initial, None)
    plan = query.plan(offset)
    assert query.rows(plan) == sent
    assert driver.latest(offset, None) == offset
    driver.close()
    for _ in range(5):  # the commit is taken away
        driver = query.driver()
        assert driver.plan(driver.initial, offset)
        assert query.rows(plan) == sent


def test_a_batch_that_is_being_removed_is_not_given_up(query: Query) -> None:
    fill(query, 4)
    run = Run(query, sick="m0")
    assert not run.start()
    plan = query.plan(run.offsets[-1])
    folder = PlanFolder(query.store.another(), query.config.account.name)
    folder.open()
    for number in range(5):
        folder.note_attempt(plan.id, f"{number:032x}")
    folder.raise_floor(plan.number)
    before = {name for name in query.store.objects if name.startswith(names.SLOTS)}
    driver = query.driver()
    assert driver.plan(driver.initial, run.offsets[-1]), "its tasks say what is lost"
    assert before == {name for name in query.store.objects if name.startswith(names.SLOTS)}


class Removed:
    """In place of `Removals`: which blobs are deleted."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def begin(self, name: str) -> None:
        self.names.append(name)

    def wait(self, timeout_s: float) -> None:
        pass

    def close(self) -> None:
        pass


def test_large_bodies_go_with_the_batch_that_gave_them_and_those_of_poison_stay(
    fake: FakeQueueService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(closing, "CLEAN_EVERY", 1)
    query = Query(
        fake,
        maxDequeueCount="2",
        poisonFormat="copy",
        writeAheadLogRetention="10",
        **WITH_BLOBS,
    )
    fake.create_queue("orders-poison")
    blobs = [f"{number:032x}" for number in range(5)]
    texts = [Reference("bodies", name, 70_000).text for name in blobs]
    for text in texts:
        fake.put("orders", text)
    removed = Removed()
    gone: list[list[str]] = []
    remove = PlanFolder.remove

    def noted(self: PlanFolder, objects: Iterable[str]) -> set[str]:
        gone.append([*objects])
        return remove(self, gone[-1])

    monkeypatch.setattr(PlanFolder, "remove", noted)
    run = Run(query, sick=texts[2], removals=removed)
    assert run.until_done() == REPEATS + 4
    while len(run.batches) < 18:
        fill(query, 2)
        run.start()
    run.driver.close()
    assert [each.text for each in fake.messages("orders-poison")] == texts[2:3]
    assert sorted(removed.names) == [name for name in blobs if name != blobs[2]]
    tried = [each for each in gone if any(map(names.is_attempt, each))]
    assert tried
    for each in tried:
        marks = [names.is_attempt(name) for name in each]
        assert marks == sorted(marks), "who finds a part of it still asks for the verdict"
    query.close()


class Down(Run):
    """Its sink is down, whatever the rows are."""

    def start(self, most: int | None = None) -> bool:
        self.driver = self.query.driver()
        if not self.offsets:
            self.offsets.append(self.driver.latest(self.before, most))
        self.rows()
        return False


@pytest.mark.parametrize("texts", [["?"], ["?", "YWI="]], ids=["alone", "with another"])
def test_what_is_dead_lettered_already_is_not_copied_again(
    fake: FakeQueueService, texts: list[str]
) -> None:
    asked = {"messageEncoding": "base64", "executorSlots": "1", "poisonFormat": "copy"}
    query = Query(fake, maxDequeueCount="1", **asked)
    fake.create_queue("orders-poison")
    fake.put_many("orders", texts)
    run = Down(query, sick="")
    query.config = replace(query.config, on_undecodable=OnUndecodable.POISON)

    for _ in range(10):
        run.start()
    query.close()

    copies = [each.text for each in fake.messages("orders-poison")]
    assert copies.count("?") == 1
    assert len(copies) <= len(texts)


def test_what_is_to_come_again_and_is_gone_is_told_or_left_out(query: Query) -> None:
    fill(query, 20)
    run = Run(query, sick="m0")
    for _ in range(REPEATS):
        assert not run.start()
    run.sick = ""
    driver = run.driver = query.driver()
    assert run.rows() == []
    run.batches.append([])
    plan = query.plan(driver.latest(run.before, None))
    given_up = query.plan(run.offsets[-1])
    for slot in range(len(given_up.slots)):
        query.store.delete(names.slot(given_up.id, slot))
    with pytest.raises(LostSegment, match="its messages come again in batch 2: restore it"):
        query.rows(plan)
    again = driver.latest(plan.to_json(), None)
    assert query.plan(again).slots[0].again == plan.slots[0].again, "nobody has read it"

    assert query.config.write_ahead_log
    lose = replace(query.config.write_ahead_log, fail_on_data_loss=False)
    query.config = replace(query.config, write_ahead_log=lose)
    assert query.rows(query.plan(again)) == []
    assert query.plan(driver.latest(again, None)).slots[0].again != plan.slots[0].again


def test_a_driver_that_is_killed_after_its_verdict_copies_nothing_again(scene: Scene) -> None:
    scene.sick(healthy=0)
    scene.fails()
    scene.fails()
    scene.gives_up()
    scene.restart()
    scene.idle()
    assert len(scene.world.poison_texts()) == 1


def test_good_messages_are_no_poison(scene: Scene) -> None:
    world, at = scene.world, scene.world.checkpoints[0]
    scene.sick(healthy=3)
    messages = list(world.texts)
    scene.until(lambda: scene.driver.actor.at == "idle" and not world.in_queues())
    (sick,) = world.sick
    assert sorted(at.rows()) == sorted({*messages} - {sick} - world.bad)
    assert world.texts[sick] in world.poison_texts()
    assert world.happened["sick"] <= TRIES + 1 + 4, "of 4, 2 and 1 messages"
