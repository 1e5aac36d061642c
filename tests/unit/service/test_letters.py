"""Letters: what is written is read back, and no other text is taken for one."""

import json

import pytest
from refs import ORDERS

from spark_azqueue.errors import InvalidRow
from spark_azqueue.service.encoding import MAX_STORED_BYTES, Encoding, can_be_put, utf8_size
from spark_azqueue.service.letters import (
    BodyEncoding,
    Letter,
    letter_of,
    letter_text,
    poison_letter,
    poison_letters,
    stored_text,
)
from spark_azqueue.service.messages import Message


def message(text):
    return Message(ORDERS, "id-1", text, 1_700_000_000_000_000, 0, 4)


@pytest.mark.parametrize("text", ["plain", '{"a": "ü€"}', "line\r\nnext\t", "\ufffd<&>", ""])
def test_a_poison_letter_gives_the_text_back_unchanged(text):
    letter = letter_of(poison_letter(message(text), "it failed 3 times"))

    assert (letter.reason, letter.queue, letter.message_id) == (
        "it failed 3 times",
        ORDERS.name,
        "id-1",
    )
    assert stored_text(letter, Encoding.BASE64) == text


def test_a_poison_letter_says_when_and_how_often():
    told = json.loads(poison_letter(message("a"), "why"))

    assert told["insertion_time"] == "2023-11-14T22:13:20Z"
    assert told["dequeue_count"] == 4


def test_a_text_that_leaves_no_room_makes_no_letter():
    assert poison_letter(message("a" * MAX_STORED_BYTES), "why") is None


def test_a_long_reason_makes_room_for_the_body():
    letter = poison_letter(message("a" * 60_000), "r" * 9_000)

    assert utf8_size(letter) <= MAX_STORED_BYTES
    assert letter_of(letter).reason == "r" * 1_000


@pytest.mark.parametrize(
    "text", ["\x01", "a\x00" * 30_000, "\x01\ufffe\udc00" * 40_000, "ü€\U0001f600" * 30_000]
)
def test_a_text_that_no_queue_can_hold_is_whole_in_letters_that_each_can(text):
    letters = poison_letters(message(text), "r" * 5_000)

    assert all(can_be_put(letter) for letter in letters)
    told = [json.loads(letter) for letter in letters]
    assert "".join(each["body"] for each in told) == text
    if len(letters) > 1:
        parts = [(each["part"], each["parts"], each["complete"]) for each in told]
        assert parts == [(n, len(letters), False) for n in range(1, len(letters) + 1)]
        assert not any(map(letter_of, letters)), "redrive leaves them"


@pytest.mark.parametrize(
    ("kind", "body", "encoding", "stored"),
    [
        (BodyEncoding.TEXT, "hi", Encoding.NONE, "hi"),
        (BodyEncoding.TEXT, "hi", Encoding.BASE64, "aGk="),
        (BodyEncoding.BASE64, "aGk=", Encoding.NONE, "hi"),
        (BodyEncoding.BASE64, "//8=", Encoding.BASE64, "//8="),
        (BodyEncoding.STORED, "aGk", Encoding.BASE64, "aGk"),
    ],
)
def test_a_body_is_stored_as_its_sender_did(kind, body, encoding, stored):
    letter = letter_of(letter_text("orders", "id-1", None, body, kind))

    assert letter == Letter("orders", "id-1", body, kind)
    assert stored_text(letter, encoding) == stored


@pytest.mark.parametrize("body", ["//8=", "no base64!"])
def test_a_body_that_cannot_be_stored_is_refused(body):
    with pytest.raises(InvalidRow):
        stored_text(Letter("orders", "id-1", body, BodyEncoding.BASE64), Encoding.NONE)


GOOD = {"queue": "orders", "message_id": "id", "body": "b", "body_encoding": "text"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        json.dumps([GOOD]),
        json.dumps(GOOD)[:-1],
        json.dumps(GOOD | {"body": 1}),
        json.dumps(GOOD | {"queue": None}),
        json.dumps(GOOD | {"body_encoding": "rot13"}),
        json.dumps(GOOD | {"body_encoding": ["text"]}),
        json.dumps(GOOD | {"complete": False}),
        '{"body_encoding":' + "[" * 60_000,
        '{"body_encoding": ' + "9" * 60_000 + "}",
    ],
)
def test_no_other_text_is_a_letter(text):
    assert letter_of(text) is None


def test_an_odd_reason_is_none():
    assert letter_of(json.dumps(GOOD | {"reason": {"a": 1}})).reason == ""
