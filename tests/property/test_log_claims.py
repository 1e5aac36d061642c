"""Somebody removes the claims of a log, more than once: no number of a claim comes a second time.

The first three are sequences that a simulation found. They are steps of its machine, and after each
its promises are checked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from log_stores import MemoryLogStore
from world.fates import ARRIVES, Fate
from world.logged import LoggedSpark
from world.service import SOURCE, Service

from spark_azqueue.errors import LogConflict, LogDamaged, ServiceError
from spark_azqueue.journal.identity import Identity
from spark_azqueue.journal.pending import PendingDelete
from spark_azqueue.options.choices import DeleteAfter
from spark_azqueue.source.log.log import WriteAheadLog
from spark_azqueue.source.log.progress import LogProgress, PendingLists

from .test_log_poison import PoisonedWithSurprises

pytestmark = pytest.mark.usefixtures("simulated_time")


class Chosen:
    """What a rule draws: always this."""

    def __init__(self, value: object) -> None:
        self._value = value

    def draw(self, _: object) -> Any:
        return self._value


class Scene(PoisonedWithSurprises):
    """The machine of poison with a log; each step is followed by its invariants."""

    def step(self, does: Callable[[], object]) -> None:
        does()
        self.nothing_is_lost()
        self.once_in_one_run()
        self.what_is_reported_adds_up()

    def sends_and_triggers(self, sent: int) -> None:
        self.step(lambda: self.spark_triggers("", False, sent, Chosen(None)))  # type: ignore[arg-type]

    def claims(self) -> list[str]:
        return sorted(name for name in self.spark.store.objects if name.startswith("claims/"))

    def the_claim_is_removed(self) -> None:
        claim = self.claims()[-1]
        self.step(lambda: self.spark.loses(claim))


def ends_well(scene: Scene) -> None:
    scene.step(lambda: scene.service.meet("delete", Fate.LOST_AFTER))
    scene.sends_and_triggers(0)


@pytest.mark.parametrize("fault", [(2, Fate.LOST_BEFORE), (1, Fate.LOST_AFTER)])
def test_claims_removed_twice_and_a_put_without_an_answer(fault: tuple[int, Fate]) -> None:
    after, put = fault
    scene = Scene()
    scene.sends_and_triggers(3)
    scene.the_claim_is_removed()
    scene.step(lambda: scene.options_change("3", "2", "true", DeleteAfter.COMMIT))
    scene.step(lambda: scene.service.meet("dequeue", ARRIVES, times=3))
    scene.step(lambda: scene.spark.store.next_puts(*[None] * after, put))
    scene.sends_and_triggers(1)
    scene.the_claim_is_removed()
    ends_well(scene)
    scene.sends_and_triggers(9)
    scene.teardown()


# ── what the rule is made of ──────────────────────────────────────────────────────────────────────

ACCOUNT = "memory"


def opened(store: MemoryLogStore) -> WriteAheadLog:
    log = WriteAheadLog(store, ACCOUNT, 10)
    log.open()
    log.survey()
    return log


def claimed(store: MemoryLogStore) -> WriteAheadLog:
    log = opened(store)
    log.claim(0)
    return log


def remove(store: MemoryLogStore, folder: str) -> None:
    for name in [name for name in store.objects if name.startswith(f"{folder}/")]:
        store.remove(name)


def test_numbers_follow_each_other_as_long_as_nobody_removes_any() -> None:
    store = MemoryLogStore()
    assert [claimed(store).claim_number for _ in range(3)] == [1, 2, 3]


def pending_of(count: int) -> tuple[PendingDelete, ...]:
    return PendingDelete.all_from_json(
        [[SOURCE, f"{n:08}-0000-0000-0000-000000000000", f"{n:016x}", 0] for n in range(count)],
        ACCOUNT,
    )


@pytest.mark.parametrize("left", ["nothing", "a list", "a mark"])
def test_the_number_of_a_removed_claim_is_not_given_to_another_process(left: str) -> None:
    """Also if its process has left nothing that says so: it may still write under that number."""
    store = MemoryLogStore()
    first = claimed(store)
    if left == "a list":
        lists = PendingLists(first, lose=False)
        lists.shortened(LogProgress(claim=first.claim_number, sequence=1, pending=pending_of(3)))
    elif left == "a mark":
        first.mark(LogProgress(committed=0, done=0, hidden=1))
    remove(store, "claims")

    second = claimed(store)

    assert second.claim_number > first.claim_number
    with pytest.raises(LogConflict, match="another process writes the write-ahead log"):
        first.mark(LogProgress(hidden=2))
    late = LogProgress(claim=first.claim_number, sequence=9, hidden=9).to_mark()
    store.put_new(f"marks/{first.claim_number:012d}-{9:012d}", late)  # sent before it knew
    second.mark(LogProgress(hidden=3))
    assert claimed(store).state.progress.hidden == 3


def test_nor_when_a_lower_claim_was_left() -> None:
    store = MemoryLogStore()
    claimed(store)
    before = dict(store.objects)
    second = claimed(store)
    second.mark(LogProgress(hidden=1))
    remove(store, "claims")
    store.objects |= {name: data for name, data in before.items() if name.startswith("claims/")}

    assert claimed(store).claim_number > second.claim_number


def test_a_process_whose_claim_is_removed_while_it_claims_stops() -> None:
    store = MemoryLogStore()
    log = opened(store)
    store.after_put(0, lambda: remove(store, "claims"))

    with pytest.raises(LogConflict, match="another process writes the write-ahead log"):
        log.claim(0)


def test_there_is_no_claim_above_the_highest_number() -> None:
    store = MemoryLogStore()
    opened(store)
    store.objects[f"claims/{10**12 - 1}-{'f' * 32}"] = b"{}"

    with pytest.raises(LogDamaged, match="no claim can have a higher number"):
        claimed(store)


def test_a_mark_of_another_process_is_not_taken_for_the_own_one() -> None:
    store = MemoryLogStore()
    log = claimed(store)
    store.objects[f"marks/{1:012d}-{1:012d}"] = LogProgress(claim=1, sequence=1, hidden=7).to_mark()

    with pytest.raises(LogConflict):
        log.mark(LogProgress(hidden=1))


def test_only_who_has_written_the_identity_has_a_new_log() -> None:
    store = MemoryLogStore()
    opened(store)
    assert Identity.new(ACCOUNT).is_new is False
    assert claimed(store).claim_number > 1  # the first one ended, or its claim was removed


# ── a write that fails ────────────────────────────────────────────────────────────────────────────


def a_query() -> tuple[Service, LoggedSpark]:
    service = Service()
    service.account.create(SOURCE)
    for number in range(3):
        service.account.queue(SOURCE).put(f"m{number}", now=service.clock.now())
    return service, LoggedSpark(service, {})


def ends_once_each(service: Service, spark: LoggedSpark, sent: int) -> None:
    spark.kill()
    for _ in range(4):
        service.pass_time(1_000)
        while spark.trigger():
            pass
    assert sorted(body for _, body in spark.sink.rows().elements()) == [
        f"m{number}" for number in range(sent)
    ]
    assert service.views() == []


@pytest.mark.parametrize("fault", Fate)
def test_a_process_that_goes_on_after_a_failed_write_deletes_nothing_of_it(fault: Fate) -> None:
    """Spark ends a run at its first error; the promise does not rest on that."""
    service, spark = a_query()
    spark.start()
    assert spark.consumer
    spark.store.before_put_in("seg", lambda: spark.store.next_puts(fault))
    with pytest.raises(ServiceError):
        spark.trigger()
    service.account.queue(SOURCE).put("m3", now=service.clock.now())

    for _ in range(3):
        try:
            spark.trigger()
        except (ServiceError, LogConflict):
            service.pass_time(1)

    spark.store.land()
    ends_once_each(service, spark, 4)


def test_nor_after_an_object_that_another_process_wrote() -> None:
    service, spark = a_query()
    spark.start()
    assert spark.consumer
    spark.store.before_put_in("seg", lambda: spark.store.objects.update(spoiled))
    spoiled = {"seg/000000000001": b"of another process"}

    with pytest.raises(LogConflict):
        spark.trigger()

    del spark.store.objects["seg/000000000001"]
    spark.trigger()
    ends_once_each(service, spark, 3)
