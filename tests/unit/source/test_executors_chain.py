"""leaseOn=executors: which plan a query gets follows from the chain of plans alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from executors_query import Offset, Query, fill, first_plan

from spark_azqueue.errors import CheckpointMismatch, LogDamaged, LostSegment
from spark_azqueue.options.choices import LogStart
from spark_azqueue.options.parse import source_config
from spark_azqueue.source.executors import names
from spark_azqueue.source.executors.consumer import ExecutorsConsumer
from spark_azqueue.source.executors.folder import PlanFolder
from spark_azqueue.source.executors.objects import SeenMessages
from spark_azqueue.source.executors.plan import Plan


def folder_of(query: Query) -> PlanFolder:
    folder = PlanFolder(query.store, query.config.account.name)
    folder.identify()
    return folder


def starts_with(query: Query, choice: LogStart) -> None:
    assert query.config.write_ahead_log
    log = replace(query.config.write_ahead_log, start=choice)
    query.config = replace(query.config, write_ahead_log=log)


def batches(query: Query, count: int) -> tuple[ExecutorsConsumer, list[Plan], list[list[str]]]:
    """So many batches of one driver, read; with what stands before the first."""
    driver = query.driver()
    plans, rows = [Plan.start(query.config.account.name)], [[]]
    for number in range(count):
        fill(query, 4, f"b{number}m")
        plans.append(query.plan(driver.latest(offset(driver, plans[-1]), None)))
        rows.append(query.rows(plans[-1]))
    return driver, plans, rows


def offset(driver: ExecutorsConsumer, plan: Plan) -> Offset:
    return plan.to_json() if plan.number else driver.initial


def numbers_told(parts: list[bytes], plans: list[Plan]) -> list[int]:
    """Of which plans these are the slots, in order."""
    return [plan.number for part in parts for plan in plans if plan.id.nonce.encode() in part]


# ── a new checkpoint over a used folder ───────────────────────────────────────────────────────────


def test_a_plan_that_was_followed_is_committed_also_if_the_one_behind_it_has_no_object(
    query: Query,
) -> None:
    """An orderly stop while the next batch was planned, and had no task yet."""
    driver, plans, _ = batches(query, 2)
    more = fill(query, 2, "n")
    newest = query.plan(driver.latest(plans[2].to_json(), None))
    driver.close()
    starts_with(query, LogStart.AFTER_COMMITTED)

    again = query.driver()
    first = query.plan(again.latest(again.initial, None))

    assert first == newest, "and not the one before it, which is committed"
    assert query.rows(first) == more


@pytest.mark.parametrize("nonce", ["0" * 31 + "1", "f" * 32])
def test_an_object_that_is_not_in_the_chain_hides_no_mark(query: Query, nonce: str) -> None:
    """A driver that came second writes what is known, and then its plan does not follow."""
    driver, plans, _ = batches(query, 2)
    assert driver.latest(plans[2].to_json(), None) == plans[2].to_json()
    driver.close()
    folder_of(query).put_known(names.PlanId(3, nonce), SeenMessages())
    more = fill(query, 2, "n")
    starts_with(query, LogStart.AFTER_COMMITTED)

    again = query.driver()
    first = query.plan(again.latest(again.initial, None))

    assert (first.number, query.rows(first)) == (3, more)


def test_without_the_option_the_newest_batch_of_the_chain_is_named(query: Query) -> None:
    batches(query, 2)
    folder_of(query).put_known(names.PlanId(9, "f" * 32), SeenMessages())

    with pytest.raises(CheckpointMismatch, match="has delivered batches up to 2, but"):
        first_plan(query)


@pytest.mark.parametrize("choice", [LogStart.EARLIEST, LogStart.AFTER_COMMITTED])
def test_a_used_folder_that_lost_its_plans_says_so(query: Query, choice: LogStart) -> None:
    folder = folder_of(query)
    folder.open()
    folder.raise_floor(3)
    starts_with(query, choice)

    with pytest.raises(LostSegment, match="does not say what followed batch 3"):
        first_plan(query)


# ── another query's folder ────────────────────────────────────────────────────────────────────────


def reads(query: Query, queues: str) -> None:
    given = {
        "secret.connectionString": query.fake.connection_string,
        "queue": queues,
        "leaseOn": "executors",
        "writeAheadLog": "file:/not/used",
        "deleteAfter": "log",
    }
    query.config = source_config(given, {})


OTHERS = r"was written from the queues \['returns'\], and option 'queue' names none of them"


@pytest.mark.parametrize("asks_for", ["an offset", "rows"])
def test_a_query_that_was_fenced_by_one_of_other_queues_does_not_get_its_rows(
    query: Query, asks_for: str
) -> None:
    reads(query, "orders")
    _, plans, _ = batches(query, 1)
    reads(query, "returns")
    starts_with(query, LogStart.AFTER_COMMITTED)
    second = query.driver()
    with pytest.raises(CheckpointMismatch, match="and option 'queue' names none of them"):
        second.latest(second.initial, None)
    # So today; one of an earlier release has gone on in that folder.
    reads(query, "orders,returns")
    third = query.driver()
    query.fake.put_many("returns", ["not yours"])
    others = query.plan(third.latest(plans[1].to_json(), None))
    only = tuple(s for s in others.slots if s.queues[0].name == "returns")
    folder = folder_of(query)
    query.store.objects[names.following(plans[1].id)] = replace(others, slots=only).to_bytes()
    reads(query, "orders")
    before = dict(query.store.objects)

    fenced = query.driver()
    start, end = plans[1].to_json(), replace(others, slots=only).to_json()
    asks = {
        "rows": lambda: fenced.plan(start, end),
        "an offset": lambda: fenced.latest(start, None),
    }
    with pytest.raises(CheckpointMismatch, match=OTHERS):
        asks[asks_for]()

    assert query.store.objects == before
    assert folder.following(plans[1].id)


# ── which batch Spark asks for ────────────────────────────────────────────────────────────────────


def test_a_repeated_range_of_batches_gives_all_their_slots(query: Query) -> None:
    """With asynchronous progress Spark's offset log has gaps."""
    _, plans, rows = batches(query, 4)
    restarted = query.driver()

    parts = restarted.plan(plans[1].to_json(), plans[4].to_json())

    told = numbers_told(parts, plans)
    assert told == sorted(told)
    assert {number: told.count(number) for number in (2, 3, 4)} == {
        number: len(plans[number].slots) for number in (2, 3, 4)
    }
    assert restarted.plan(plans[1].to_json(), plans[4].to_json()) == parts, "a second action"
    assert [query.rows(plan) for plan in plans[2:]] == rows[2:]
    more = fill(query, 2, "n")
    assert query.rows(query.plan(restarted.latest(plans[4].to_json(), None))) == more


@pytest.mark.parametrize(("before", "end"), [(1, 4), (2, 1), (2, 0), (3, 2), (4, 4 - 1)])
def test_in_a_process_that_was_asked_for_an_offset_only_the_next_batch_is_given(
    query: Query, before: int, end: int
) -> None:
    driver, plans, _ = batches(query, 4)

    with pytest.raises(CheckpointMismatch, match="Spark asks for the rows behind batch"):
        driver.plan(plans[before].to_json(), offset(driver, plans[end]))

    assert driver.plan(plans[3].to_json(), plans[4].to_json())


@pytest.mark.parametrize(("before", "end"), [(2, 1), (2, 0), (4, 2)])
def test_nothing_goes_back_also_at_a_start(query: Query, before: int, end: int) -> None:
    _, plans, _ = batches(query, 4)
    restarted = query.driver()

    with pytest.raises(CheckpointMismatch, match="Spark asks for the rows behind batch"):
        restarted.plan(plans[before].to_json(), offset(restarted, plans[end]))


def test_a_range_that_the_log_does_not_know_is_refused(query: Query) -> None:
    _, plans, _ = batches(query, 4)
    del query.store.objects[names.following(plans[3].id)]

    with pytest.raises(CheckpointMismatch, match="is behind the checkpoint: it ends with batch 3"):
        query.driver().plan(plans[1].to_json(), plans[4].to_json())


def test_a_range_with_another_plan_of_the_last_number_is_refused(query: Query) -> None:
    _, plans, _ = batches(query, 3)
    other = replace(plans[3], id=names.PlanId(3, "f" * 32))

    with pytest.raises(CheckpointMismatch, match=r"up to batch 3, and in .* batch 3 follows: was"):
        query.driver().plan(plans[1].to_json(), other.to_json())


def test_a_range_over_a_damaged_chain_stops(query: Query) -> None:
    _, plans, _ = batches(query, 3)
    query.store.damage(names.following(plans[2].id), 3)

    with pytest.raises(LogDamaged, match="-next' in the write-ahead log of leaseOn=executors"):
        query.driver().plan(plans[1].to_json(), plans[3].to_json())


@pytest.mark.parametrize("lose", [False, True], ids=["fails", "goes on"])
def test_a_range_whose_first_batches_were_removed(query: Query, lose: bool) -> None:
    _, plans, _ = batches(query, 4)
    folder = folder_of(query)
    folder.raise_floor(2)
    gone = (plans[1].id, plans[2].id)
    for plan, objects in folder.objects().items():
        folder.remove(name for name in objects if plan in gone and not name.endswith("-next"))
    folder.remove([names.following(plans[1].id)])
    assert query.config.write_ahead_log
    log = replace(query.config.write_ahead_log, fail_on_data_loss=not lose)
    query.config = replace(query.config, write_ahead_log=log)
    restarted = query.driver()

    if not lose:
        with pytest.raises(LostSegment, match="batches 2 to 2 were removed"):
            restarted.plan(plans[1].to_json(), plans[4].to_json())
        return
    parts = restarted.plan(plans[1].to_json(), plans[4].to_json())
    assert set(numbers_told(parts, plans)) == {3, 4}
