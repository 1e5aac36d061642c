"""Small decisions about files that larger tests do not notice."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest

from spark_azqueue.files.decide import (
    NO_HADOOP_NAME,
    Announced,
    Look,
    Quarantined,
    announced,
    candidates,
    changed,
    listed_by,
)
from spark_azqueue.files.memory import LATE_S, Bounds, File, Memory
from spark_azqueue.files.rules import Rules, roots_of

HERE = "shopdata/landing"
RULES = Rules(roots_of(HERE))


def file(at: float, etag: str = "", path: str = "a.json") -> File:
    return File(HERE, path, etag, at)


def row(**given: object) -> SimpleNamespace:
    """A row of `blob_events`."""
    known = {"account": "shopdata", "container": "landing", "path": "b.json", "etag": "1"}
    more = {"api": "", "sequencer": "", "at": 1.0, "change": "created", "renamed_from": None}
    return SimpleNamespace(**known | more | given)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"change": "created", "renamed_from": "a.json"}, [("b.json", "created")]),
        ({"change": "renamed"}, [("b.json", "renamed")]),
        (
            {"change": "renamed", "renamed_from": "a.json"},
            [("a.json", "deleted"), ("b.json", "renamed")],
        ),
    ],
)
def test_only_a_rename_deletes_the_path_that_it_names(
    given: dict[str, object], expected: list[tuple[str, str]]
) -> None:
    assert [(each.path, each.change) for each in announced(row(**given))] == expected


def test_each_sender_of_a_listing_has_an_operation_of_its_own() -> None:
    assert listed_by("a") != listed_by("b")


@pytest.mark.parametrize(("deleted_at", "left"), [(100.0, []), (101.0, []), (99.0, ["a.json"])])
def test_without_a_sequencer_the_later_event_counts_and_of_one_time_the_last(
    deleted_at: float, left: list[str]
) -> None:
    created = Announced(HERE, "a.json", "created", "1", sequencer="0b", at=100.0)
    deleted = Announced(HERE, "a.json", "deleted", at=deleted_at)

    assert [each.path for each in candidates([created, deleted], RULES)] == left


def test_a_listed_file_whose_name_hadoop_cannot_have_is_quarantined_later_too() -> None:
    looks = {(HERE, "a.json"): Look.NO_NAME}

    assert changed([file(1.0)], looks) == [Quarantined(file(1.0), NO_HADOOP_NAME)]


def test_the_oldest_event_of_a_list_holds_back_what_is_forgotten() -> None:
    memory = Memory(Bounds())
    memory.note(1000.0, [file(500.0), file(0.0)], [])

    assert memory.oldest_event == 0.0


def test_an_event_of_another_sender_holds_back_two_weeks_and_an_own_one_any_time() -> None:
    memory, now = Memory(Bounds()), 10.0 * LATE_S
    old, new = file(7.0), file(now, path="b.json")

    assert memory.oldest_of([new, old], set(), now) == now - LATE_S
    assert memory.oldest_of([new, old], {(HERE, "a.json")}, now) == 7.0
    memory.horizon = 7.0
    assert memory.oldest_of([new, old], {(HERE, "a.json")}, now) == 7.0
    memory.horizon = 8.0
    assert memory.oldest_of([old], {(HERE, "a.json")}, now) == math.inf


def test_without_an_etag_a_later_event_is_another_version_of_a_quarantined_file() -> None:
    memory = Memory(Bounds(), allow_overwrites=True)
    memory.note(10.0, [], [file(1.0)])

    assert memory.knows(file(1.0))
    assert not memory.knows(file(2.0))
