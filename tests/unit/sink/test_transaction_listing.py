"""What a listing of a transaction log means for one transaction."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spark_azqueue.errors import TransactionConflict, TransactionUnknown
from spark_azqueue.sink.transaction import names
from spark_azqueue.sink.transaction.listing import STARTS_KEPT, Listing, Step
from spark_azqueue.sink.transaction.names import Transaction
from spark_azqueue.sink.transaction.record import ChunkRef, RecordHead

KEY = names.stream_key("0" * 32)
BATCH = names.batch_key("shop", None, "app")
RUN, OTHER = "1" * 32, "2" * 32


def at(number: int, key: str = KEY) -> Transaction:
    return Transaction(key, number)


def head(transaction: Transaction, rows: int) -> RecordHead:
    chunks = (ChunkRef(-1, rows, 1, 1, "0"),) if rows else ()
    return RecordHead(transaction, RUN, "", "shop", "x", rows, 0, 0, 0, chunks)


def of(*listed: str) -> Listing:
    return Listing.of("memory:log", listed)


@pytest.mark.parametrize(
    ("number", "step"), [(3, Step.OVER), (4, Step.OVER), (5, Step.SHOW), (6, Step.WRITE)]
)
def test_the_newest_number_decides(number: int, step: Step) -> None:
    listing = of(names.record(at(4)), names.record(at(5)), names.record(at(99, BATCH)))
    assert listing.step(at(number), is_strict=True) is step
    assert listing.for_tasks().step(at(number), is_strict=True) is step
    assert listing.has_higher(at(number)) == (step is Step.OVER)


def test_a_gap_is_unknown_in_a_stream_alone_and_unless_loss_is_allowed() -> None:
    listing = of(names.record(at(5)), names.record(at(5, BATCH)))
    with pytest.raises(TransactionUnknown, match="has batch 5 as its newest"):
        listing.step(at(7), is_strict=True)
    with pytest.raises(TransactionUnknown, match="knows nothing of this query"):
        of().step(at(1), is_strict=True)
    assert of().step(at(0), is_strict=True) is Step.WRITE
    assert listing.step(at(7), is_strict=False) is Step.WRITE
    assert listing.step(at(700, BATCH), is_strict=True) is Step.WRITE


def test_a_record_above_the_start_of_a_run_is_a_strangers() -> None:
    listed = [names.record(at(5)), names.start(KEY, 4, RUN), names.start(KEY, 5, OTHER)]
    with pytest.raises(TransactionConflict, match="batch 4 was the newest"):
        of(*listed).check_stranger(at(5), RUN, OTHER)
    of(*listed).check_stranger(at(5), RUN, RUN)
    of(*listed).check_stranger(at(5), OTHER, RUN)
    assert of(*listed, names.start(KEY, 7, RUN)).start(at(5), RUN) == 4, "the lowest counts"


def test_marks_are_of_a_nonce_and_the_highest_counts() -> None:
    marks = [names.progress_mark(at(5), tag, n) for tag, n in ((RUN, 2), (RUN, 4), (OTHER, 9))]
    listing = of(*marks)
    assert listing.marked(head(at(5), 9)) == 4
    assert listing.marked(head(at(6), 9)) == 0
    assert listing.marked(head(at(5, BATCH), 9)) == 0


def test_a_record_is_finished_by_the_mark_of_its_last_message_alone() -> None:
    listing = of(*(names.progress_mark(at(5), RUN, n) for n in (2, 4, 10**12 - 1)))
    assert [listing.is_finished(head(at(5), rows)) for rows in (2, 3, 4, 5, 0)] == [
        *(True, False, True, False, True)
    ]
    assert listing.marked(head(at(5), 9)) == 4, "no mark above the last message counts"


def test_what_is_outlived_begins_with_heads_and_leaves_the_record_and_others() -> None:
    last = 5 + STARTS_KEPT
    over = [
        names.record(at(4)),
        names.record(at(5)),
        names.progress_mark(at(4), RUN, 3),
        names.part(at(4), RUN, 0),
        names.progress_mark(at(last), OTHER, 3),
        names.part(at(last), OTHER, 0),
        names.start(KEY, 4, RUN),
    ]
    kept = [
        names.record(at(last)),
        names.progress_mark(at(last), RUN, 3),
        names.part(at(last), RUN, 0),
        names.start(KEY, 5, RUN),
        names.part(at(last + 1), OTHER, 0),
        names.record(at(1, BATCH)),
        "txn/something-else",
    ]
    known = replace(head(at(last), 3), written=((4, 5),))
    found = of(*kept, *over[::-1]).outlived_by(known, ())
    assert sorted(found) == sorted(over)
    assert found[:2] == over[:2]


def test_what_may_belong_to_an_unfinished_record_stays() -> None:
    kept = [names.record(at(4)), names.progress_mark(at(4), RUN, 3), names.part(at(4), RUN, 0)]
    under_way = names.part(at(3), RUN, 0)  # its head may land late
    over = [names.record(at(5)), names.progress_mark(at(5), OTHER, 3)]
    listing = of(*kept, under_way, *over, names.record(at(6)))
    assert listing.outlived_by(head(at(6), 1), {5}) == over
    assert listing.not_written(head(at(6), 1)) == [at(5), at(4)]
    assert listing.not_written(replace(head(at(6), 1), written=((5, 5),))) == [at(4)]
