"""What a run does with each message, and when it ends."""

import pytest
from refs import ORDERS

from spark_azqueue.commands.filters import Filter
from spark_azqueue.commands.scan import (
    MOST_PAGES_WITHOUT_NEWS,
    End,
    Scan,
    ScanFate,
    TransferPlan,
    copy_of,
    seconds_left,
    step_of,
)
from spark_azqueue.errors import InvalidRow
from spark_azqueue.service.envelopes import BodyEncoding, envelope_text
from spark_azqueue.service.messages import Lease, Message, QueueRef, Received

NOW = 1_700_000_000_000_000
TARGET = QueueRef(ORDERS.account, "target")


def received(number, text="x", *, inserted=NOW, intact=True):
    name = f"id-{number}"
    message = Message(ORDERS, name, text, inserted, NOW + 10**12, 1, intact=intact)
    return Received(message, Lease(ORDERS, name, f"receipt-{number}"))


def scan(**given):
    return Scan(TransferPlan(ORDERS, NOW, **given))


def test_what_fits_is_chosen_and_the_rest_is_kept_and_counted():
    run = scan(only=Filter(("a",)), target=TARGET)
    page = [
        received(1, "a"),
        received(2, "b"),
        received(3, "a", inserted=NOW + 1_000_000),
        received(4, "a", intact=False),
    ]

    chosen = run.sort(page)

    assert [(each.message.message_id, fate) for each, fate in chosen] == [("id-1", ScanFate.ACT)]
    assert set(run.kept) == {"id-2", "id-3", "id-4"}
    tally = run.tally
    assert (tally.looked, tally.other, tally.newer, tally.damaged) == (4, 1, 1, 1)


def test_a_message_is_looked_at_once_and_its_newest_lease_is_kept():
    run = scan(only=Filter(("a",)))
    run.sort([received(1, "b")])
    again = received(1, "b")._replace(lease=Lease(ORDERS, "id-1", "newer"))

    assert run.sort([again]) == []
    assert (run.tally.looked, run.tally.other) == (1, 1)
    assert run.kept["id-1"].pop_receipt == "newer"


def test_it_ends_at_an_empty_answer():
    run = scan()
    page = [received(1)]
    run.sort(page)
    assert run.end_after(page) is None
    run.sort([])
    assert run.end_after([]) is End.DONE


def test_it_ends_when_only_newer_messages_come():
    run = scan()
    for number in range(MOST_PAGES_WITHOUT_NEWS):
        assert run.end_after([received(0)]) is None
        page = [received(number, inserted=NOW + 1_000_000)]
        run.sort(page)
    assert run.end_after(page) is End.NEWER


def test_most():
    run = scan(most=2)
    assert run.wanted() == 2
    page = [received(1), received(2), received(3)]

    assert len(run.sort(page)) == 2
    assert run.end_after(page) is End.ENOUGH
    assert (run.tally.beyond, set(run.kept)) == (1, {"id-3"})


def test_messages_that_come_again_do_not_end_a_run_before_all_came():
    # Given a run so slow that the leases of what it keeps have ended
    run = scan(only=Filter(("a",)))
    kept = [received(number, "b") for number in range(MOST_PAGES_WITHOUT_NEWS + 2)]
    for each in kept:
        run.sort([each])

    # When all that it keeps comes again, then it goes on; if it comes once more, it ends
    for each in kept:
        run.sort([each])
        assert run.end_after([each]) is None
    run.sort([kept[0]])
    assert run.end_after([kept[0]]) is End.DONE


def test_too_many_kept():
    run = scan(only=Filter(("a",)), most_kept=2)
    page = [received(1), received(2)]
    run.sort(page)
    assert run.end_after(page) is End.TOO_MANY_KEPT


def test_a_copied_message_that_comes_back_is_only_deleted():
    run = scan(target=TARGET)
    (chosen,) = run.sort([received(1)])
    run.stands_twice(chosen[0].message)
    run.stands_twice(chosen[0].message)
    assert run.tally.twice == 1

    ((back, fate),) = run.sort([received(1)])
    assert fate is ScanFate.FINISH
    run.is_done(back.message, is_sure=True)
    assert (run.tally.done, run.tally.twice) == (1, 0)


def test_a_copied_message_that_was_updated_meanwhile_stays():
    run = scan(target=TARGET)
    (chosen,) = run.sort([received(1)])
    run.stands_twice(chosen[0].message)

    assert run.sort([received(1, "progress")]) == []
    assert (run.tally.twice, set(run.kept)) == (1, {"id-1"})


def test_a_doubtful_delete_counts_once():
    run = scan(target=TARGET)
    (chosen,) = run.sort([received(1)])
    run.is_done(chosen[0].message, is_sure=False)
    assert (run.tally.done, run.tally.maybe_twice, run.tally.is_clean) == (1, 1, False)

    ((back, fate),) = run.sort([received(1)])
    assert fate is ScanFate.FINISH
    run.is_done(back.message, is_sure=True)
    assert (run.tally.done, run.tally.maybe_twice, run.tally.is_clean) == (1, 0, True)


@pytest.mark.parametrize(("rate", "step"), [(1, 1), (7, 1), (8, 2), (100, 25), (1000, 32)])
def test_a_slow_run_takes_few_at_once(rate, step):
    assert step_of(rate) == step
    assert scan(rate=rate).wanted() == step


@pytest.mark.parametrize(
    ("expires", "seconds"),
    [
        (NOW + 1, 1),
        (NOW - 5_000_000, 1),
        (NOW + 90_000_001, 91),
        (253_402_214_399_000_000, -1),
        (NOW + 10**16, 2**31 - 1),
    ],
)
def test_what_is_left_of_a_life(expires, seconds):
    assert seconds_left(expires, NOW) == seconds


def test_a_copy_keeps_the_text_and_the_life_unless_told_otherwise():
    message = received(1, " \r\n<&>").message
    copy = copy_of(message, TransferPlan(ORDERS, NOW, TARGET), NOW)
    assert (copy.text, copy.ttl_s, copy.was_envelope) == (message.text, 10**6, False)
    assert copy_of(message, TransferPlan(ORDERS, NOW, TARGET, time_to_live=-1), NOW).ttl_s == -1


def test_an_envelope_is_opened_only_if_the_plan_says_so():
    envelope = envelope_text("orders", "id", "why", "hello", BodyEncoding.STORED)
    message = received(1, envelope).message

    opened = copy_of(message, TransferPlan(ORDERS, NOW, TARGET, opens_envelopes=True), NOW)
    assert (opened.text, opened.was_envelope) == ("hello", True)
    assert copy_of(message, TransferPlan(ORDERS, NOW, TARGET), NOW).text == envelope


def test_an_envelope_that_cannot_be_opened_is_refused():
    envelope = envelope_text("orders", "id", "why", "//8=", BodyEncoding.BASE64)
    with pytest.raises(InvalidRow):
        copy_of(
            received(1, envelope).message,
            TransferPlan(ORDERS, NOW, TARGET, opens_envelopes=True),
            NOW,
        )
