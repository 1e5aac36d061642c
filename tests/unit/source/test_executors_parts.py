"""How a batch that was given up is cut into smaller ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_azqueue.journal.codec import Damaged
from spark_azqueue.source.executors.names import PlanId
from spark_azqueue.source.executors.plan import Part, groups_from_json, groups_of, oldest

PLAN = PlanId(7, "b" * 32)

sizes = st.lists(st.integers(0, 50), min_size=1, max_size=12)


def parts_of(sizes: list[int]) -> list[Part]:
    return [Part(PLAN, slot, 3, 3 + size) for slot, size in enumerate(sizes)]


@given(sizes, st.integers(1, 40))
def test_each_message_is_in_one_group(sizes: list[int], most: int) -> None:
    groups = groups_of(parts_of(sizes), most)
    places = [
        (part.slot, number)
        for group in groups
        for part in group
        for number in range(part.first, part.end)
    ]
    assert places == [(slot, 3 + each) for slot, size in enumerate(sizes) for each in range(size)]
    assert all(part.messages for group in groups for part in group)


@given(sizes, st.integers(1, 40))
def test_groups_are_full_but_for_the_last(sizes: list[int], most: int) -> None:
    counts = [sum(part.messages for part in group) for group in groups_of(parts_of(sizes), most)]
    assert set(counts[:-1]) <= {most}
    assert all(0 < last <= most for last in counts[-1:])


@given(sizes, st.integers(1, 40))
def test_a_slot_is_once_in_a_group(sizes: list[int], most: int) -> None:
    for group in groups_of(parts_of(sizes), most):
        slots = [part.slot for part in group]
        assert len(slots) == len(set(slots))


def test_what_goes_in_comes_out() -> None:
    groups = tuple(groups_of(parts_of([5, 0, 9]), 4))
    written = [[part.to_json() for part in group] for group in groups]
    assert groups_from_json(written, 8) == groups
    assert oldest(groups) == 7
    assert oldest(()) is None


@pytest.mark.parametrize(
    "part",
    [
        None,
        [],
        [7, "b" * 32, 0, 0],
        [8, "b" * 32, 0, 0, 1],
        [0, "b" * 32, 0, 0, 1],
        [7, "b" * 31, 0, 0, 1],
        [7, "../" + "b" * 29, 0, 0, 1],
        [7, "b" * 32, 1000, 0, 1],
        [7, "b" * 32, -1, 0, 1],
        [7, "b" * 32, 0, 2, 1],
        [7, "b" * 32, 0, -1, 1],
        [7, "b" * 32, 0, 0, True],
        [7, "b" * 32, 0, 0, 1.0],
        [7, "b" * 32, 0, 0, 1, 2],
    ],
)
def test_damage_is_told(part: object) -> None:
    with pytest.raises(Damaged):
        groups_from_json([[part]], 8)
    with pytest.raises(Damaged):
        Part.from_json(part, 8)


@pytest.mark.parametrize("groups", [[[]], [1], ["x"]])
def test_groups_have_parts(groups: list[object]) -> None:
    with pytest.raises(Damaged):
        groups_from_json(groups, 8)
