"""Which files fail, by halves; and what is announced of a listing."""

from __future__ import annotations

import json
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from spark_azqueue.arrivals.listing import Listed, Window, event, to_announce
from spark_azqueue.arrivals.memory import Bounds, File, Memory
from spark_azqueue.arrivals.reading import failing
from spark_azqueue.arrivals.rules import Rules, roots_of

HERE = "shopdata/landing"
RULES = Rules(roots_of(HERE))
(ROOT,) = RULES.roots.values()


@given(size=st.integers(0, 70), bad=st.sets(st.integers(0, 69), max_size=6))
def test_each_that_fails_is_found_and_no_other(size: int, bad: set[int]) -> None:
    items, tries = list(range(size)), []

    def fails(some: Sequence[int]) -> Exception | None:
        tries.append(some)
        here = bad & set(some)
        return ValueError(min(here)) if here else None

    found = failing(items, fails)

    assert [item for item, _ in found] == sorted(bad & set(items))
    assert all(str(error) == str(item) for item, error in found)
    assert len(tries) <= 1 + 2 * 7 * len(bad)


def listed(path: str, at: float = 50.0) -> Listed:
    return Listed(ROOT, path, at, 3)


def told(rules: Rules, memory: Memory, window: Window, *found: Listed) -> list[str]:
    return [each.path for each in to_announce(found, rules, memory, window)]


def test_what_is_known_or_not_wanted_is_not_announced() -> None:
    memory = Memory(Bounds())
    memory.note(1.0, [File(HERE, "known.json", "0x1")], ())
    paths = ["known.json", "_SUCCESS", "new.json", "a%2fb", ".x/y"]

    assert told(RULES, memory, Window(), *map(listed, paths)) == ["new.json"]


def test_a_later_listing_has_a_window() -> None:
    found = [listed("old", 9.0), listed("a", 10.0), listed("b", 19.9), listed("young", 20.0)]

    assert told(RULES, Memory(Bounds()), Window(10.0, 20.0), *found) == ["a", "b"]


def test_with_overwrites_what_changed_is_announced_again() -> None:
    memory = Memory(Bounds(), allow_overwrites=True)
    memory.note(1.0, [File(HERE, "a", "0x1"), File(HERE, "b", "0x1")], ())
    rules = RULES._replace(allow_overwrites=True)

    assert told(rules, memory, Window(again=30.0), listed("a", 29.0), listed("b", 30.0)) == ["b"]


def test_an_event_of_a_listing_is_one_of_event_grid() -> None:
    value = json.loads(event(listed("a b/ü#.json"), 1_700_000_000.5))

    assert value["eventTime"] == "2023-11-14T22:13:20.500000+00:00"
    assert value["subject"] == "/blobServices/default/containers/landing/blobs/a b/ü#.json"
    assert value["data"]["url"] == (
        "https://shopdata.blob.core.windows.net/landing/a%20b/%C3%BC%23.json"
    )
