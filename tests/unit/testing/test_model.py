"""The fake's model queue and clock: what the service promises of messages, as tables."""

import base64
import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_azqueue.testing import FakeClock, Refusal
from spark_azqueue.testing.model import Minter, ModelAccount, ModelQueue

NOW = 1_700_000_000.0
DAY = 86_400
NEVER = 253_402_300_799.0


@pytest.fixture
def queue():
    return ModelQueue()


def refused(action, *args, **kwargs):
    """Run what must be refused; return the status and code of the refusal."""
    with pytest.raises(Refusal) as caught:
        action(*args, **kwargs)
    return caught.value.status, caught.value.code


class TestPut:
    @pytest.mark.parametrize(
        ("arguments", "expiration", "next_visible"),
        [
            ({}, NOW + 7 * DAY, NOW),
            ({"ttl": 1}, NOW + 1, NOW),
            ({"ttl": 30 * DAY}, NOW + 30 * DAY, NOW),
            ({"ttl": 10**15}, NEVER, NOW),
            ({"ttl": -1}, NEVER, NOW),
            ({"ttl": -1, "visibility_delay": 7 * DAY}, NEVER, NOW + 7 * DAY),
            ({"ttl": 10, "visibility_delay": 9}, NOW + 10, NOW + 9),
        ],
    )
    def test_times(self, queue, arguments, expiration, next_visible):
        message = queue.put("x", now=NOW, **arguments)
        assert (message.insertion, message.expiration, message.next_visible) == (
            NOW,
            expiration,
            next_visible,
        )
        assert message.dequeue_count == 0

    @pytest.mark.parametrize(
        ("arguments", "code"),
        [
            ({"ttl": 0}, "InvalidQueryParameterValue"),
            ({"ttl": -2}, "InvalidQueryParameterValue"),
            ({"visibility_delay": 7 * DAY + 1, "ttl": -1}, "OutOfRangeQueryParameterValue"),
            ({"visibility_delay": -1}, "OutOfRangeQueryParameterValue"),
            ({"visibility_delay": 10, "ttl": 10}, "InvalidQueryParameterValue"),
            ({"visibility_delay": 11, "ttl": 10}, "InvalidQueryParameterValue"),
            ({"visibility_delay": 7 * DAY}, "InvalidQueryParameterValue"),
        ],
    )
    def test_refused_parameters(self, queue, arguments, code):
        assert refused(queue.put, "x", now=NOW, **arguments) == (400, code)
        assert queue.approximate_count(now=NOW) == 0

    @pytest.mark.parametrize(
        ("text", "refusal"),
        [
            ("x" * 65_537, (413, "RequestBodyTooLarge")),
            ("é" * 32_768 + "x", (413, "RequestBodyTooLarge")),
            ("\x00", (400, "InvalidXmlDocument")),
            ("a\x01b", (400, "InvalidXmlDocument")),
            ("\x0b", (400, "InvalidXmlDocument")),
            ("\x1f", (400, "InvalidXmlDocument")),
            ("\ufffe", (400, "InvalidXmlDocument")),
            ("\uffff", (400, "InvalidXmlDocument")),
            ("\ud800", (400, "InvalidXmlDocument")),
        ],
    )
    def test_refused_text(self, queue, text, refusal):
        assert refused(queue.put, text, now=NOW) == refusal
        message = queue.put("before", now=NOW)
        assert (
            refused(queue.update, message.id, message.receipt, now=NOW, visibility=0, text=text)
            == refusal
        )
        assert queue.messages(now=NOW) == [message]


class TestDequeueAndPeek:
    @pytest.mark.parametrize("visibility", [0, -1, 7 * DAY + 1])
    def test_visibility_out_of_range(self, queue, visibility):
        queue.put("x", now=NOW)
        assert refused(queue.dequeue, now=NOW, visibility=visibility) == (
            400,
            "OutOfRangeQueryParameterValue",
        )
        assert len(queue.dequeue(now=NOW, visibility=1)) == 1

    def test_a_lease(self, queue):
        put = queue.put("x", now=NOW)
        [leased] = queue.dequeue(now=NOW + 5, visibility=7 * DAY)
        assert leased == put._replace(
            next_visible=NOW + 5 + 7 * DAY,
            dequeue_count=1,
            receipt=leased.receipt,
            visible=False,
        )
        assert leased.receipt != put.receipt
        assert queue.dequeue(now=NOW + 6) == []

    def test_order_is_by_visible_time_then_insertion(self, queue):
        for text, at, delay in [("late", 0, 9), ("b", 1, 0), ("c", 1, 0), ("early", 2, 3)]:
            queue.put(text, now=NOW + at, visibility_delay=delay)
        [leased] = queue.dequeue(now=NOW + 2, visibility=4)
        assert leased.text == "b"
        expected = ["c", "early", "b", "late"]
        assert [m.text for m in queue.peek(now=NOW + 20, count=32)] == expected
        assert [m.text for m in queue.dequeue(now=NOW + 20, count=32)] == expected

    def test_peek_sees_visible_messages_only(self, queue):
        queue.put("later", now=NOW, visibility_delay=5)
        queue.put("leased", now=NOW)
        queue.dequeue(now=NOW, visibility=5)
        assert queue.peek(now=NOW + 4, count=32) == []
        assert queue.has_visible(now=NOW + 4) is False
        assert [m.text for m in queue.peek(now=NOW + 5, count=32)] == ["later", "leased"]
        assert queue.has_visible(now=NOW + 5) is True

    def test_delivered_twice(self, queue):
        put = queue.put("x", now=NOW)
        [first] = queue.dequeue(now=NOW, visibility=30, twice=True)
        assert first.next_visible == NOW + 30
        [second] = queue.dequeue(now=NOW, visibility=30)
        assert (first.id, second.id) == (put.id, put.id)
        assert (first.dequeue_count, second.dequeue_count) == (1, 2)
        assert queue.dequeue(now=NOW) == []
        assert refused(queue.delete, first.id, first.receipt, now=NOW) == (404, "MessageNotFound")
        queue.delete(second.id, second.receipt, now=NOW)

    def test_a_page_delivered_twice_holds_each_message_once(self, queue):
        for n in range(3):
            queue.put(str(n), now=NOW)
        assert [m.text for m in queue.dequeue(now=NOW, count=32, twice=True)] == ["0", "1", "2"]


class TestReceipts:
    @pytest.mark.parametrize("visibility", [1, 30, 604_800])
    def test_holds_the_second_at_which_the_message_is_visible_again(self, queue, visibility):
        put = queue.put("x", now=NOW, visibility_delay=0)
        [leased] = queue.dequeue(now=NOW, visibility=visibility)
        updated = queue.update(leased.id, leased.receipt, now=NOW + 1, visibility=visibility)
        for message in (put, leased, updated):
            raw = base64.b64decode(message.receipt)
            assert int.from_bytes(raw[12:20], "little") // 10**7 - 11_644_473_600 == int(
                message.next_visible
            )

    def test_on_a_clock_that_stands_still_no_older_one_comes_again(self, queue):
        queue.put("x", now=NOW)
        old = []
        for _ in range(100):
            [leased] = queue.dequeue(now=NOW, visibility=60)
            updated = queue.update(leased.id, leased.receipt, now=NOW, visibility=0)
            old += [leased.receipt, updated.receipt]
        assert len(set(old)) == 200

    @given(
        st.lists(
            st.tuples(st.floats(0, 4e9, allow_nan=False), st.booleans()), min_size=1, max_size=50
        )
    )
    def test_look_like_the_services_and_never_repeat(self, calls):
        minter = Minter()
        receipts = [minter.receipt(now, updated=updated) for now, updated in calls]
        assert len(set(receipts)) == len(receipts)
        for receipt, (_, updated) in zip(receipts, calls, strict=True):
            assert set("+/" if updated else "+/=") <= set(receipt)
            assert len(base64.b64decode(receipt, validate=True)) == (24 if updated else 20)

    def test_queues_of_an_account_share_none(self):
        account = ModelAccount()
        for name in ("one", "two"):
            account.create(name)
        messages = [account.queue(name).put("x", now=NOW) for name in ("one", "two") * 5]
        assert len({m.receipt for m in messages}) == len({m.id for m in messages}) == 10

    @pytest.mark.parametrize(
        ("receipt", "refusal"),
        [
            ("AgAAAAMAAAAA+/AAAAAAAAAA1QE=", (404, "MessageNotFound")),
            ("AAAA", (404, "MessageNotFound")),
            # Not percent-encoded, a plus arrives as a blank.
            ("AgAAAAMAAAAA /AAAAAAAAAA1QE=", (400, "InvalidQueryParameterValue")),
            ("invalid", (400, "InvalidQueryParameterValue")),
            ("ünsinn", (400, "InvalidQueryParameterValue")),
            ("", (400, "InvalidQueryParameterValue")),
        ],
    )
    def test_made_up(self, queue, receipt, refusal):
        message = queue.put("x", now=NOW)
        assert refused(queue.delete, message.id, receipt, now=NOW) == refusal
        assert refused(queue.update, message.id, receipt, now=NOW, visibility=1) == refusal
        assert queue.messages(now=NOW) == [message]

    def test_of_another_message(self, queue):
        one, other = queue.put("1", now=NOW), queue.put("2", now=NOW)
        assert refused(queue.delete, one.id, other.receipt, now=NOW) == (404, "MessageNotFound")

    @pytest.mark.parametrize("event", ["dequeue", "update", "delete", "expire", "clear"])
    def test_void_after(self, queue, event):
        queue.put("x", now=NOW, ttl=100)
        [old] = queue.dequeue(now=NOW, visibility=10)
        at = NOW + 20
        if event == "dequeue":
            queue.dequeue(now=at)
        elif event == "update":
            queue.update(old.id, old.receipt, now=at, visibility=0)
        elif event == "delete":
            queue.delete(old.id, old.receipt, now=at)
        elif event == "expire":
            at = NOW + 100
        else:
            queue.clear()
        gone = (404, "MessageNotFound")
        assert refused(queue.update, old.id, old.receipt, now=at, visibility=5) == gone
        assert refused(queue.delete, old.id, old.receipt, now=at) == gone


class TestUpdate:
    @pytest.mark.parametrize("visibility", [0, 1, 7 * DAY])
    def test_sets_the_visible_time_and_keeps_the_rest(self, queue, visibility):
        queue.put("x", now=NOW)
        [leased] = queue.dequeue(now=NOW, visibility=10)
        updated = queue.update(leased.id, leased.receipt, now=NOW + 1, visibility=visibility)
        assert updated == leased._replace(
            next_visible=NOW + 1 + visibility, receipt=updated.receipt, visible=visibility == 0
        )
        assert updated.receipt != leased.receipt
        queue.delete(updated.id, updated.receipt, now=NOW + 1)

    @pytest.mark.parametrize("visibility", [-1, 7 * DAY + 1])
    def test_visibility_out_of_range(self, queue, visibility):
        message = queue.put("x", now=NOW)
        assert refused(
            queue.update, message.id, message.receipt, now=NOW, visibility=visibility
        ) == (400, "OutOfRangeQueryParameterValue")

    def test_released_messages_go_behind_those_already_visible(self, queue):
        for text in "abc":
            queue.put(text, now=NOW)
        [leased] = queue.dequeue(now=NOW + 1)
        queue.update(leased.id, leased.receipt, now=NOW + 2, visibility=0)
        assert [m.text for m in queue.dequeue(now=NOW + 2, count=32)] == ["b", "c", "a"]


class TestCountAndExpiry:
    def test_expired_messages_vanish_even_when_leased(self, queue):
        queue.put("short", now=NOW, ttl=10)
        queue.put("long", now=NOW, ttl=20)
        queue.put("ever", now=NOW, ttl=-1)
        queue.dequeue(now=NOW, visibility=100)
        assert queue.approximate_count(now=NOW + 9.9) == 3
        assert queue.approximate_count(now=NOW + 10) == 2
        assert [m.text for m in queue.peek(now=NOW + 19, count=32)] == ["long", "ever"]
        assert [m.text for m in queue.messages(now=NOW + 100 * 365 * DAY)] == ["ever"]

    def test_clear(self, queue):
        for _ in range(3):
            queue.put("x", now=NOW)
        queue.dequeue(now=NOW)
        queue.clear()
        assert queue.approximate_count(now=NOW) == 0
        assert queue.dequeue(now=NOW + 60) == []

    def test_what_is_gone_leaves_nothing_behind(self, queue):
        kept = queue.put("kept", now=NOW, ttl=-1)
        for _ in range(200):
            message = queue.put("x", now=NOW)
            for _ in range(5):
                message = queue.update(message.id, message.receipt, now=NOW, visibility=60)
            queue.delete(message.id, message.receipt, now=NOW)
        full = ModelQueue()
        for _ in range(100):
            full.put("x", now=NOW)
        assert len(pickle.dumps(queue)) < len(pickle.dumps(full))
        assert queue.messages(now=NOW) == [kept]


class TestAccount:
    @pytest.mark.parametrize("name", ["abc", "a-b", "0orders-1", "a" * 63])
    def test_legal_names(self, name):
        account = ModelAccount()
        assert account.create(name) is True
        assert account.names() == [name]

    @pytest.mark.parametrize(
        ("name", "code"),
        [
            ("ab", "OutOfRangeInput"),
            ("a" * 64, "OutOfRangeInput"),
            ("Orders", "InvalidResourceName"),
            ("a--b", "InvalidResourceName"),
            ("-ab", "InvalidResourceName"),
            ("ab-", "InvalidResourceName"),
            ("a_b", "InvalidResourceName"),
        ],
    )
    def test_illegal_names(self, name, code):
        assert refused(ModelAccount().create, name) == (400, code)

    def test_metadata(self):
        account = ModelAccount()
        account.create("orders")
        account.set_metadata("orders", {"Owner": "me"})
        assert account.metadata("orders") == {"Owner": "me"}
        assert refused(account.set_metadata, "orders", {"a-b": "x"}) == (400, "InvalidMetadata")

    def test_a_deleted_queue_comes_back_empty(self):
        account = ModelAccount()
        account.create("orders")
        first = account.queue("orders").put("x", now=NOW)
        account.delete("orders")
        assert account.names() == []
        account.create("orders")
        second = account.queue("orders").put("x", now=NOW)
        assert second.id != first.id
        assert account.queue("orders").approximate_count(now=NOW) == 1

    def test_same_seed_same_ids(self):
        ids = []
        for seed in (1, 1, 2):
            account = ModelAccount(seed)
            account.create("orders")
            ids.append(account.queue("orders").put("x", now=NOW).id)
        assert ids[0] == ids[1] != ids[2]


def test_a_copy_of_a_queue_goes_its_own_way(queue):
    message = queue.put("x", now=NOW)
    other = copy.deepcopy(queue)
    queue.delete(message.id, message.receipt, now=NOW)
    assert other.messages(now=NOW) == [message]
    other.delete(message.id, message.receipt, now=NOW)


def test_refusals_can_be_pickled():
    error = Refusal(404, "QueueNotFound", "no", (("Reason", "x"),))
    again = pickle.loads(pickle.dumps(error))
    assert (again.status, again.code, again.message, again.details, str(again)) == (
        404,
        "QueueNotFound",
        "no",
        (("Reason", "x"),),
        "404 QueueNotFound: no",
    )


class TestClock:
    def test_frozen(self):
        clock = FakeClock(NOW, frozen=True)
        assert clock.now() == clock.now() == NOW
        assert clock.advance(30) == NOW + 30
        assert clock.now() == NOW + 30

    def test_runs_along_with_real_time(self):
        clock = FakeClock(NOW)
        first = clock.now()
        assert NOW <= first < NOW + 60
        assert clock.now() >= first
        assert clock.advance(3600) >= first + 3600

    def test_never_backwards(self):
        with pytest.raises(ValueError, match="forward"):
            FakeClock().advance(-1)
