"""Owed deletes of a log: few stand in the header, many in a list that headers and marks name."""

from __future__ import annotations

import json

import pytest
from log_stores import MemoryLogStore
from refs import ACCOUNT, ORDERS
from segments import a_message

from spark_azqueue.errors import LogConflict, LogDamaged
from spark_azqueue.journal.codec import Damaged
from spark_azqueue.journal.pending import PendingDelete
from spark_azqueue.service.messages import MessageKey
from spark_azqueue.source.log import names
from spark_azqueue.source.log.log import Contents, WriteAheadLog
from spark_azqueue.source.log.progress import (
    IN_PLACE,
    LogProgress,
    PendingList,
    PendingLists,
    SegmentHeader,
)
from spark_azqueue.source.log.segment import decode_segment

MANY = 5_000


def a_log(store: MemoryLogStore, *, lose: bool = False) -> WriteAheadLog:
    log = WriteAheadLog(store, ACCOUNT, 10, lose=lose)
    log.open()
    log.claim(0)
    return log


def pending(*numbers: int) -> tuple[PendingDelete, ...]:
    return tuple(PendingDelete(MessageKey(ORDERS, f"m{number}"), number, 0) for number in numbers)


def put(log: WriteAheadLog, *numbers: int) -> SegmentHeader:
    contents = Contents([a_message(1)], (1,), None, (ORDERS,), {})
    return log.put(contents, LogProgress(pending=pending(*numbers))).header


def found(store: MemoryLogStore) -> set[PendingDelete]:
    """What the next start knows."""
    log = WriteAheadLog(store.another(), ACCOUNT, 10)
    log.open()
    return set(log.survey().progress.pending)


def lists(store: MemoryLogStore) -> list[str]:
    return sorted(name for name in store.objects if name.startswith("pending/"))


@pytest.fixture
def store() -> MemoryLogStore:
    return MemoryLogStore()


def test_few_stand_in_the_header_as_in_earlier_releases(store):
    header = put(a_log(store), *range(IN_PLACE))

    assert json.loads(header.to_bytes())["version"] == 1
    assert header.progress.pending == pending(*range(IN_PLACE))
    assert lists(store) == []


def test_what_goes_and_what_comes_is_known_after_each_segment_and_mark(store):
    log = a_log(store)
    put(log, *range(MANY))
    for step in range(1, 60):
        now = range(step * 70, MANY + step * 30)
        if step % 3:
            put(log, *now)
        else:
            log.mark(LogProgress(pending=pending(*now), committed=1))
        assert found(store) == set(pending(*now))
        assert len(lists(store)) <= 2
    put(log, *range(3))

    assert found(store) == set(pending(*range(3)))
    log.mark(LogProgress(committed=1))
    assert lists(store) == []


def test_the_next_writer_goes_on_and_removes_what_it_does_not_need(store):
    put(a_log(store), *range(MANY))
    second = a_log(store.another())
    assert set(second.state.progress.pending) == set(pending(*range(MANY)))

    put(second, *range(10, MANY))

    assert len(lists(store)) == 1
    assert found(store) == set(pending(*range(10, MANY)))


def test_a_list_that_a_fenced_writer_names_last_is_there(store):
    """It may put one more segment after the next one has claimed: that one counts then."""
    first = a_log(store)
    put(first, *range(MANY))
    second = a_log(store.another())
    with pytest.raises(LogConflict):
        put(first, *range(MANY, 3 * MANY))

    with pytest.raises(LogConflict):
        put(second, *range(MANY))

    assert found(store) == set(pending(*range(MANY, 3 * MANY)))


def test_a_damaged_mark_falls_back_to_the_newest_header_and_its_list(store):
    log = a_log(store)
    put(log, *range(MANY))
    log.mark(LogProgress(pending=pending(*range(MANY, 3 * MANY)), committed=1))
    (mark,) = [name for name in store.objects if name.startswith("marks/")]
    store.damage(mark)

    assert found(store) == set(pending(*range(MANY)))


@pytest.mark.parametrize("how", ["removed", "damaged"])
def test_a_list_that_cannot_be_read_is_loud(store, how, caplog):
    put(a_log(store), *range(MANY))
    (name,) = lists(store)
    if how == "removed":
        store.remove(name)
    else:
        store.damage(name)

    with pytest.raises(LogDamaged, match=f"'{name}' in the write-ahead log memory:log"):
        found(store)

    assert a_log(store.another(), lose=True).state.progress.pending == ()
    assert "may give a second row" in caplog.text


@pytest.mark.parametrize(
    "value",
    [
        {"list": [1], "gone": "", "more": []},
        {"list": [1, -1], "gone": "", "more": []},
        {"list": "x", "gone": "", "more": []},
        {"list": [1, 1], "gone": "#", "more": []},
        {"list": [1, 1], "gone": "A" * 40_000, "more": []},
        {"list": [1, 1], "gone": "", "more": [["orders"]]},
        {"list": [1, 1], "gone": ""},
        {},
    ],
    ids=str,
)
def test_what_the_log_would_not_write_is_damaged(value):
    with pytest.raises(Damaged):
        LogProgress.from_json({**LogProgress().to_json(), "pending": value}, account=ACCOUNT)


def test_a_list_that_is_replaced_while_it_is_looked_for_is_not_lost(store):
    first = a_log(store)
    put(first, *range(MANY))
    reader = store.another()
    second = WriteAheadLog(reader, ACCOUNT, 10)
    second.open()

    def another_list() -> None:
        put(first, *range(MANY, 3 * MANY))

    listings = len([call for call in reader.calls if call[0] == "get"])
    reader.pause(3, another_list)  # after the segments, the marks and the header
    progress = second.survey().progress

    assert set(progress.pending) == set(pending(*range(MANY, 3 * MANY)))
    assert len([call for call in reader.calls if call[0] == "get"]) > listings + 2


def test_a_segment_with_a_list_is_read_back(store):
    log = a_log(store)
    put(log, *range(MANY))
    written = put(log, *range(5, MANY + 50))

    assert decode_segment(store.objects["seg/000000000002"]).header == written


@pytest.mark.parametrize("gone", [{}, {"gone": None}, {"gone": 7}, {"gone": ["None"]}])
def test_a_list_that_does_not_say_what_is_gone_is_damaged(gone):
    """Of "None", valid base64, eleven bits are set: so many messages would give a second row."""
    with pytest.raises(Damaged, match="its pending deletes are not valid"):
        PendingList.from_json({"list": [1, 1], **gone})


def test_a_list_that_is_younger_than_what_was_written_stays(store):
    """Another process may be about to name it: it has claimed the log since."""
    log = a_log(store)
    put(log, *range(MANY))
    (ours,) = lists(store)
    store.objects[names.pending(9, 1)] = store.objects[ours]
    pending_lists = PendingLists(log, lose=False)
    pending_lists.find(None, None)

    pending_lists.in_mark(LogProgress(claim=5, sequence=1))

    assert lists(store) == [names.pending(9, 1)]
