"""What becomes of a message that is given up: an envelope, a bare copy, or nothing."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from spark_azqueue.errors import InvalidRow
from spark_azqueue.service.encoding import BodyType, Encoding, decode, encode
from spark_azqueue.sink.dead_letters import Copy, Given, copy_of


def given(body: Any, *, reason: str | None = "why", stored: str | None = None) -> Given:
    return Given("m1", "orders", reason, body, stored)


def envelope(copy: Copy) -> dict[str, Any]:
    assert not copy.bare
    return json.loads(copy.text)


@pytest.mark.parametrize("body", ["tea", "", 'a "quote"\n\t\u20ac', "\ufffe\x00 odd", "\U0001f600"])
@pytest.mark.parametrize("encoding", [Encoding.NONE, Encoding.BASE64])
def test_an_envelope_holds_the_body_unchanged(body: str, encoding: Encoding) -> None:
    copy = copy_of(given(body), encoding, in_blobs=False)

    assert envelope(copy) == {
        "reason": "why",
        "queue": "orders",
        "message_id": "m1",
        "body": body,
        "body_encoding": "text",
        "written_by": "spark-azqueue",
    }
    encode(copy.text, encoding)  # the service takes it


def test_bytes_are_kept_as_base64() -> None:
    found = envelope(copy_of(given(bytearray(b"\xff\x00x")), Encoding.NONE, in_blobs=False))

    assert found["body_encoding"] == "base64"
    assert base64.b64decode(found["body"]) == b"\xff\x00x"


@pytest.mark.parametrize("text", ["not base64!", ""])
def test_a_text_that_could_not_be_decoded_is_kept_as_it_was_stored(text: str) -> None:
    found = envelope(copy_of(given(None, stored=text), Encoding.BASE64, in_blobs=False))

    assert (found["body"], found["body_encoding"]) == (text, "stored")


def test_a_body_counts_before_a_stored_text() -> None:
    assert envelope(copy_of(given("", stored="x"), Encoding.NONE, in_blobs=False))["body"] == ""


def test_without_a_reason_the_envelope_has_none() -> None:
    assert "reason" not in envelope(copy_of(given("x", reason=None), Encoding.NONE, in_blobs=False))


def test_without_a_body_and_a_text_nothing_can_be_copied() -> None:
    with pytest.raises(InvalidRow, match="its text is in the column '_corrupt_record': keep that"):
        copy_of(given(None), Encoding.NONE, in_blobs=True)


def test_a_long_reason_is_cut_before_the_body_loses_its_envelope() -> None:
    copy = copy_of(given("b" * 60_000, reason="r" * 10_000), Encoding.NONE, in_blobs=False)

    found = envelope(copy)
    assert found["body"] == "b" * 60_000
    assert found["reason"] == "r" * 1000


@pytest.mark.parametrize(
    ("body", "source", "sink"),
    [
        ("y" * 65_536, Encoding.NONE, Encoding.NONE),
        ("\n" * 40_000, Encoding.NONE, Encoding.NONE),
        ("y" * 65_536, Encoding.NONE, Encoding.BASE64),
        ("y" * 49_152, Encoding.BASE64, Encoding.BASE64),
        ("\x00" * 49_152, Encoding.BASE64, Encoding.NONE),
        ("\u20ac" * 21_845, Encoding.NONE, Encoding.NONE),
        (b"y" * 65_536, Encoding.NONE, Encoding.NONE),
        (b"\xff" * 49_152, Encoding.BASE64, Encoding.NONE),
        (b"\xff" * 49_152, Encoding.BASE64, Encoding.BASE64),
    ],
)
def test_any_body_of_a_message_that_leaves_no_room_is_copied_bare(
    body: Any, source: Encoding, sink: Encoding
) -> None:
    stored = encode(body, source)  # so it was a message

    copy = copy_of(given(body), sink, in_blobs=False)

    assert copy == Copy(stored, bare=True)
    encode(copy.text, Encoding.NONE)  # the service takes it
    kind = BodyType.STRING if isinstance(body, str) else BodyType.BINARY
    assert decode(copy.text, source, kind) == body


def test_a_stored_text_that_leaves_no_room_is_copied_as_it_is() -> None:
    text = "=" * 65_536

    found = copy_of(given(None, stored=text), Encoding.BASE64, in_blobs=False)
    assert found == Copy(text, bare=True)


def test_a_body_of_a_blob_needs_a_blob_again() -> None:
    body = "y" * 65_537

    with pytest.raises(InvalidRow, match=r"65,537 bytes.*Set largeBody=blob"):
        copy_of(given(body), Encoding.NONE, in_blobs=False)
    assert envelope(copy_of(given(body), Encoding.NONE, in_blobs=True))["body"] == body
