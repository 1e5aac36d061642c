"""A small object of a log takes no large memory, and no message is in one twice.

Who may write into the folder does not decide how much its readers need: what no writer of ours
would have written is refused before memory is taken for it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace

import pytest
from refs import ACCOUNT, ORDERS
from segments import a_header, a_message

from spark_azqueue.journal.codec import Damaged, compact, sealed
from spark_azqueue.journal.pending import PENDING_AT_MOST, PendingDelete
from spark_azqueue.service.messages import MessageKey, Received
from spark_azqueue.source.executors.names import PlanId
from spark_azqueue.source.executors.objects import SeenMessages, SlotHeader, SlotReport
from spark_azqueue.source.executors.objects import decode_slot as decode_slot
from spark_azqueue.source.executors.objects import encode_slot as encode_slot
from spark_azqueue.source.executors.plan import MORE_THAN_BUDGET, MOST_MESSAGES
from spark_azqueue.source.log.progress import MARK_AT_MOST, LogProgress, SegmentHeader
from spark_azqueue.source.log.segment import decode_segment, encode_segment

LOG, PLAN = "a" * 32, PlanId(7, "b" * 32)
MANY = 20_000


def in_a_segment(received: tuple[Received, ...]) -> tuple[Received, ...]:
    """What comes back."""
    return decode_segment(encode_segment(a_header(cut=(len(received),)), received)).received


def in_a_slot(received: tuple[Received, ...]) -> tuple[Received, ...]:
    header = SlotHeader(LOG, PLAN, 0, ACCOUNT, "c" * 32, messages=len(received), queues=(ORDERS,))
    return decode_slot(encode_slot(header, received), log=LOG, plan=PLAN, slot=0).received


OBJECTS = pytest.mark.parametrize("stored", [in_a_segment, in_a_slot])


@OBJECTS
def test_a_message_is_in_an_object_once(
    stored: Callable[[tuple[Received, ...]], tuple[Received, ...]],
) -> None:
    """Each is deleted by the object that has it."""
    twice = (a_message(1), a_message(2), a_message(1, text="another", pop_receipt="r9"))
    with pytest.raises(Damaged, match="a message is in it twice"):
        stored(twice)


@OBJECTS
def test_an_object_has_as_many_messages_as_its_bytes_can_hold(
    stored: Callable[[tuple[Received, ...]], tuple[Received, ...]],
) -> None:
    with pytest.raises(Damaged, match="more messages than its bytes can hold"):
        stored(tuple(a_message(at, text="", pop_receipt="r") for at in range(MANY)))

    ids = (
        str(uuid.UUID(int=at * 0x9E3779B97F4A7C15F39CC0605CEDC834 % 2**128)) for at in range(MANY)
    )
    real = tuple(a_message(message_id=each, text="", pop_receipt="r") for each in ids)
    assert stored(real) == real


EMPTY_LISTS = [[]] * 2_000_000
READERS: dict[str, Callable[[object], object]] = {
    "mark": lambda value: LogProgress.from_mark(sealed(value), account=ACCOUNT),
    "header": lambda value: SegmentHeader.from_bytes(compact(value)),
    "slot": lambda value: SlotHeader.from_bytes(compact(value)),
    "report": lambda value: SlotReport.from_bytes(sealed(value), ACCOUNT),
    "known": lambda value: SeenMessages.from_bytes(sealed(value), ACCOUNT),
}


@pytest.mark.parametrize("kind", READERS)
def test_values_are_counted_before_they_are_made(kind: str) -> None:
    with pytest.raises(Damaged, match="it has too many values"):
        READERS[kind]({"version": 1, "more": EMPTY_LISTS})


@pytest.mark.more
def test_the_most_that_is_written_is_read() -> None:
    keys = [MessageKey(ORDERS, f"{at:064}") for at in range(MOST_MESSAGES + MORE_THAN_BUDGET)]
    pending = tuple(PendingDelete(each, 2**64 - 1, 1_900_000_000) for each in keys)
    progress = LogProgress(1, 2, pending=pending[:PENDING_AT_MOST])
    assert len(progress.to_mark()) < MARK_AT_MOST
    assert LogProgress.from_mark(progress.to_mark(), account=ACCOUNT) == progress
    header = a_header(progress=progress, cut=(1,) * 100_000)
    assert SegmentHeader.from_bytes(header.to_bytes()) == header
    report = SlotReport(messages=len(pending), pending=pending, gone=tuple(keys[:58_192]))
    assert SlotReport.from_bytes(report.to_bytes(), ACCOUNT) == report


def test_no_more_deletes_are_pending_than_a_slot_had_messages() -> None:
    pending = (PendingDelete(MessageKey(ORDERS, "a"), 1, 0),)
    report = SlotReport(messages=1, pending=pending)
    assert SlotReport.from_bytes(report.to_bytes(), ACCOUNT) == report
    with pytest.raises(Damaged, match="more pending deletes than messages"):
        SlotReport.from_bytes(replace(report, messages=0).to_bytes(), ACCOUNT)
