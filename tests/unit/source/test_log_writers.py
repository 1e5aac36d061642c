"""One writer at a time: claims, numbers that are written once, puts whose answer is lost."""

from __future__ import annotations

import contextlib

import pytest
from log_stores import MemoryLogStore
from refs import ACCOUNT, ORDERS
from segments import a_message
from world.fates import Fate

from spark_azqueue.errors import LogConflict, LogDamaged, LostSegment, ServiceError
from spark_azqueue.journal.codec import Damaged
from spark_azqueue.source.log import names
from spark_azqueue.source.log.log import Contents, WriteAheadLog
from spark_azqueue.source.log.progress import FirstBatch, LogProgress
from spark_azqueue.source.log.state import ProgressKeeper

RETENTION = 10


def a_log(store: MemoryLogStore, floor: int = 0, *, account: str = ACCOUNT) -> WriteAheadLog:
    log = WriteAheadLog(store, account, RETENTION)
    log.open()
    log.claim(floor)
    return log


def put(log: WriteAheadLog, number: int = 1, progress: LogProgress | None = None) -> int:
    contents = Contents([a_message(number)], (1,), None, (ORDERS,), {})
    return log.put(contents, progress or LogProgress()).number


def committed(number: int) -> LogProgress:
    return LogProgress(committed=number, done=number)


@pytest.fixture
def store() -> MemoryLogStore:
    return MemoryLogStore()


def test_a_new_writer_goes_on_behind_the_segments_that_stand(store):
    first = a_log(store)
    assert [put(first), put(first)] == [1, 2]

    second = a_log(store.another())

    assert (second.state.floor, second.state.head) == (0, 2)
    assert put(second) == 3


def test_a_writer_that_was_overtaken_stops_after_its_next_put(store):
    first = a_log(store)
    put(first)
    a_log(store.another())

    with pytest.raises(LogConflict, match=r"memory:log.*running twice"):
        put(first)


def test_a_number_that_another_has_written_is_a_conflict(store):
    first = a_log(store)
    second = a_log(store.another())
    put(second)

    with pytest.raises(LogConflict) as caught:
        put(first)
    assert caught.type is LogConflict, "no LateSegment: another writer is there"
    assert a_log(store.another()).segments.read(1).header.writer == second.writer


def test_a_number_that_was_cleaned_meanwhile_is_a_conflict(store):
    """The put succeeds, since the name is free again: the claim tells."""
    first = a_log(store)
    second = a_log(store.another())
    for number in range(1, 15):
        put(second, number, committed(number - 1))
    assert "seg/000000000001" not in store.objects

    with pytest.raises(LogConflict):
        put(first)


def test_what_a_writer_puts_while_the_next_one_claims_is_seen_by_one_of_them():
    """Whatever the moment of the put, it is a conflict, or it stands for the next writer."""
    for pause in range(12):
        shared = MemoryLogStore()
        first = a_log(shared)
        put(first)
        other = shared.another()
        numbers: list[int] = []

        def puts(first: WriteAheadLog = first, numbers: list[int] = numbers) -> None:
            with contextlib.suppress(LogConflict):
                numbers.append(put(first))

        other.pause(pause, puts)
        second = a_log(other)
        assert second.state.head >= max(numbers, default=1), pause


def test_two_that_claim_at_once_leave_at_most_one():
    for pause in range(8):
        shared = MemoryLogStore()
        other = shared.another()
        logs = [WriteAheadLog(each, ACCOUNT, RETENTION) for each in (shared, other)]
        for log in logs:
            log.open()
        writers = []

        def claims(log: WriteAheadLog, writers: list[WriteAheadLog] = writers) -> None:
            try:
                log.claim(0)
            except LogConflict:
                return
            writers.append(log)

        shared.pause(pause, lambda logs=logs: claims(logs[1]))
        claims(logs[0])
        able = 0
        for log in writers:
            try:
                put(log)
            except LogConflict:
                continue
            able += 1
        assert able <= 1, pause
        assert put(a_log(shared.another())) >= 1, "the next start goes on"


def test_a_lower_claim_than_the_newest_progress_is_raised(store):
    """Somebody has removed the claims: a mark of ours must not look older than theirs."""
    for _ in range(3):
        log = a_log(store.another())
        put(log)
    for name in [name for name in store.objects if name.startswith("claims/")]:
        store.remove(name)

    a_log(store.another()).mark(committed(3))

    assert a_log(store.another()).state.progress.committed == 3


def test_a_mark_of_a_higher_claim_that_was_removed_is_a_conflict(store):
    """Its process may write on: it claimed the log after ours, and somebody removed its claim."""
    put(a_log(store))
    log = WriteAheadLog(store.another(), ACCOUNT, RETENTION)
    log.open()

    def another_marks() -> None:
        progress = LogProgress(claim=99, sequence=1, committed=1)
        store.objects[names.mark(99, 1)] = progress.to_mark()

    log.store.before_put_in("claims", another_marks)
    with pytest.raises(LogConflict, match="running twice"):
        log.claim(0)


def test_a_number_that_only_an_outcome_knows_is_used(store):
    """Its segment is lost: another batch of that number would get what was decided."""
    put(a_log(store))
    store.objects[names.outcome(3)] = b"of a segment that is lost"

    with pytest.raises(LostSegment):
        a_log(store.another())

    log = WriteAheadLog(store.another(), ACCOUNT, RETENTION, lose=True)
    log.open()
    assert log.claim(0).head == 3


def test_an_answer_that_was_lost_is_an_error_and_the_segment_stands_for_the_next(store):
    first = a_log(store)
    store.next_puts(Fate.LOST_AFTER)

    with pytest.raises(ServiceError) as raised:
        put(first)

    assert raised.value.may_have_taken_effect
    assert a_log(store.another()).state.head == 1


def test_a_put_that_lands_after_the_next_writer_has_listed_is_a_conflict_for_it(store):
    first = a_log(store)
    store.next_puts(Fate.LATE)
    with pytest.raises(ServiceError):
        put(first)
    second = a_log(store.another())
    assert store.land() == [("seg/000000000001", True)]

    with pytest.raises(LogConflict):
        put(second)
    assert a_log(store.another()).state.head == 1


def test_our_own_bytes_under_the_number_are_ours(store, monkeypatch):
    """An attempt took effect, its answer was lost, and the store's own retry found the object."""
    log = a_log(store)
    create = store.put_new
    monkeypatch.setattr(store, "put_new", lambda name, data: create(name, data) and False)

    assert put(log) == 1


def test_a_refused_put_says_that_nothing_was_written(store):
    log = a_log(store)
    store.next_puts(Fate.REFUSED)

    with pytest.raises(ServiceError) as raised:
        put(log)

    assert not raised.value.may_have_taken_effect
    assert put(log) == 1


def test_segments_that_an_earlier_process_should_have_removed_are_removed(store):
    log = a_log(store)
    put(log)
    old = store.objects["seg/000000000001"]
    for number in range(2, 31):
        put(log, number, committed(number - 1))
    store.objects["seg/000000000001"] = old

    a_log(store.another())

    assert "seg/000000000001" not in store.objects


def test_a_gap_is_loud(store):
    log = a_log(store)
    for number in range(3):
        put(log, number)
    store.remove("seg/000000000002")

    with pytest.raises(LostSegment, match="segment 2 is missing"):
        a_log(store.another())


def test_a_folder_of_another_account_is_refused(store):
    a_log(store)

    with pytest.raises(LogConflict, match=f"'{ACCOUNT}', but the options name 'other'"):
        a_log(store.another(), account="other")


def test_segments_without_an_identity_are_refused(store):
    put(a_log(store))
    store.remove("log.json")

    with pytest.raises(LogDamaged, match=r"log\.json is missing"):
        a_log(store.another())


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"\xff", b'{"version":2}', b"[" * 4_000])
def test_an_identity_that_is_none_is_refused(store, data):
    store.objects["log.json"] = data

    with pytest.raises(LogDamaged, match="upgrade, or name another folder"):
        a_log(store)


@pytest.mark.parametrize("at", [0, 40, 200, -1, -20])
def test_a_damaged_head_is_loud_and_not_written_over(store, at):
    put(a_log(store))
    store.damage("seg/000000000001", at)
    before = store.objects["seg/000000000001"]

    with pytest.raises(LogDamaged, match="seg/000000000001"):
        a_log(store.another()).segments.read(1)

    assert store.objects["seg/000000000001"] == before


def test_a_segment_in_the_place_of_another_is_loud(store):
    log = a_log(store)
    put(log, 1)
    put(log, 2)
    store.objects["seg/000000000001"] = store.objects["seg/000000000002"]

    with pytest.raises(LogDamaged, match="another place"):
        a_log(store.another()).segments.read(1)


def test_a_segment_of_another_history_is_loud(store):
    """The same number of the same log, put by another writer: as after a restored backup."""
    log = a_log(store)
    put(log, 1)
    digest = log.segments.digest(1)
    store.remove("seg/000000000001")
    put(a_log(store.another()), 1)

    with pytest.raises(LogDamaged, match="not the segment that the checkpoint names"):
        a_log(store.another()).segments.read(1, digest[:16])


def test_neighbours_that_do_not_belong_together_are_loud(store):
    log = a_log(store)
    put(log, 1)
    before = store.objects["seg/000000000001"]
    store.remove("seg/000000000001")
    other = a_log(store.another())
    put(other, 1)
    put(other, 2)
    store.objects["seg/000000000001"] = before

    late = a_log(store.another())
    late.segments.read(1)
    with pytest.raises(LogDamaged, match="does not follow"):
        late.segments.read(2)


def test_a_writer_that_is_overtaken_while_it_marks_leaves_the_mark_before(store):
    """The next writer may have listed that mark, and be about to read it."""
    log = a_log(store)
    put(log)
    log.mark(LogProgress(committed=1, done=0))
    before = [name for name in store.objects if name.startswith("marks/")]
    store.before_put_in("marks", lambda: a_log(store.another()))

    with pytest.raises(LogConflict, match="running twice"):
        log.mark(committed(1))

    assert set(before) < {name for name in store.objects if name.startswith("marks/")}


def test_a_mark_that_is_no_news_is_not_written(store):
    log = a_log(store)
    put(log, 1, committed(0))
    calls = len(store.calls)

    log.mark(committed(0))

    assert len(store.calls) == calls


def test_a_damaged_mark_is_left_out(store, caplog):
    log = a_log(store)
    put(log)
    log.mark(committed(1))
    store.damage("marks/000000000001-000000000002", 3)

    assert a_log(store.another()).state.progress.committed == 0
    assert "do not need it" in caplog.text


class Holder:
    """What the progress asks of a LeaseHolder, its ledger and its lengths."""

    hidden_until = 0.0

    def __init__(self) -> None:
        self.ended: set[int] = set()

    def ended_up_to(self, done: int, most: int) -> int:
        return next(n for n in range(done, most + 1) if n == most or n + 1 not in self.ended)

    def pending(self) -> list[object]:
        return []

    def longest_s(self) -> int:
        return 300

    @property
    def lengths(self) -> Holder:
        return self

    @property
    def locked_ledger(self) -> contextlib.AbstractContextManager[Holder]:
        return contextlib.nullcontext(self)


def test_done_is_up_to_where_deletes_have_ended_not_begun():
    holder = Holder()
    progress = ProgressKeeper(holder, lambda: 0.0)
    progress.restored(LogProgress(committed=3, done=3), range(4, 6))
    progress.written(6)

    progress.proven(5)
    assert progress.kept_up_to(5) == [4, 5]
    progress.settled(5)
    assert progress.kept_up_to(5) == []
    assert (progress.now().committed, progress.now().done) == (5, 3)
    holder.ended.add(5)
    assert progress.now().done == 3, "4 is under way"
    holder.ended.add(4)
    assert progress.now().done == 5, "6 is not committed"
    holder.ended.add(6)
    assert progress.now().done == 5


@pytest.mark.parametrize("at", range(0, 120, 9))
def test_a_flipped_bit_of_a_mark_is_noticed(at):
    data = bytearray(committed(3).to_mark())
    data[at % len(data)] ^= 1

    with pytest.raises(Damaged):
        LogProgress.from_mark(bytes(data), account=ACCOUNT)


def test_a_mark_comes_back_as_it_was():
    assert LogProgress.from_mark(committed(3).to_mark(), account=ACCOUNT) == committed(3)


@pytest.mark.parametrize("newer", ["mark", "header"])
def test_the_newer_of_mark_and_header_says_how_far_the_log_has_come(store, newer):
    """The delete of an older mark may have failed: then it stays beside newer headers."""
    first = a_log(store)
    put(first)
    first.mark(committed(1))
    (mark,) = [name for name in store.objects if name.startswith("marks/")]
    old = store.objects[mark]
    put(first, progress=LogProgress(committed=1, done=1))
    put(first, progress=LogProgress(committed=2, done=2))
    if newer == "mark":
        first.mark(committed(3))
    store.objects[mark] = old

    assert a_log(store.another()).state.progress.committed == (3 if newer == "mark" else 2)


def test_where_a_checkpoint_began_stands_in_headers_and_marks(store):
    first = a_log(store)
    put(first, progress=LogProgress(began=FirstBatch(0, 1)))
    assert a_log(store.another()).state.progress.began == (0, 1)

    second = a_log(store.another())
    second.mark(LogProgress(began=FirstBatch(1, 3), committed=1, done=1))

    assert a_log(store.another()).state.progress.began == (1, 3)
    assert LogProgress.from_json(LogProgress().to_json(), account=ACCOUNT).began is None
    with pytest.raises(Damaged, match="'last'"):
        LogProgress.from_json({**LogProgress().to_json(), "began": [1]}, account=ACCOUNT)
