"""Rows to messages: each is checked before anything is sent."""

from datetime import datetime, timedelta, timezone

import pytest
from refs import ref

from spark_azqueue.errors import InvalidOption, InvalidRow, InvalidSchema
from spark_azqueue.errors.conditions import Condition
from spark_azqueue.options.parse import sink_config
from spark_azqueue.service.blobs.references import Large
from spark_azqueue.service.fields import marked
from spark_azqueue.service.messages import Lease, VisibleAt, seconds_of
from spark_azqueue.service.queues.calls import Put, Update
from spark_azqueue.sink import requests as outgoing
from spark_azqueue.sink.columns import SinkColumns, check_supplied
from spark_azqueue.sink.requests import DeleteRow, EnqueueRow, UpdateRow
from spark_azqueue.sink.row_errors import requests

ACCESS = {"accountUrl": "https://acc.queue.core.windows.net", "sasToken": "sig=x"}
ORDERS, OTHER = ref("orders", "acc"), ref("other", "acc")
BODY = SinkColumns(0, None, None, None)
LEASED = SinkColumns(message_id=0, pop_receipt=1, queue=2, body=3, visibility_delay=4)
ALL = SinkColumns(body=0, queue=1, visibility_delay=2, time_to_live=3)


def config(**given):
    options = {**ACCESS, "queue": "orders", **given}
    return sink_config({name: value for name, value in options.items() if value}, {})


def refused(row, columns=ALL, **given):
    with pytest.raises(InvalidRow) as caught:
        list(requests([row], columns, config(**given)))
    text = str(caught.value)
    assert text.startswith("[AZQUEUE_INVALID_ROW] row 0 of this task cannot be sent: ")
    return text


def test_a_row_with_a_body_alone():
    assert list(requests([("a",), (b"b",), (bytearray(b"c"),)], BODY, config())) == [
        EnqueueRow(ORDERS, "a", 0, None, row=0),
        EnqueueRow(ORDERS, "b", 0, None, row=1),
        EnqueueRow(ORDERS, "c", 0, None, row=2),
    ]


@pytest.mark.parametrize(
    ("row", "given", "sent"),
    [
        (("a", None, None, None), {}, EnqueueRow(ORDERS, "a", 0, None, row=0)),
        (("a", "other", None, None), {}, EnqueueRow(OTHER, "a", 0, None, row=0)),
        (("a", "other", None, None), {"queue": None}, EnqueueRow(OTHER, "a", 0, None, row=0)),
        (("a", None, 5, 60), {}, EnqueueRow(ORDERS, "a", 5, 60, row=0)),
        (("a", None, 0, -1), {}, EnqueueRow(ORDERS, "a", 0, -1, row=0)),
        (("a", None, 604_800, -1), {}, EnqueueRow(ORDERS, "a", 604_800, -1, row=0)),
        (
            ("a", None, None, None),
            {"visibilityDelay": "5", "timeToLive": "60"},
            EnqueueRow(ORDERS, "a", 5, 60, row=0),
        ),
        (
            ("a", None, 0, 10),
            {"visibilityDelay": "5", "timeToLive": "60"},
            EnqueueRow(ORDERS, "a", 0, 10, row=0),
        ),
        (("", None, None, None), {}, EnqueueRow(ORDERS, "", 0, None, row=0)),
        (
            ("a", None, None, None),
            {"messageEncoding": "base64"},
            EnqueueRow(ORDERS, "YQ==", 0, None, row=0),
        ),
    ],
)
def test_a_value_of_the_row_goes_before_the_option_and_null_means_the_option(row, given, sent):
    assert list(requests([row], ALL, config(**given))) == [sent]


@pytest.mark.parametrize(
    ("row", "given", "says"),
    [
        ((None, None, None, None), {}, "the body is null"),
        (("a", None, None, None), {"queue": None}, "its queue is null"),
        (("a", "No", None, None), {}, "its queue is 'No'; expected a queue name"),
        (("a", None, -1, None), {}, "visibility_delay is -1"),
        (("a", None, 604_801, None), {}, "visibility_delay is 604801"),
        (("a", None, None, 0), {}, "time_to_live is 0"),
        (("a", None, None, -2), {}, "time_to_live is -2"),
        (("a", None, 60, 60), {}, "60 s is not below the time to live of 60 s"),
        (("a", None, 604_800, None), {}, "not below the time to live of 604800 s"),
        (("a", None, None, 5), {"visibilityDelay": "5"}, "5 s is not below"),
        (("a\x00", None, None, None), {}, "U+0000"),
        ((b"\xff", None, None, None), {}, "not UTF-8"),
        (("a" * 65_537, None, None, None), {}, "65,537 bytes"),
    ],
)
def test_a_row_that_cannot_be_sent_is_named_with_the_reason(row, given, says):
    assert says in refused(row, **given)


@pytest.mark.parametrize(
    ("delay", "ttl", "fits"),
    [
        (604_740, None, True),
        (604_741, None, False),
        (604_740, 604_799, True),
        (604_798, 604_799, False),
        (86_399, 86_400, True),  # it has a day more
    ],
)
def test_a_delay_leaves_a_hidden_message_a_minute_to_be_visible(delay, ttl, fits):
    row = ("a", None, delay, ttl)
    if fits:
        assert len(list(requests([row], ALL, config(transactionLog="file:/log")))) == 1
    else:
        said = refused(row, transactionLog="file:/log")
        assert f"the delay of {delay} s is too long: with 'transactionLog' it is at most" in said
        assert len(list(requests([row], ALL, config()))) == 1


def test_the_number_of_a_bad_row_is_its_place_in_the_task():
    rows = iter([("a",), ("b",), (None,), ("d",)])

    with pytest.raises(InvalidRow, match="row 2 of this task"):
        list(requests(rows, BODY, config()))


def test_rows_are_read_as_they_are_needed():
    def rows():
        yield ("a",)
        raise AssertionError("asked for too early")

    assert next(requests(rows(), BODY, config())).text == "a"


def test_an_error_of_the_rows_themselves_is_not_ours_to_word():
    def rows():
        yield ("a",)
        raise ValueError("of the user's own function")

    with pytest.raises(ValueError, match="of the user's own function") as caught:
        list(requests(rows(), BODY, config()))

    assert not isinstance(caught.value, InvalidRow)


def leased(*row):
    """A row of an update or delete, what is left out being null."""
    return (*row, *[None] * (5 - len(row)))


@pytest.mark.parametrize(
    ("row", "given", "sent"),
    [
        (leased("a-1", "r+/="), {}, UpdateRow(Lease(ORDERS, "a-1", "r+/="), 0, None, row=0)),
        (
            leased("a-1", "r", "other", "text", 60),
            {},
            UpdateRow(Lease(OTHER, "a-1", "r"), 60, "text", row=0),
        ),
        (
            leased("a-1", "r", None, b"text"),
            {"messageEncoding": "base64", "visibilityDelay": "5"},
            UpdateRow(Lease(ORDERS, "a-1", "r"), 5, "dGV4dA==", row=0),
        ),
        # An empty text is a text; null keeps the one that is there.
        (leased("a-1", "r", None, ""), {}, UpdateRow(Lease(ORDERS, "a-1", "r"), 0, "", row=0)),
        (
            leased("a-1", "r", "other"),
            {"operation": "delete"},
            DeleteRow(Lease(OTHER, "a-1", "r"), row=0),
        ),
    ],
)
def test_updates_and_deletes(row, given, sent):
    options = {"operation": "update", **given}

    assert list(requests([row], LEASED, config(**options))) == [sent]


@pytest.mark.parametrize("operation", ["update", "delete"])
@pytest.mark.parametrize(
    ("row", "given", "says"),
    [
        (leased(None, "r"), {}, "its message_id is None"),
        (leased("", "r"), {}, "its message_id is ''"),
        # It would be a part of the address.
        (leased("..", "r"), {}, "its message_id is '..'"),
        (leased("a/b", "r"), {}, "its message_id is 'a/b'"),
        (leased("a-1", None), {}, "message a-1 has no pop_receipt"),
        (leased("a-1", ""), {}, "deleteOnCommit=false"),
        (leased("a-1", "r", None), {"queue": None}, "its queue is null"),
        (leased("a-1", "r", "No"), {}, "its queue is 'No'"),
    ],
)
def test_an_update_or_delete_that_names_no_message_is_refused(operation, row, given, says):
    assert says in refused(row, LEASED, operation=operation, **given)


@pytest.mark.parametrize("operation", ["update", "delete"])
def test_a_message_that_its_source_deletes_is_refused_for_the_options_of_the_source(operation):
    rows = [leased("a-1", "r"), leased("a-2", marked("r"))]
    made = requests(rows, LEASED, config(operation=operation))
    next(made)

    with pytest.raises(InvalidOption, match="message a-2 is from a stream with") as caught:
        next(made)
    assert caught.value.condition is Condition.DELETED_ON_COMMIT


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (leased("a-1", "r", None, "a\x00"), "U+0000 at position 1"),
        (leased("a-1", "r", None, "x" * 65_537), "65,537 bytes"),
        (leased("a-1", "r", None, None, -1), "visibility_delay is -1"),
    ],
)
def test_an_update_to_what_cannot_be_stored_is_refused(row, says):
    assert says in refused(row, LEASED, operation="update")


def test_only_what_is_too_large_or_looks_like_a_reference_goes_by_blob():
    given = {"largeBody": "blob", "blobContainer": "bodies"}
    bodies = ["x" * 65_536, "x" * 65_537, "é" * 32_769, b"x" * 65_537, '{"azqueue-blob":0}', "a"]
    sent = list(requests([(b,) for b in bodies], BODY, config(**given)))

    assert [each.large or each.text for each in sent] == [
        "x" * 65_536,
        Large(b"x" * 65_537, True),
        Large(("é" * 32_769).encode(), True),
        Large(b"x" * 65_537, False),
        Large(b'{"azqueue-blob":0}', True),
        "a",
    ]
    # Base64 makes a third more of it.
    given["messageEncoding"] = "base64"
    sent = list(requests([("x" * 49_152,), ("x" * 49_153,)], BODY, config(**given)))
    assert [each.large is not None for each in sent] == [False, True]


def test_a_large_body_may_hold_what_a_message_may_not():
    given = {"largeBody": "blob", "blobContainer": "bodies"}
    (sent,) = requests([("\x00" * 70_000,)], BODY, config(**given))

    assert sent.large.data == b"\x00" * 70_000
    assert 70_000 < sent.size < 71_000
    assert "U+0000" in refused(("\x00",), BODY, **given)


def test_a_body_that_no_source_would_fetch_is_not_sent(monkeypatch):
    monkeypatch.setattr(outgoing, "MAX_BODY_BYTES", 100_000)
    given = {"largeBody": "blob", "blobContainer": "bodies"}
    whole = list(requests([("x" * 100_000,)], BODY, config(**given)))
    assert len(whole[0].large.data) == 100_000

    for body in ("x" * 100_001, "é" * 50_001, b"x" * 100_001):
        with pytest.raises(InvalidRow, match=r"at most 100,000 for a message"):
            list(requests([(body,)], BODY, config(**given)))


NOW = 1_800_000_000.0
TIMED = SinkColumns(body=0, visible_at=1)


@pytest.mark.parametrize(
    ("seconds", "delay"),
    [(-60, 0), (0, 0), (0.2, 1), (1, 1), (3_600.5, 3_601), (604_800, 604_800)],
)
@pytest.mark.parametrize("zone", [timezone.utc, timezone(timedelta(hours=9)), None])
def test_a_message_is_visible_at_its_time_and_never_before(seconds, delay, zone):
    at = datetime.fromtimestamp(NOW + seconds, zone)

    (request,) = requests([("a", at)], TIMED, config(timeToLive="-1"), lambda: NOW)
    assert seconds_of(request.delay_s, NOW) == delay

    leased = SinkColumns(message_id=0, pop_receipt=1, visible_at=2)
    row = ("00000000-0000-0000-0000-000000000001", "r", at)
    (update,) = requests([row], leased, config(operation="update"), lambda: NOW)
    assert seconds_of(update.visibility_s, NOW) == delay


def test_a_delay_until_a_moment_counts_from_the_request():
    until = VisibleAt(NOW + 60)
    assert [seconds_of(until, NOW + passed) for passed in (0, 0.5, 13, 59.9, 60, 99)] == [
        *(60, 60, 47, 1, 0, 0)
    ]
    assert seconds_of(60, NOW + 13) == 60
    assert seconds_of(VisibleAt(NOW + 604_800), NOW - 1) == 604_800  # a clock that was set back

    put, update = Put(ORDERS, "a", until), Update(Lease(ORDERS, "a-1", "r"), until)
    assert put.request(NOW + 13).query == "visibilitytimeout=47"
    assert put.request(NOW + 99).query == ""
    assert update.request(NOW + 13).query == "popreceipt=r&visibilitytimeout=47"


def test_a_row_without_a_time_takes_the_delay_of_the_options():
    (request,) = requests([("a", None)], TIMED, config(visibilityDelay="5"), lambda: NOW)

    assert request.delay_s == 5


def test_a_time_that_is_too_far_away():
    at = datetime.fromtimestamp(NOW + 604_801, timezone.utc)

    with pytest.raises(InvalidRow, match=r"visible_at is 2027.*at most 604800 s from now"):
        list(requests([("a", at)], TIMED, config(timeToLive="-1"), lambda: NOW))


def test_a_delay_and_a_time_do_not_go_together():
    columns = (("body", "string"), ("visibility_delay", "int"), ("visible_at", "timestamp"))

    with pytest.raises(InvalidSchema, match="'visibility_delay' and 'visible_at' both say"):
        check_supplied(columns, ignore_extra=False, queue="orders")
