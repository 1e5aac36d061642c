"""Rows to messages: each is checked before anything is sent."""

import pytest

from spark_azqueue.columns import SinkColumns
from spark_azqueue.config import sink_config
from spark_azqueue.errors import InvalidRow
from spark_azqueue.sending import Outgoing, outgoing

ACCESS = {"accountUrl": "https://acc.queue.core.windows.net", "sasToken": "sig=x"}
BODY = SinkColumns(0, None, None, None)
ALL = SinkColumns(body=0, queue=1, visibility_delay=2, time_to_live=3)


def config(**given):
    options = {**ACCESS, "queue": "orders", **given}
    return sink_config({name: value for name, value in options.items() if value}, {})


def refused(row, columns=ALL, **given):
    with pytest.raises(InvalidRow) as caught:
        list(outgoing([row], columns, config(**given)))
    text = str(caught.value)
    assert text.startswith("row 0 of this task cannot be sent: ")
    return text


def test_a_row_with_a_body_alone():
    assert list(outgoing([("a",), (b"b",), (bytearray(b"c"),)], BODY, config())) == [
        Outgoing(0, "orders", "a", 0, None),
        Outgoing(1, "orders", "b", 0, None),
        Outgoing(2, "orders", "c", 0, None),
    ]


@pytest.mark.parametrize(
    ("row", "given", "sent"),
    [
        (("a", None, None, None), {}, Outgoing(0, "orders", "a", 0, None)),
        (("a", "other", None, None), {}, Outgoing(0, "other", "a", 0, None)),
        (("a", "other", None, None), {"queue": None}, Outgoing(0, "other", "a", 0, None)),
        (("a", None, 5, 60), {}, Outgoing(0, "orders", "a", 5, 60)),
        (("a", None, 0, -1), {}, Outgoing(0, "orders", "a", 0, -1)),
        (("a", None, 604_800, -1), {}, Outgoing(0, "orders", "a", 604_800, -1)),
        (
            ("a", None, None, None),
            {"visibilityDelay": "5", "timeToLive": "60"},
            Outgoing(0, "orders", "a", 5, 60),
        ),
        (
            ("a", None, 0, 10),
            {"visibilityDelay": "5", "timeToLive": "60"},
            Outgoing(0, "orders", "a", 0, 10),
        ),
        (("", None, None, None), {}, Outgoing(0, "orders", "", 0, None)),
        (
            ("a", None, None, None),
            {"messageEncoding": "base64"},
            Outgoing(0, "orders", "YQ==", 0, None),
        ),
    ],
)
def test_a_value_of_the_row_goes_before_the_option_and_null_means_the_option(row, given, sent):
    assert list(outgoing([row], ALL, config(**given))) == [sent]


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


def test_the_number_of_a_bad_row_is_its_place_in_the_task():
    rows = iter([("a",), ("b",), (None,), ("d",)])

    with pytest.raises(InvalidRow, match="row 2 of this task"):
        list(outgoing(rows, BODY, config()))


def test_rows_are_read_as_they_are_needed():
    def rows():
        yield ("a",)
        raise AssertionError("asked for too early")

    assert next(outgoing(rows(), BODY, config())).text == "a"


def test_an_error_of_the_rows_themselves_is_not_ours_to_word():
    def rows():
        yield ("a",)
        raise ValueError("of the user's own function")

    with pytest.raises(ValueError, match="of the user's own function") as caught:
        list(outgoing(rows(), BODY, config()))

    assert not isinstance(caught.value, InvalidRow)
