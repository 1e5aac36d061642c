"""Ids, receipts, counts, times and pauses as the service writes them, and what is none of them."""

import pytest

from spark_azqueue.service import fields

DATE = "Tue, 14 Nov 2023 22:13:20 GMT"


@pytest.mark.parametrize("text", ["a", "9f0b-AZ", "x" * 64])
def test_an_id(text):
    assert fields.is_message_id(text)


@pytest.mark.parametrize(
    "text", ["", "x" * 65, "..", "a/b", "a%2f", "a b", "a\n", "²", "é", "a\x1b"]
)
def test_what_cannot_be_an_id(text):
    assert not fields.is_message_id(text)


@pytest.mark.parametrize("text", ["AgAAAAMAAAA+/=", "r", "a b", "x" * 512])
def test_a_receipt(text):
    assert fields.is_receipt(text)


@pytest.mark.parametrize("text", ["", "x" * 513, 'a"b', "a\\b", "a\r\nb", "é", "a\n", "\x00"])
def test_what_cannot_be_a_receipt(text):
    assert not fields.is_receipt(text)


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("007", 7), ("100", 100)])
def test_a_count(text, number):
    assert fields.count(text, 100) == number


@pytest.mark.parametrize("text", ["", "-1", "+1", "²", "٣", "1.0", "1e2", " 1", "101", "9" * 5000])
def test_what_is_no_count(text):
    assert fields.count(text, 100) is None


def test_an_http_date_in_seconds():
    assert fields.moment(DATE) == 1_700_000_000
    assert fields.moment("Fri, 31 Dec 9999 23:59:59 GMT") == 253_402_300_799


@pytest.mark.parametrize(
    "text",
    [
        "",
        "garbage",
        "2023-11-14T22:13:20Z",
        "Tue, 14 Nov 2023 22:13:20 -0000",
        "Tue, 14 Nov 2023 22:13:20 EST",
        "Tue, 31 Feb 2023 22:13:20 GMT",
        "Tue, 14 Xyz 2023 22:13:20 GMT",
        "Tue, 14 Nov 2023 24:13:20 GMT",
        "Tue, 14 Nov 0000 22:13:20 GMT",
        "Thu, 01 Jan 1970 00:00:00 GMT",
        "Tue, ²4 Nov 2023 22:13:20 GMT",
        DATE + " " * 100_000,
    ],
)
def test_what_is_no_http_date(text):
    assert fields.moment(text) is None


@pytest.mark.parametrize(
    ("text", "pause"),
    [
        ("0", 0.0),
        ("7", 7.0),
        ("9" * 5000, 86_400.0),
        ("Tue, 14 Nov 2023 22:13:27 GMT", 7.0),
        ("Tue, 14 Nov 2023 22:00:00 GMT", 0.0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 86_400.0),
    ],
)
def test_a_pause(text, pause):
    assert fields.pause_s(text, 1_700_000_000.0) == pause


@pytest.mark.parametrize("text", ["", "²", "-1", "1.5", "soon", "inf", "nan"])
def test_what_is_no_pause(text):
    assert fields.pause_s(text, 1_700_000_000.0) is None
