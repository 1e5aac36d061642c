"""A stream that reads a log: positions, micro-batches that repeat, what was removed."""

from __future__ import annotations

from typing import Any

import pytest
from log_stores import MemoryLogStore
from refs import ACCOUNT, ORDERS
from segments import a_message

from spark_azqueue.errors import CheckpointMismatch, InvalidOption, LostSegment
from spark_azqueue.journal.journal import Journal
from spark_azqueue.options.parse import replay_config
from spark_azqueue.source.log import names
from spark_azqueue.source.log.log import Contents, WriteAheadLog
from spark_azqueue.source.log.names import SEGMENTS
from spark_azqueue.source.log.progress import LogProgress
from spark_azqueue.source.log.state import LogOffset
from spark_azqueue.source.offsets import QueueOffset
from spark_azqueue.source.replay.batches import ReplayOffset
from spark_azqueue.source.replay.follower import Follower, check_stream

RETENTION = 10


class Scene:
    """A log, its writer, and streams that read it."""

    def __init__(self) -> None:
        self.store = MemoryLogStore()
        self.writer = WriteAheadLog(self.store.another(), ACCOUNT, RETENTION)
        self.writer.open()
        self.writer.claim(0)
        self.now = 0.0
        self.slept: list[float] = []

    def write(self, count: int) -> None:
        """Write batches. Each but the last is known as committed."""
        for _ in range(count):
            number = self.writer.state.head + 1
            contents = Contents([a_message(number)], (1,), None, (ORDERS,), {})
            self.writer.put(contents, LogProgress(committed=number - 1, done=number - 1))

    def stream(self, **given: str) -> Follower:
        config = replay_config({"readLog": "file:/not/used", **given}, {})

        def open_log(_: object) -> Journal:
            found = Journal(self.store, ACCOUNT, SEGMENTS)
            found.identify()
            return found

        return Follower(config, open_log=open_log, clock=lambda: self.now, sleep=self.sleep)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def scene() -> Scene:
    return Scene()


def batches(stream: Follower, start: Any, end: Any) -> list[int]:
    return [piece.batch for part in stream.plan(start, end) for piece in part]


def drained(stream: Follower, at: Any = None) -> tuple[list[list[int]], Any]:
    """Micro-batches until there is nothing new, and the position then."""
    at, found = at or stream.initial, []
    while (end := stream.latest(at)) != at:
        found.append(batches(stream, at, end))
        at = end
    return found, at


def test_each_committed_batch_comes_once_in_order(scene):
    scene.write(6)
    stream = scene.stream(maxBatchesPerTrigger="2")
    first, at = drained(stream)
    scene.write(3)
    scene.now += 1
    second, _ = drained(stream, at)
    assert (first, second) == ([[1, 2], [3, 4], [5]], [[6, 7], [8]])


def test_a_micro_batch_is_the_same_whenever_it_is_repeated(scene):
    scene.write(6)
    stream = scene.stream(maxBatchesPerTrigger="3", startingAt="2")
    initial = stream.initial
    end = stream.latest(initial)
    scene.write(5)
    again = scene.stream(startingAt="4", maxBatchesPerTrigger="1")
    assert again.initial == initial
    assert batches(again, initial, end) == batches(stream, initial, end) == [2, 3, 4]
    assert again.plan(initial, end) == stream.plan(initial, end)
    assert again.latest(end) == ReplayOffset(end["log"], 5, 5).to_json()
    assert again.plan(end, end) == []


def test_on_4_0_and_4_1_a_batch_without_data_repeats_what_was_planned(scene):
    """Another load of the query has data: it is no offset that Spark names late."""
    scene.write(3)
    stream = scene.stream()
    end = stream.latest(None)

    assert batches(stream, stream.initial, end) == [1, 2]
    assert stream.plan(end, end) == []


def test_an_idle_stream_asks_seldom_and_for_little(scene):
    scene.write(4)
    stream = scene.stream(maxPollInterval="2")
    _, at = drained(stream)
    scene.store.calls.clear()
    for _ in range(8):
        assert stream.latest(at) == at
    assert scene.slept[-7:] == [0.25] * 7
    assert ("names", names.SEGMENTS) not in scene.store.calls
    assert len(scene.store.calls) <= 4
    scene.write(1)
    scene.now += 2
    assert stream.latest(at)["batch"] == 4


def test_where_a_stream_begins(scene):
    scene.write(20)
    for number in range(1, 21):
        scene.store.times[names.segment(number)] = 1_800_000_000 + number * 60
    at_12 = "2027-01-15T08:12:00Z"
    assert drained(scene.stream())[0] == [[*range(10, 20)]]
    assert drained(scene.stream(startingAt="15"))[0] == [[*range(15, 20)]]
    assert drained(scene.stream(startingAt=at_12))[0] == [[*range(12, 20)]]


@pytest.mark.parametrize("later", [{"startingAt": "5"}, {"startingAt": "2027-01-15T08:05:00Z"}])
def test_a_stream_waits_for_its_first_batch(scene, later):
    for number in range(1, 7):
        scene.store.times[names.segment(number)] = 1_800_000_000 + number * 60
    scene.write(5)
    stream = scene.stream(**later)
    assert stream.latest(stream.initial) == stream.initial
    scene.write(1)
    scene.now += 2
    assert drained(stream)[0] == [[5]]


def test_a_stream_does_not_wait_for_a_batch_that_is_far_away(scene):
    scene.write(5)
    stream = scene.stream(startingAt="2026")
    with pytest.raises(
        InvalidOption, match=r"startingAt' is 2026, and the newest .* is 4: .* year"
    ):
        stream.latest(stream.initial)


@pytest.mark.parametrize("given", [{"startingAt": "3"}, {"startingAt": "2027-01-15"}])
def test_a_start_that_was_removed_is_told(scene, given, caplog):
    scene.write(20)
    for number in range(1, 21):
        scene.store.times[names.segment(number)] = 1_800_000_000 + number * 60
    with pytest.raises(LostSegment, match="removed"):
        drained(scene.stream(**given))
    found, _ = drained(scene.stream(failOnDataLoss="false", **given))
    assert found == [[*range(10, 20)]]
    assert "removed" in caplog.text


def test_a_stream_that_is_left_behind_is_told_what_it_lost(scene, caplog):
    scene.write(4)
    _, at = drained(scene.stream())
    scene.write(20)
    with pytest.raises(LostSegment, match=r"batches 4 to 13 were removed .* from 14 on"):
        scene.stream().latest(at)
    stream = scene.stream(failOnDataLoss="false")
    assert drained(stream, at)[0] == [[*range(14, 24)]]
    assert "batches 4 to 13 were removed" in caplog.text


def test_a_micro_batch_whose_batches_were_removed_is_told(scene):
    scene.write(4)
    stream = scene.stream()
    end = stream.latest(stream.initial)
    scene.write(10)
    with pytest.raises(LostSegment, match="batches 1 to 3 were removed"):
        scene.stream().plan(stream.initial, end)
    scene.store.remove(names.segment(9))
    end = ReplayOffset(end["log"], 8, 10).to_json()
    with pytest.raises(LostSegment, match="batch 9 is missing"):
        scene.stream().plan(stream.initial, end)
    lossy = scene.stream(failOnDataLoss="false")
    assert batches(lossy, stream.initial, end) == [8, 10]


def test_available_now_ends_with_what_is_committed_then(scene):
    scene.write(5)
    stream = scene.stream(maxBatchesPerTrigger="3")
    stream.freeze_cutoff()
    end = stream.latest(stream.initial)
    scene.write(5)
    scene.now += 60
    newer = ReplayOffset(end["log"], 5, 9).to_json()
    assert batches(stream, end, newer) == [*range(5, 10)], "of another run"
    found, _ = drained(stream, end)
    assert (batches(stream, stream.initial, end), found) == ([1, 2, 3], [[4]])


def test_a_checkpoint_of_another_log_or_query_is_refused(scene):
    scene.write(3)
    other = Scene()
    other.write(3)
    end = other.stream().latest(other.stream().initial)
    with pytest.raises(CheckpointMismatch, match="another write-ahead log than memory:log"):
        scene.stream().latest(end)
    for offset in (
        QueueOffset(ACCOUNT).to_json(),
        LogOffset(ACCOUNT, 1, "0" * 32, "0" * 16, 1).to_json(),
    ):
        with pytest.raises(CheckpointMismatch, match="not one of a stream that reads"):
            scene.stream().latest(offset)
    with pytest.raises(CheckpointMismatch, match="reads a write-ahead log"):
        QueueOffset.from_json(end, account=ACCOUNT)
    with pytest.raises(CheckpointMismatch, match=r"up to 2 as committed, .* at 9"):
        scene.stream().plan(scene.stream().initial, end | {"log": scene.writer.uuid, "batch": 9})


@pytest.mark.parametrize(
    "changed",
    [
        *({"version": 3}, {"log": "x"}, {"log": 1}, {"first": 0}, {"first": 4}, {"first": True}),
        *({"batch": -1}, {"batch": "2"}, {"batch": 10**12}, {"batch": None}),
    ],
)
def test_a_damaged_offset_is_refused(changed):
    good = ReplayOffset("0" * 32, 1, 2).to_json()
    assert ReplayOffset.from_json(good).to_json() == good
    with pytest.raises(CheckpointMismatch):
        ReplayOffset.from_json(good | changed)
    for value in (None, [], "text"):
        with pytest.raises(CheckpointMismatch):
            ReplayOffset.from_json(value)  # type: ignore[arg-type]


@pytest.mark.parametrize("end", ["3", "2027-01-15"])
def test_a_stream_has_no_end(end):
    config = replay_config({"readLog": "file:/not/used", "endingAt": end}, {})
    with pytest.raises(InvalidOption, match=r"'endingAt' is for spark\.read"):
        check_stream(config)


# ── the calls of Spark 4.0 and 4.1, which do not tell where they are ─────────────────────────────


def bare(stream: Follower) -> Any:
    return stream.latest(None)


def test_bare_calls_give_each_batch_once(scene):
    scene.write(4)
    stream = scene.stream(maxBatchesPerTrigger="2")
    start = stream.initial
    first = bare(stream)
    assert batches(stream, start, first) == [1, 2]
    second = bare(stream)
    assert batches(stream, first, second) == [3]
    assert bare(stream) == second
    scene.write(1)
    scene.now += 1_000
    third = bare(stream)
    assert batches(stream, second, third) == [4]


def test_bare_calls_on_an_empty_log(scene):
    stream = scene.stream()
    start = stream.initial
    assert bare(stream) == start
    assert batches(stream, start, start) == []
    assert bare(stream) == start
    scene.write(2)
    scene.now += 1_000
    assert batches(stream, start, bare(stream)) == [1]


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_bare_restart(scene, is_committed):
    scene.write(5)
    stream = scene.stream(maxBatchesPerTrigger="2")
    start = stream.initial
    first = bare(stream)
    again = scene.stream(maxBatchesPerTrigger="2")

    assert batches(again, first, first) == []
    if not is_committed:
        assert batches(again, start, first) == [1, 2]
    second = bare(again)
    assert batches(again, first, second) == [3, 4]


def test_nothing_new_is_the_very_text_of_spark(scene):
    scene.write(2)
    stream = scene.stream()
    named = dict(reversed(bare(stream).items()))
    again = scene.stream()
    assert batches(again, named, named) == []
    assert list(bare(again).items()) == list(named.items())


def test_what_spark_names_behind_an_answer_is_refused(scene):
    """Its wrapper for availableNow asks first, and writes that answer behind what it has."""
    scene.write(3)
    last = bare(scene.stream())
    again = scene.stream()
    bare(again)
    with pytest.raises(InvalidOption, match=r"triggerAvailableNowWrapper\.enabled is true"):
        again.plan(last, last)


def test_batches_that_come_again_behind_later_ones_are_refused(scene):
    scene.write(4)
    stream = scene.stream(maxBatchesPerTrigger="2")
    first = bare(stream)
    batches(stream, stream.initial, first)
    second = bare(stream)
    for start, end in ((second, first), (first, stream.initial)):
        with pytest.raises(CheckpointMismatch, match="was the checkpoint changed"):
            scene.stream().plan(start, end)
