"""Envelopes: what is written is read back, and no other text is taken for one."""

import json

import pytest
from refs import ORDERS

from spark_azqueue.errors import InvalidRow
from spark_azqueue.service.encoding import MAX_STORED_BYTES, Encoding, can_be_put, utf8_size
from spark_azqueue.service.envelopes import (
    BodyEncoding,
    DeadLetterEnvelope,
    envelope_of,
    envelope_text,
    poison_envelope,
    poison_envelopes,
    stored_text,
)
from spark_azqueue.service.messages import Message


def message(text):
    return Message(ORDERS, "id-1", text, 1_700_000_000_000_000, 0, 4)


@pytest.mark.parametrize("text", ["plain", '{"a": "ü€"}', "line\r\nnext\t", "\ufffd<&>", ""])
def test_a_poison_envelope_gives_the_text_back_unchanged(text):
    envelope = envelope_of(poison_envelope(message(text), "it failed 3 times"))

    assert (envelope.reason, envelope.queue, envelope.message_id) == (
        "it failed 3 times",
        ORDERS.name,
        "id-1",
    )
    assert stored_text(envelope, Encoding.BASE64) == text


def test_a_poison_envelope_says_when_and_how_often():
    told = json.loads(poison_envelope(message("a"), "why"))

    assert told["insertion_time"] == "2023-11-14T22:13:20Z"
    assert told["dequeue_count"] == 4


def test_a_text_that_leaves_no_room_makes_no_envelope():
    assert poison_envelope(message("a" * MAX_STORED_BYTES), "why") is None


def test_a_long_reason_makes_room_for_the_body():
    envelope = poison_envelope(message("a" * 60_000), "r" * 9_000)

    assert utf8_size(envelope) <= MAX_STORED_BYTES
    assert envelope_of(envelope).reason == "r" * 1_000


@pytest.mark.parametrize(
    "text", ["\x01", "a\x00" * 30_000, "\x01\ufffe\udc00" * 40_000, "ü€\U0001f600" * 30_000]
)
def test_a_text_that_no_queue_can_hold_is_whole_in_envelopes_that_each_can(text):
    envelopes = poison_envelopes(message(text), "r" * 5_000)

    assert all(can_be_put(envelope) for envelope in envelopes)
    told = [json.loads(envelope) for envelope in envelopes]
    assert "".join(each["body"] for each in told) == text
    if len(envelopes) > 1:
        parts = [(each["part"], each["parts"], each["complete"]) for each in told]
        assert parts == [(n, len(envelopes), False) for n in range(1, len(envelopes) + 1)]
        for envelope in envelopes:  # so redrive leaves them
            with pytest.raises(InvalidRow, match="but a part of the body"):
                stored_text(envelope_of(envelope), Encoding.NONE)


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
    envelope = envelope_of(envelope_text("orders", "id-1", None, body, kind))

    assert envelope == DeadLetterEnvelope("orders", "id-1", body, kind)
    assert stored_text(envelope, encoding) == stored


@pytest.mark.parametrize("body", ["//8=", "no base64!"])
def test_a_body_that_cannot_be_stored_is_refused(body):
    with pytest.raises(InvalidRow):
        stored_text(DeadLetterEnvelope("orders", "id-1", body, BodyEncoding.BASE64), Encoding.NONE)


ID = "5f0c3a3e-0000-4000-8000-1234567890ab"
GOOD = {"queue": "orders", "message_id": ID, "body": "b", "body_encoding": "text"}
MARKED = GOOD | {"written_by": "spark-azqueue"}


def compact(fields):
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":"))


OLDER = [
    (
        f'{{"reason":"why","queue":"orders","message_id":"{ID}","body":"tea","body_encoding":"text"}}',
        DeadLetterEnvelope("orders", ID, "tea", BodyEncoding.TEXT, "why"),
    ),
    (
        f'{{"queue":"orders","message_id":"{ID}","body":"/w==","body_encoding":"base64"}}',
        DeadLetterEnvelope("orders", ID, "/w==", BodyEncoding.BASE64),
    ),
    (
        f'{{"reason":"ü\\n\\ud800","queue":"orders","message_id":"{ID.upper()}",'
        '"insertion_time":"2023-11-14T22:13:20Z","dequeue_count":4,'
        '"body":"{\\"a\\": 1}\\uffff","body_encoding":"stored"}',
        DeadLetterEnvelope(
            "orders", ID.upper(), '{"a": 1}\uffff', BodyEncoding.STORED, "ü\n\ud800"
        ),
    ),
]
"""Envelopes as they were written before they named their writer, and what they say."""


@pytest.mark.parametrize(("text", "envelope"), OLDER)
def test_an_envelope_that_does_not_name_its_writer_stays_readable(text, envelope):
    assert envelope_of(text) == envelope


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        json.dumps([MARKED]),
        json.dumps(MARKED)[:-1],
        json.dumps(MARKED | {"body": 1}),
        json.dumps(MARKED | {"queue": None}),
        json.dumps(MARKED | {"body_encoding": "rot13"}),
        json.dumps(MARKED | {"body_encoding": ["text"]}),
        json.dumps(MARKED | {"reason": {"a": 1}}),
        json.dumps(MARKED | {"dequeue_count": True}),
        json.dumps(MARKED | {"written_by": "shop"}),
        json.dumps(MARKED | {"written_by": ["spark-azqueue"]}),
        json.dumps(MARKED).replace('"b"', '"b", "body": "c"'),
        '{"body_encoding":' + "[" * 60_000,
        '{"body_encoding": ' + "9" * 60_000 + "}",
    ],
)
def test_no_other_text_is_an_envelope(text):
    assert envelope_of(text) is None


@pytest.mark.parametrize(
    "text",
    [
        compact(GOOD | {"amount": 12}),
        compact({"amount": 12} | GOOD),
        compact(GOOD | {"complete": True}),
        compact({"queue": "q", "message_id": ID, "complete": True} | GOOD),
        compact(GOOD | {"reason": "why"}),
        compact(dict(reversed(GOOD.items()))),
        compact(GOOD | {"message_id": "42"}),
        json.dumps(GOOD),
        json.dumps(GOOD, indent=2),
        compact(GOOD) + " ",
        compact(GOOD).replace('"b"', '"\\u0062"'),
        compact(GOOD).replace('"b"', '"b","body":"b"'),
    ],
)
def test_json_of_a_user_with_the_names_of_an_envelope_is_none(text):
    assert envelope_of(compact(GOOD))
    assert envelope_of(text) is None


def test_an_envelope_that_somebody_wrote_anew_is_one_if_it_names_its_writer():
    assert envelope_of(json.dumps(dict(reversed(MARKED.items())), indent=2)) == envelope_of(
        compact(MARKED)
    )


def test_an_envelope_with_a_field_that_is_not_known_is_not_opened():
    envelope = envelope_of(compact(MARKED | {"amount": 12}))

    assert envelope.unknown == "amount"
    with pytest.raises(InvalidRow, match="'amount'"):
        stored_text(envelope, Encoding.NONE)
