"""The fake's model queue and clock: what the service promises of messages, as tables."""

import base64
import pickle

import pytest

from spark_azqueue.testing import FakeClock, Refusal
from spark_azqueue.testing.model import ModelAccount, ModelQueue

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
    def test_never_backwards(self):
        with pytest.raises(ValueError, match="forward"):
            FakeClock().advance(-1)
