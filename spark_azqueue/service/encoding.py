"""Converts the body of a row to the stored text of a message, and back.

Each text is decoded by itself, and strictly. So a bad body does not affect other messages of the
same page.
"""

from __future__ import annotations

import base64
import binascii
import enum
import re

from spark_azqueue.errors import InvalidRow, UndecodableBody

MAX_STORED_BYTES = 65_536
"""64 KiB: maximum size of a message's text, in bytes of UTF-8."""

# XML 1.0 cannot contain these characters, so the service refuses them at put (400
# InvalidXmlDocument).
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")


class Encoding(str, enum.Enum):
    """Encoding of a body in a message's text."""

    NONE = "none"
    BASE64 = "base64"
    AUTO = "auto"
    """For reading only. A text that looks like base64 is decoded as base64; any other text is the
    body (see `decode`).
    """


class BodyType(str, enum.Enum):
    """Spark type of the column `body`."""

    STRING = "string"
    BINARY = "binary"


def utf8_size(text: str) -> int:
    """Return the number of bytes of a text in UTF-8."""
    return len(text) if text.isascii() else len(raw_bytes(text))


def can_be_put(text: str) -> bool:
    """Return False if the service would refuse the text: it is too long, or has a character that
    XML cannot contain.
    """
    return utf8_size(text) <= MAX_STORED_BYTES and not unwritable(text)


def unwritable(text: str) -> str:
    """Return the first character that XML cannot contain, in the form "U+0001"; "" if there is
    none.
    """
    found = _NOT_XML.search(text)
    return f"U+{ord(found[0]):04X}" if found else ""


def writable(text: str) -> str:
    """Return the text with U+FFFD in place of each character that XML cannot contain."""
    return _NOT_XML.sub("\ufffd", text)


def decode(text: str, encoding: Encoding, body_type: BodyType) -> str | bytes:
    """Decode the text of a message into the body of a row.

    With AUTO, a text counts as base64 if it is not empty and is canonical base64 (RFC 4648, with
    padding). For a string body, the decoded bytes must also be UTF-8. Any other text is the body
    itself. AUTO also decodes plain texts that happen to be base64 ("Zm9v", or "12345678" as
    binary). Raises UndecodableBody with the reason, but without the text, which may be
    confidential.
    """
    if encoding is Encoding.AUTO:
        encoding = Encoding.BASE64 if looks_like_base64(text, body_type) else Encoding.NONE
    if encoding is Encoding.NONE:
        return text if body_type is BodyType.STRING else text.encode("utf-8", "surrogatepass")
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise UndecodableBody(
            f"the text is not base64 ({error}), though messageEncoding=base64"
        ) from error
    if body_type is BodyType.BINARY:
        return raw
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UndecodableBody(
            f"the base64 holds bytes that are not UTF-8 text (at byte {error.start});"
            " read them with bodyType=binary"
        ) from error


def looks_like_base64(text: str, body_type: BodyType) -> bool:
    """Return True if AUTO decodes this text as base64 (see `decode`)."""
    try:
        raw = base64.b64decode(text, validate=True)
        if body_type is BodyType.STRING:
            raw.decode("utf-8")
    except ValueError:  # UnicodeDecodeError and binascii.Error are ValueErrors
        return False
    return text != "" and base64.b64encode(raw).decode("ascii") == text


def encode(body: str | bytes | bytearray, encoding: Encoding) -> str:
    """Encode a row's body as the text of a message.

    Raises InvalidRow if the service would refuse the text. The service refuses a text of more than
    64 KiB (with base64, a body of more than 48 KiB). Without base64, the service also refuses bytes
    that are not UTF-8, and characters that XML cannot contain.
    """
    size = stored_size(body, encoding)
    if size > MAX_STORED_BYTES:
        raise InvalidRow(
            f"the body takes {size:,} bytes as stored; a message holds at most"
            f" {MAX_STORED_BYTES:,} (49,152 before base64). With largeBody=blob such bodies go by"
            " way of blob storage"
        )
    if encoding is Encoding.BASE64:
        text = base64.b64encode(raw_bytes(body)).decode("ascii")
    else:
        text = body if isinstance(body, str) else _as_text(body)
        if bad := _NOT_XML.search(text):
            raise InvalidRow(
                f"the body holds the character U+{ord(bad[0]):04X} at position {bad.start()},"
                " which the service refuses; remove it, or use messageEncoding=base64"
            )
    return text


def stored_size(body: str | bytes | bytearray, encoding: Encoding) -> int:
    """Return the size, in bytes, of the text that a queue stores for this body."""
    size = utf8_size(body) if isinstance(body, str) else len(body)
    return (size + 2) // 3 * 4 if encoding is Encoding.BASE64 else size


def raw_bytes(body: str | bytes | bytearray) -> bytes:
    """Return the bytes of a body. A string is encoded as UTF-8."""
    return body.encode("utf-8", "surrogatepass") if isinstance(body, str) else bytes(body)


def _as_text(body: bytes | bytearray) -> str:
    try:
        return bytes(body).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidRow(
            f"the binary body is not UTF-8 text (at byte {error.start});"
            " use messageEncoding=base64 for bytes"
        ) from error
