"""Text to body and back: strict, message by message, and refusing what the service would refuse."""

import pytest
from refs import ORDERS

from spark_azqueue.errors import InvalidRow, UndecodableBody
from spark_azqueue.service.encoding import MAX_STORED_BYTES, BodyType, Encoding, decode, encode
from spark_azqueue.service.messages import Message

NONE, BASE64, AUTO = Encoding.NONE, Encoding.BASE64, Encoding.AUTO
STRING, BINARY = BodyType.STRING, BodyType.BINARY


@pytest.mark.parametrize(
    ("text", "encoding", "body_type", "body"),
    [
        ("hello", NONE, STRING, "hello"),
        ("hello", NONE, BINARY, b"hello"),
        ("", NONE, STRING, ""),
        ("", NONE, BINARY, b""),
        ("é😀", NONE, BINARY, "é😀".encode()),
        (" \r\n ", NONE, STRING, " \r\n "),
        # A text that happens to be base64 stays what it is: nothing is guessed.
        ("msg2", NONE, STRING, "msg2"),
        ("aGVsbG8=", BASE64, STRING, "hello"),
        ("aGVsbG8=", BASE64, BINARY, b"hello"),
        ("", BASE64, STRING, ""),
        ("8J+YgA==", BASE64, STRING, "😀"),
        ("/w==", BASE64, BINARY, b"\xff"),
        ("77u/YQ==", BASE64, STRING, "\ufeffa"),
        # With auto it is guessed.
        ("aGVsbG8=", AUTO, STRING, "hello"),
        ("aGVsbG8=", AUTO, BINARY, b"hello"),
        ("8J+YgA==", AUTO, STRING, "😀"),
        ("/w==", AUTO, BINARY, b"\xff"),
        ("/w==", AUTO, STRING, "/w=="),  # no UTF-8, so no text that somebody encoded
        ("hello", AUTO, STRING, "hello"),
        ("hello, world", AUTO, BINARY, b"hello, world"),
        ('{"a": 1}', AUTO, STRING, '{"a": 1}'),
        ("aGVsbG8", AUTO, STRING, "aGVsbG8"),  # without padding
        ("aGVsbG9=", AUTO, STRING, "aGVsbG9="),  # canonical it would be aGVsbG8=
        ("aGVs\nbG8=", AUTO, STRING, "aGVs\nbG8="),
        ("", AUTO, STRING, ""),
        ("", AUTO, BINARY, b""),
        ("é", AUTO, BINARY, "é".encode()),
        # The price: plain texts that look like base64.
        ("Zm9v", AUTO, STRING, "foo"),
        ("12345678", AUTO, STRING, "12345678"),
        ("12345678", AUTO, BINARY, b"\xd7m\xf8\xe7\xae\xfc"),
    ],
)
def test_a_text_becomes_a_body(text, encoding, body_type, body):
    assert decode(text, encoding, body_type) == body


@pytest.mark.parametrize(
    "text",
    [
        "plain text",
        "aGVsbG8",  # no padding
        "aGVsbG8=\n",
        " aGVsbG8=",
        "aGVs bG8=",
        "aGVsbG8-",  # the URL alphabet
        "é",
        "{}",
    ],
)
@pytest.mark.parametrize("body_type", [STRING, BINARY])
def test_a_text_that_is_not_base64_is_undecodable(text, body_type):
    with pytest.raises(UndecodableBody, match="messageEncoding=base64"):
        decode(text, BASE64, body_type)


def test_bytes_that_are_no_text_are_undecodable_as_a_string():
    with pytest.raises(UndecodableBody, match=r"at byte 1.*bodyType=binary"):
        decode("Yf8=", BASE64, STRING)


@pytest.mark.parametrize("text", ["confidential!", "Yf8="])
def test_the_reason_never_quotes_the_text(text):
    with pytest.raises(UndecodableBody) as caught:
        decode(text, BASE64, STRING)

    assert text not in str(caught.value)


@pytest.mark.parametrize(
    ("body", "encoding", "text"),
    [
        ("hello", NONE, "hello"),
        (b"hello", NONE, "hello"),
        (bytearray(b"hello"), NONE, "hello"),
        ("", NONE, ""),
        ("<&>\"' \t\r\n\x85\u2028😀", NONE, "<&>\"' \t\r\n\x85\u2028😀"),
        ("hello", BASE64, "aGVsbG8="),
        (b"\x00\xff", BASE64, "AP8="),
        ("\x00", BASE64, "AA=="),
        (bytearray(b""), BASE64, ""),
    ],
)
def test_a_body_becomes_a_text(body, encoding, text):
    assert encode(body, encoding) == text


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("ab\x00", "U+0000 at position 2"),
        ("\x0b", "U+000B"),
        ("\x1f", "U+001F"),
        ("\ufffe", "U+FFFE"),
        ("\uffff", "U+FFFF"),
        ("\ud800", "U+D800"),
    ],
)
def test_a_character_that_xml_cannot_hold_is_refused(body, says):
    with pytest.raises(InvalidRow) as caught:
        encode(body, NONE)

    assert says in str(caught.value)
    assert "messageEncoding=base64" in str(caught.value)


def test_bytes_that_are_no_text_need_base64():
    with pytest.raises(InvalidRow, match=r"at byte 0.*messageEncoding=base64"):
        encode(b"\xff", NONE)


@pytest.mark.parametrize(
    ("body", "encoding"),
    [
        ("a" * MAX_STORED_BYTES, NONE),
        ("é" * (MAX_STORED_BYTES // 2), NONE),
        # What XML makes longer (`&amp;`) does not count: the text as stored does.
        ("&" * MAX_STORED_BYTES, NONE),
        (b"\0" * 49_152, BASE64),
    ],
)
def test_the_largest_body_that_fits(body, encoding):
    assert len(encode(body, encoding).encode()) == MAX_STORED_BYTES


@pytest.mark.parametrize(
    ("body", "encoding"),
    [
        ("a" * (MAX_STORED_BYTES + 1), NONE),
        ("é" * (MAX_STORED_BYTES // 2) + "a", NONE),
        (b"\0" * 49_153, BASE64),
        ("a" * 49_153, BASE64),
    ],
)
def test_one_byte_more_is_refused(body, encoding):
    with pytest.raises(InvalidRow, match="at most 65,536"):
        encode(body, encoding)


@pytest.mark.parametrize(
    ("text", "size"), [("", 0), ("abc", 3), ("é", 2), ("😀", 4), ("\ud800", 3)]
)
def test_a_message_knows_its_size_as_stored(text, size):
    assert Message(ORDERS, "id", text, 0, 0, 1).size == size
