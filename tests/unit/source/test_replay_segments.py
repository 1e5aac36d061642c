"""A log that a driver writes, as who only reads it sees it, while the writer goes on."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from log_stores import MemoryLogStore
from refs import ACCOUNT, ORDERS
from replayed_log import a_config, log_in, read, rows
from segments import a_message

from spark_azqueue.errors import (
    InvalidOption,
    LogConflict,
    LogDamaged,
    LostBlob,
    LostSegment,
    UndecodableBody,
)
from spark_azqueue.journal.identity import opened as make_log
from spark_azqueue.journal.journal import Journal
from spark_azqueue.service.account import Account
from spark_azqueue.service.blobs.references import Reference
from spark_azqueue.service.names import FILES, TRANSACTIONS, WRITE_AHEAD
from spark_azqueue.source import large_bodies
from spark_azqueue.source.log import names
from spark_azqueue.source.log.log import Contents, WriteAheadLog
from spark_azqueue.source.log.outcomes import BatchOutcome
from spark_azqueue.source.log.progress import LogProgress
from spark_azqueue.source.readers import AzQueueReader
from spark_azqueue.source.replay.batches import chosen_batches, parted, pieces_of
from spark_azqueue.source.replay.readers import LogReader
from spark_azqueue.source.replay.survey import history_of

RETENTION = 10


class Writer:
    """The query that writes the log."""

    def __init__(self, store: MemoryLogStore, *, is_killed: bool = False) -> None:
        """is_killed: while it removes segments, when their verdicts are removed."""
        self.log = WriteAheadLog(store, ACCOUNT, RETENTION, removes=not is_killed)
        self.log.open()
        self.log.claim(0)
        self._remove_outcomes()

    def _remove_outcomes(self) -> None:
        for number in self.log.take_removable():
            self.log.remove(self.log.outcomes.names_of(number))
            self.log.outcomes.forget(number)

    def write(
        self, count: int = 1, *, behind: int = 1, text: str | None = None, **reading: str
    ) -> None:
        """Write batches; each header says that those up to `behind` before it are committed."""
        for _ in range(count):
            number = self.log.state.head + 1
            received = [a_message(number, text=text or f"m{number}")]
            contents = Contents(received, (1,), None, (ORDERS,), reading)
            self.log.put(contents, progress(max(0, number - behind)))
            self._remove_outcomes()

    def commit(self, number: int) -> None:
        self.log.mark(progress(number))


def progress(number: int) -> LogProgress:
    return LogProgress(committed=number, done=number)


@pytest.fixture
def store() -> MemoryLogStore:
    return MemoryLogStore()


@pytest.fixture
def writer(store: MemoryLogStore) -> Writer:
    return Writer(store.another())


@pytest.fixture
def log(store: MemoryLogStore, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Journal]:
    return log_in(store, monkeypatch)


def test_only_committed_batches_are_read(store, writer, log):
    writer.write(5)
    assert read(log) == rows(1, 2, 3, 4), "as the newest header says"
    writer.commit(5)
    assert read(log) == rows(1, 2, 3, 4, 5), "as the mark says"
    assert {method for method, _ in store.calls} <= {"get", "names", "close"}, "it writes nothing"


def test_a_batch_that_was_given_up_has_no_rows(writer, log):
    writer.write(4)
    for number, outcome in (
        (1, BatchOutcome.COMMITTED),
        (2, BatchOutcome.SPLIT),
        (3, BatchOutcome.POISON),
    ):
        writer.log.outcomes.decide(number, outcome)
    writer.commit(4)
    assert read(log) == rows(1, 4)


@pytest.mark.parametrize("pause", range(30))
def test_whatever_the_writer_does_meanwhile_no_row_is_wrong(store, writer, log, pause):
    """It raises its floor, and removes a verdict before the segment that was given up."""
    writer.write(12)
    writer.log.outcomes.decide(3, BatchOutcome.SPLIT)
    store.pause(pause, lambda: writer.write(5))

    found = read(log)

    assert (3, "m3") not in found
    numbers = [number for number, _ in found]
    assert found == rows(*numbers)
    above_its_floor = [number for number in numbers if number > 6]
    assert above_its_floor in ([*range(7, 12)], [*range(7, 17)]), "none of these is left out"


@pytest.mark.parametrize("pause", range(12))
def test_a_verdict_that_goes_before_its_segment_is_not_missed(store, writer, log, pause):
    """The writer is killed between the two, while the log is read."""
    writer.write(12)
    writer.log.outcomes.decide(3, BatchOutcome.SPLIT)
    killed = Writer(store.another(), is_killed=True)

    store.pause(pause, lambda: killed.write(5))

    assert (3, "m3") not in read(log)
    assert store.objects.keys() >= {names.segment(3)}


@pytest.mark.parametrize("pause", range(12))
def test_a_commit_that_is_noted_meanwhile_loses_nothing(store, writer, log, pause):
    writer.write(5)

    def goes_on() -> None:
        writer.write(2)
        writer.commit(7)

    store.pause(pause, goes_on)

    assert read(log) in (rows(*range(1, 5)), rows(*range(1, 7)), rows(*range(1, 8)))


def test_what_the_writer_removes_meanwhile_is_left_out_or_told(writer, log, caplog):
    writer.write(14)
    goes_on = {"between": lambda: writer.write(5)}
    assert read(log, **goes_on) == rows(*range(9, 14))
    assert (
        "batch 4 was removed from the write-ahead log memory:log while it was read" in caplog.text
    )
    with pytest.raises(LostSegment, match=r"batch 9 was removed .* failOnDataLoss=false"):
        read(log, startingAt="9", **goes_on)
    assert read(log, startingAt="14", failOnDataLoss="false", **goes_on) == rows(*range(19, 24))


def test_what_somebody_else_removes_is_told(store, writer, log):
    writer.write(6)
    with pytest.raises(LostSegment, match=r"batch 3 is missing .* lifecycle rule"):
        read(log, between=lambda: store.remove(names.segment(3)))
    with pytest.raises(LostSegment, match=r"batch 3 is missing"):
        read(log)
    assert read(log, endingAt="2") == rows(1, 2)
    assert read(log, failOnDataLoss="false") == rows(1, 2, 4, 5)


def test_a_damaged_segment_is_told_with_what_a_reader_can_do(store, writer, log):
    writer.write(4)
    store.damage(names.segment(2))
    with pytest.raises(LogDamaged, match=r"seg/000000000002.*'startingAt' and 'endingAt'"):
        read(log)
    assert read(log, startingAt="3") == rows(3)


def test_a_damaged_mark_is_left_out(store, writer, log, caplog):
    writer.write(4)
    writer.commit(4)
    store.damage(store.names(names.MARKS)[-1])
    assert read(log) == rows(1, 2, 3)
    assert "the mark is ignored" in caplog.text


def test_batches_by_number(writer, log):
    writer.write(15)
    assert read(log, startingAt="6", endingAt="8") == rows(6, 7, 8)
    with pytest.raises(LostSegment, match=r"batches 2 to 4 were removed .* from 5 on"):
        read(log, startingAt="2", endingAt="8")
    some = read(log, startingAt="2", endingAt="8", failOnDataLoss="false")
    assert some == rows(5, 6, 7, 8)
    for option in ("startingAt", "endingAt"):
        with pytest.raises(InvalidOption, match=f"'{option}' is 15, and the newest .* is 14"):
            read(log, **{option: "15"})


def test_batches_by_time(store, writer, log):
    writer.write(16)
    for number in range(1, 17):
        store.times[names.segment(number)] = 1_800_000_000 + number * 60
    at_7 = "2027-01-15T08:07:00Z"
    assert read(log, startingAt=at_7, endingAt="2027-01-15T09:09:00+01:00") == rows(7, 8, 9)
    assert read(log, startingAt="2027-01-15T08:07:00.000001Z") == rows(*range(8, 16))
    assert read(log, startingAt="2027-01-16") == []
    with pytest.raises(LostSegment, match=r"begins with batch 6, .* at 2027-01-15T08:06:00Z"):
        read(log, startingAt="2027-01-15", endingAt=at_7)
    late = {"startingAt": "2027-01-15", "failOnDataLoss": "false"}
    assert read(log, endingAt=at_7, **late) == rows(6, 7)


def test_bodies_are_decoded_as_they_were_logged_unless_an_option_says_otherwise(writer, log):
    writer.write(messageEncoding="base64")
    writer.commit(1)
    with pytest.raises(UndecodableBody, match="batch 1 of the log"):
        read(log)
    assert read(log, messageEncoding="none") == rows(1)
    assert read(log, onUndecodable="permissive") == [(1, None)]


def test_large_bodies_come_from_their_blobs(writer, log, monkeypatch):
    class Store:
        def __init__(self, account: Account, container: str) -> None:
            assert (account.url, container) == ("https://acc.blob.core.windows.net", "bodies")

        def get(self, reference: Reference) -> bytes:
            if reference.size != 5:
                raise LostBlob("the blob does not exist")
            return b"large"

        def close(self) -> None:
            pass

    monkeypatch.setattr(large_bodies, "BlobStore", Store)
    writer.write(1, text=Reference("bodies", "0" * 32, 5).text)
    writer.write(2)
    given = {
        "accountUrl": "https://acc.queue.core.windows.net",
        "sasToken": "sig=1",
        "largeBody": "blob",
        "blobContainer": "bodies",
    }
    assert read(log, **given) == [(1, "large"), (2, "m2")]
    writer.write(2, text=Reference("bodies", "1" * 32, 6).text)
    with pytest.raises(LostBlob):
        read(log, **given)


@pytest.mark.parametrize(
    ("kind", "contents"), [(TRANSACTIONS, "tx"), (FILES, "batch")], ids=["transactions", "files"]
)
def test_a_folder_without_a_log_or_with_another_one_is_told(store, log, kind, contents):
    with pytest.raises(InvalidOption, match=r"no write-ahead log in memory:log"):
        log()
    make_log(MemoryLogStore(objects=store.objects, kind=kind), ACCOUNT, contents)
    with pytest.raises(LogConflict, match=f"folder of a {kind.words}, which holds no messages"):
        log()


def test_a_log_whose_identity_is_damaged_is_told(store, writer, log):
    store.damage("log.json")
    with pytest.raises(LogDamaged, match=r"'log\.json'"):
        log()


def test_small_objects_share_a_partition_and_large_ones_have_one(writer, log):
    writer.write(8)
    pieces = pieces_of(chosen_batches(history_of(log()).survey(), a_config())[0])
    assert [len(part) for part in parted(pieces)] == [7]
    large = [piece._replace(size=3 * 2**20) for piece in pieces]
    assert [len(part) for part in parted(large)] == [1] * 7
    assert [len(part) for part in parted(pieces * 20)] == [64, 64, 12]
    assert [piece for part in parted(large) for piece in part] == large


def test_a_kind_for_reading_asks_for_less():
    assert "'r' and 'l'" in WRITE_AHEAD.for_reading().needs
    assert "'d'" in WRITE_AHEAD.needs


def test_no_filter_of_spark_narrows_what_is_read():
    """Spark 4.1 to 4.3 keep one plan for all uses of a DataFrame: see decision 29."""
    assert not any("pushFilters" in vars(each) for each in (LogReader, AzQueueReader))
