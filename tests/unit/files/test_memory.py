"""What was read is known, and what is forgotten is never read a second time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_azqueue.files.decide import choose
from spark_azqueue.files.memory import DAY_S, SKEW_S, Bounds, File, Memory
from spark_azqueue.journal.codec import Damaged

HERE = "shopdata/landing"


NOW = 1e12


def file(number: int, at: float = NOW) -> File:
    """A file with an event that holds nothing back, if no time is given."""
    return File(HERE, f"{number}.json", "", at)


def test_nothing_is_forgotten_within_a_day() -> None:
    memory = Memory(Bounds(age=1.0, most=2))
    for number in range(10):
        memory.note(number, [file(number)], ())
    memory.note(DAY_S, [], ())

    assert len(memory) == 10
    assert memory.horizon == 0


def test_the_oldest_go_by_number() -> None:
    memory = Memory(Bounds(most=2))
    for number in range(5):
        memory.note(100.0 + number, [file(number)], ())
    memory.note(200.0 + DAY_S, [], ())

    assert [memory.knows(file(number)) for number in range(5)] == [False] * 3 + [True] * 2
    assert memory.horizon == 102 + SKEW_S


def test_the_oldest_go_by_age() -> None:
    age = 20 * DAY_S
    memory = Memory(Bounds(age=age))
    memory.note(100.0, [file(1)], ())
    memory.note(100.0 + age, [file(2)], ())
    assert memory.knows(file(1))
    memory.note(101.0 + age, [], ())

    assert not memory.knows(file(1))
    assert memory.knows(file(2))
    assert memory.horizon == 100 + SKEW_S


def test_nothing_is_forgotten_that_events_under_way_may_name() -> None:
    """A listing at second 100 announced so many files that it takes days to read them."""
    memory, listed = Memory(Bounds(most=2)), 100.0
    for number in range(10):
        chosen = choose([file(number, at=listed)], memory)
        assert chosen.aside == []
        memory.note(listed + number * DAY_S, chosen.files, ())
    memory.turn()
    memory.note(listed + 20 * DAY_S, [file(10, at=listed + 20 * DAY_S)], ())
    assert len(memory) == 11
    assert memory.horizon == 0, "its events may still come in this generation"

    memory.turn()
    memory.note(listed + 40 * DAY_S, [file(11, at=listed + 40 * DAY_S)], ())

    assert len(memory) == 2
    assert memory.horizon == listed + 9 * DAY_S + SKEW_S


def test_an_event_from_before_the_horizon_holds_nothing_back() -> None:
    memory = Memory(Bounds(most=1))
    for number in range(3):
        memory.note(number * 2 * DAY_S, [file(number)], ())
    before = memory.horizon
    memory.note(8 * DAY_S, (), [file(9, at=1.0)])

    assert 1.0 < before < memory.horizon


def test_when_a_file_was_set_aside() -> None:
    memory = Memory(Bounds())
    memory.note(5.0, [file(1), file(2)], ())
    assert memory.aside_at(file(1)) is None

    memory.note(7.0, (), [file(1)])
    memory.note(9.0, (), [file(1)._replace(etag="0x2")])

    assert memory.aside_at(file(1)._replace(at=0.0)) == 9
    assert memory.aside_at(file(2)) is None


def test_bytes_and_back() -> None:
    memory = Memory(Bounds())
    memory.note(5.0, [file(1), file(2)], ())
    memory.note(6.0, [file(3)], [file(2)])
    again = Memory(Bounds())
    again.fill(7.0, memory.oldest_event, memory.to_bytes())

    assert again.to_bytes() == memory.to_bytes()
    assert again.horizon == 7.0
    assert again.knows(file(1))
    with pytest.raises(Damaged, match="half of a key"):
        Memory(Bounds()).fill(0, 0, b"x" * 25)


@pytest.mark.parametrize("own", [False, True])
def test_an_event_of_1970_does_not_keep_everything(own: bool) -> None:
    """One of a listing does: it may wait in the queue for any time."""
    memory, day = Memory(Bounds(most=2)), float(DAY_S)
    for number in range(100):
        event = file(number, at=1.0)
        names = {(event.place, event.path)} if own else set()
        at = 1e9 + number * day
        memory.note(at, [event], (), memory.oldest_of([event], names, at))
        if number % 10 == 9:
            memory.turn()

    assert len(memory) == 100 if own else len(memory) < 50


HOURS = st.integers(0, 60)


@given(
    steps=st.lists(st.tuples(st.integers(0, 20), HOURS, st.booleans()), max_size=60),
    most=st.integers(1, 8),
    age=st.one_of(st.none(), st.integers(20, 100)),
    backlog=st.integers(0, 20),
)
def test_no_file_is_ever_chosen_twice(
    steps: list[tuple[int, int, bool]], most: int, age: int | None, backlog: int
) -> None:
    """Each file has an event of one time, which may come again at any later time.

    A backlog of files was announced before the first step. One of them comes with each step, as
    they do in a queue.
    """
    hour = 3_600.0
    memory = Memory(Bounds(None if age is None else age * hour, most))
    now, read = 1e9, set()
    announced = {100 + number: file(100 + number, now) for number in range(backlog)}
    steps = [
        step
        for each, (number, hours, restart) in enumerate(steps)
        for step in [(number, hours, False), (100 + each, 0, restart)][: 1 + (each < backlog)]
    ]
    for number, hours, restart in steps:
        now += hours * hour
        event = announced.setdefault(number, file(number, now))
        for chosen in choose([event], memory).files:
            assert chosen.path not in read
            read.add(chosen.path)
        memory.note(now, choose([event], memory).files, ())
        if restart:
            fresh = Memory(Bounds(None if age is None else age * hour, most))
            fresh.fill(memory.horizon, memory.oldest_event, memory.to_bytes())
            memory = fresh
    came = {number for number, _, _ in steps}
    assert {f"{number}.json" for number in came} == read, "the first event is never too old"
