"""One object with a number far above all others: no reader of a log walks up to it."""

from __future__ import annotations

import pytest
from log_stores import MemoryLogStore
from refs import ACCOUNT, ORDERS
from replayed_log import log_in, read
from segments import a_message
from test_replay_plans import Writer

from spark_azqueue.errors import LogDamaged, LostSegment
from spark_azqueue.journal.numbers import first_missing, is_too_long, standing
from spark_azqueue.service.names import EXECUTORS, MOST_NAMES
from spark_azqueue.source.log.log import Contents, WriteAheadLog
from spark_azqueue.source.log.progress import LogProgress
from spark_azqueue.source.log.state import LogState
from spark_azqueue.source.replay.batches import LogSurvey

FAR = 10**12 - 1


def claimed(store: MemoryLogStore) -> WriteAheadLog:
    log = WriteAheadLog(store, ACCOUNT, 10, lose=True)
    log.open()
    log.survey()
    log.claim(0)
    return log


def contents(number: int) -> Contents:
    return Contents((a_message(number),), (1,), None, (ORDERS,), {})


def test_what_stands_of_a_range_is_found_by_what_stands() -> None:
    assert standing(range(2, FAR), [FAR, 7, 1, 3]) == [3, 7]
    assert standing(range(2, 5), {1, 2, 4, 9}) == [2, 4]
    assert first_missing(range(1, FAR), [1, 2, FAR]) == 3
    assert first_missing(range(1, 3), [1, 2]) is None


@pytest.mark.parametrize("lose", [False, True])
@pytest.mark.parametrize("number", [20_000_000, FAR])
def test_a_segment_with_a_far_number_stops_the_query(number: int, lose: bool) -> None:
    with pytest.raises(
        LogDamaged, match=f"segment 4 is missing .* an object of it names number {number},"
    ):
        LogState.of([1, 2, 3, number], 0, LogProgress(), "file:/logs", lose=lose)


def test_a_gap_that_a_log_may_have_is_as_before() -> None:
    numbers = [1, 2, MOST_NAMES]
    assert not is_too_long(range(3, MOST_NAMES))
    assert LogState.of(numbers, 0, LogProgress(), "file:/logs", lose=True).head == MOST_NAMES
    with pytest.raises(LostSegment, match="segment 3 is missing"):
        LogState.of(numbers, 0, LogProgress(), "file:/logs")


def test_a_mark_with_far_numbers_stops_the_query() -> None:
    store = MemoryLogStore()
    claimed(store)
    store.put_new(f"marks/{1:012d}-{9:012d}", LogProgress(1, 9, committed=FAR, done=FAR).to_mark())

    with pytest.raises(LogDamaged, match=f"an object of it names number {FAR}, which is far above"):
        claimed(store)


def test_a_mark_that_knows_of_lost_segments_does_not_remove_what_is_written_behind_them() -> None:
    store = MemoryLogStore()
    claimed(store)
    store.put_new(f"marks/{1:012d}-{9:012d}", LogProgress(1, 9, committed=50, done=50).to_mark())
    log = claimed(store)

    for number in (51, 52, 53):
        written = log.put(contents(number), log.state.progress)
        assert written.header.number == number
        assert written.header.floor == 40


def test_a_log_that_is_far_behind_its_checkpoint_goes_on_and_can_be_read_again() -> None:
    """With failOnDataLoss=false: an old copy of the log was restored."""
    log = claimed(MemoryLogStore())
    log.skip_to(FAR - 10)
    assert (log.state.floor, log.state.head) == (FAR - 10, FAR - 10)


@pytest.mark.parametrize("word", ["next", "committed"])
def test_a_plan_with_a_far_number_stops_a_reader_of_the_log(
    word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryLogStore(kind=EXECUTORS)
    writer = Writer(store)
    writer.batch(1)
    writer.batch(2)
    writer.plan()
    store.objects[f"slots/{FAR}-{'f' * 32}-{word}"] = b""

    with pytest.raises(LostSegment, match="batch 3 is missing in the write-ahead log"):
        read(log_in(store, monkeypatch))


def test_what_a_reader_misses_is_found_without_a_walk() -> None:
    assert LogSurvey("file:/logs", 0, FAR).missing(1, FAR) == 1
