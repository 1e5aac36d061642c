"""`writeAheadLogRetention` as a time: batches of both kinds of logs stay for so long."""

from __future__ import annotations

import pytest
from doubles import AtOnce
from log_stores import MemoryLogStore
from refs import ACCOUNT, ORDERS
from segments import a_message

from spark_azqueue.options.parse import source_config
from spark_azqueue.service.names import EXECUTORS
from spark_azqueue.source.executors import closing
from spark_azqueue.source.executors.closing import CLEAN_EVERY, Cleaning
from spark_azqueue.source.executors.folder import PlanFolder, tombstone
from spark_azqueue.source.executors.names import PlanId
from spark_azqueue.source.executors.objects import SeenMessages
from spark_azqueue.source.executors.plan import Plan, Slot
from spark_azqueue.source.executors.recovery import PlanRecovery
from spark_azqueue.source.log import names
from spark_azqueue.source.log.log import Contents, WriteAheadLog
from spark_azqueue.source.log.progress import LogProgress

A_DAY = 86_400.0
RETENTION = 10
CONFIG = source_config(
    {
        "secret.connectionString": f"AccountName={ACCOUNT};AccountKey=a2V5",
        "queue": "orders",
        "writeAheadLog": "file:/not/used",
        "leaseOn": "executors",
        "deleteAfter": "log",
    },
    {},
)


class Clock:
    now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


class Segmented:
    """A log of the driver's mode."""

    def __init__(self, clock: Clock, store: MemoryLogStore | None = None) -> None:
        self.clock = clock
        self.store = store or MemoryLogStore()
        self.log = WriteAheadLog(self.store.another(), ACCOUNT, RETENTION, keep_s=A_DAY, now=clock)
        self.log.open()
        self.log.claim(0)

    def write(self, count: int, done: int | None = None) -> None:
        for _ in range(count):
            number = self.log.state.head + 1
            contents = Contents([a_message(number)], (1,), None, (ORDERS,), {})
            until = number - 1 if done is None else done
            self.log.put(contents, LogProgress(committed=number - 1, done=until))
            self.store.times[names.segment(number)] = self.clock.now

    @property
    def kept(self) -> list[int]:
        return sorted(int(name[4:]) for name in self.store.objects if name.startswith("seg/"))


def test_segments_stay_for_so_long_and_the_newest_longer(clock: Clock) -> None:
    made = Segmented(clock)
    made.write(30)
    assert made.kept == [*range(1, 31)], "young"
    clock.now += A_DAY / 2
    made.write(30)
    clock.now += A_DAY / 2
    made.write(1)
    assert made.kept == [*range(31, 62)]
    clock.now += 10 * A_DAY
    made.write(1)
    assert made.kept == [*range(52, 63)], "ten behind the newest committed one"


def test_what_is_needed_stays_however_old_it_is(clock: Clock) -> None:
    made = Segmented(clock)
    made.write(40, done=4)
    clock.now += 10 * A_DAY
    made.write(1, done=4)
    assert made.kept == [*range(5, 42)], "deletes of batch 5 may not have ended"


def test_after_a_restart_the_times_are_those_of_the_folder(clock: Clock) -> None:
    first = Segmented(clock)
    first.write(20)
    clock.now += A_DAY / 2
    first.write(20)
    clock.now += A_DAY / 2
    second = Segmented(clock, first.store)
    second.write(1)
    assert second.kept == [*range(21, 42)]


def test_what_became_old_goes_over_several_batches(clock: Clock) -> None:
    made = Segmented(clock)
    made.write(300)
    clock.now += 2 * A_DAY
    for left in (300 - 63, 300 - 2 * 63):
        made.write(1)
        assert len(made.kept) == left


class Planned:
    """A folder of leaseOn=executors."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.store = MemoryLogStore(kind=EXECUTORS)
        self.folder = PlanFolder(self.store, ACCOUNT)
        self.folder.open()
        self.newest = Plan.start(ACCOUNT, self.folder.uuid)

    def cleaning(self) -> Cleaning:
        assert CONFIG.write_ahead_log
        takeover = PlanRecovery(self.folder, CONFIG.write_ahead_log, CONFIG.selection)
        takeover.take(self.newest)
        made = Cleaning(
            CONFIG, self.folder, RETENTION, AtOnce(1, "clean"), None, keep_s=A_DAY, now=self.clock
        )
        made.found(takeover.objects, takeover.floor, takeover.times)
        return made

    def run(self, cleaning: Cleaning, count: int) -> None:
        for _ in range(count):
            number = self.newest.number + 1
            slots = (Slot((ORDERS,), 1, 1),)
            plan = Plan(ACCOUNT, self.folder.uuid, PlanId(number, f"{number:032x}"), slots)
            self.folder.put_following(self.newest.id, plan)
            self.newest = plan
            self.folder.put_segment(tombstone(plan, 0, "0" * 32))
            for name in self.store.objects:
                self.store.times.setdefault(name, self.clock.now)
            cleaning.ended(plan, [100])
            cleaning.clean(number, SeenMessages())

    @property
    def oldest(self) -> int:
        return min(plan.number for plan, all_ in self.folder.objects().items() if len(all_) > 1)


def test_plans_stay_for_so_long_and_the_newest_longer(clock: Clock) -> None:
    made = Planned(clock)
    cleaning = made.cleaning()
    made.run(cleaning, 30)
    assert made.folder.floor() == 0
    clock.now += A_DAY / 2
    made.run(cleaning, 30)
    clock.now += A_DAY / 2
    again = made.cleaning()
    made.run(again, 1)
    assert made.folder.floor() == 29, "what closed plan 30 was put when plan 31 was"
    clock.now += 10 * A_DAY
    made.run(again, 1)
    assert made.folder.floor() == 52
    made.run(again, 2 * CLEAN_EVERY)
    assert made.folder.floor() == 60, "the newer ones are young"


def test_a_folder_has_a_limit_however_young_its_plans_are(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(closing, "KEPT_AT_MOST", 60)
    made = Planned(clock)
    made.run(made.cleaning(), 60)
    assert made.folder.floor() > 0
