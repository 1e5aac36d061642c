"""Parser for the XML of answers to a dequeue, peek or put, and writer for a put or an update.

If an answer does not parse as a whole, each message is parsed separately. So a damaged message does
not prevent reading the other 31 messages, which are already leased.
"""

from __future__ import annotations

import html
import itertools
import logging
import re
import secrets
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterable
from datetime import datetime, timezone
from typing import Any, NamedTuple, TypeAlias
from xml.sax.saxutils import escape

from spark_azqueue.service import fields

from ..answers import unreadable_answer
from ..encoding import unwritable, writable
from ..markup import parsed
from ..message_fields import Field, Form
from ..messages import (
    FIELDS,
    MAX_DEQUEUE_COUNT,
    MAX_PER_REQUEST,
    UNKNOWN_TIME,
    Lease,
    Message,
    QueueRef,
    Received,
)

log = logging.getLogger(__name__)

_Fields: TypeAlias = dict[str, str]

_LIST, _ONE = "QueueMessagesList", "QueueMessage"
_ELEMENTS = {each.name: each.element for each in FIELDS if each.element}
_ID, _RECEIPT, _TEXT = (_ELEMENTS[each] for each in ("message_id", "pop_receipt", "text"))
_FRAME = tuple(each for each in _ELEMENTS.values() if each != _TEXT)
_START = re.compile(rb"(?:\xef\xbb\xbf)?<[?Q]")  # UTF-16 is refused, because it may hide a DOCTYPE
_EDGE = re.compile(rb"</?QueueMessage>")
_MOST_TAGS = 50
"""Maximum number of tags of a message, and of the XML around the messages. The service writes 16
tags for a message.
"""
_MOST_PIECES = 4 * MAX_PER_REQUEST
"""Maximum number of pieces into which a damaged answer is cut. Further pieces are ignored."""
_SIGN_OF_A_MESSAGE = re.compile(rb"<(?:MessageId|PopReceipt|MessageText)>")

# The service sends the end of the year 9999 as the expiry of a message that never expires. In a
# time zone east of UTC, this time is in the year 10000, which Python's datetime, and so
# `collect()`, cannot represent. So the latest time here is one day earlier.
_LATEST = int(datetime(9999, 12, 30, 23, 59, 59, tzinfo=timezone.utc).timestamp())


def read_messages(queue: QueueRef, document: bytes) -> list[Received]:
    """Return the messages in the answer to a dequeue.

    Returns the messages that have a readable id and receipt. If another field of a message is
    damaged, or if its text has a character that XML cannot contain, the message is not `intact`.
    Messages without a readable id or receipt are left out, and a warning states their number.
    Raises ServiceUnavailable if the document is not an answer to a dequeue, or if no message has a
    readable id and receipt.
    """
    return [
        Received(message, Lease(queue, message.message_id, receipt))
        for message, receipt in _read(queue, document, leased=True)
    ]


def read_peeked(queue: QueueRef, document: bytes) -> list[Message]:
    """Return the messages in the answer to a peek, which has no receipts. See `read_messages`."""
    return [message for message, _ in _read(queue, document, leased=False)]


def _read(queue: QueueRef, document: bytes, *, leased: bool) -> Iterable[tuple[Message, str]]:
    """Return each message with its pop receipt."""
    whole = _whole(document)
    found = _pieces(document) if whole is None else ((each, True) for each in whole)
    named: dict[str, tuple[Message, str]] = {}
    unnamed = 0
    for each, intact in found:
        message = _message(queue, each, intact, leased)
        if message is None:
            unnamed += 1
        elif message.intact or message.message_id not in named:
            named[message.message_id] = message, each.get(_RECEIPT, "")
    if not named and (unnamed or whole is None):
        # An unreadable answer must not look like an empty queue.
        raise unreadable_answer(
            f"read messages of queue '{queue.name}'",
            "none of its messages has a readable id and pop receipt"
            if unnamed
            else "the answer is no list of messages; is there a proxy on the way?",
        )
    if unnamed:
        log.warning(
            "an answer about queue '%s' was damaged: %d of its messages have no readable id or pop"
            " receipt; what was leased with them comes back when its visibility timeout ends",
            queue.name,
            unnamed,
        )
    return named.values()


class Placed(NamedTuple):
    """The result of a put: the message's lease, and its times in seconds since 1970.

    A time that is not readable is 0.
    """

    lease: Lease
    inserted: int
    expires: int


def read_placed(queue: QueueRef, document: bytes) -> Placed | None:
    """Parse the answer to a put. Returns None if the id or the receipt is not readable.

    The message is in the queue even if the result is None.
    """
    whole = _whole(document) or []
    if len(whole) != 1:
        return None
    (found,) = whole
    message_id, receipt = found.get(_ID, ""), found.get(_RECEIPT, "")
    if not fields.is_message_id(message_id) or not fields.is_receipt(receipt):
        return None
    elements = (_ELEMENTS[each] for each in ("insertion_time", "expiration_time"))
    times = (fields.moment(found.get(each, "")) for each in elements)
    inserted, expires = (min(each or 0, _LATEST) for each in times)
    return Placed(Lease(queue, message_id, receipt), inserted, expires)


def _whole(document: bytes) -> list[_Fields] | None:
    """Return the fields of each message. Return None if the document, as a whole, is not a list of
    messages.
    """
    if not _START.match(document):
        return None
    node = parsed(document, _MOST_TAGS * (MAX_PER_REQUEST + 1))
    if node is None or node.tag != _LIST or (node.text or "").strip():
        return None
    found = [each for child in node if (each := _fields_of(child)) is not None]
    return found if len(found) == len(node) else None


def _pieces(document: bytes) -> Iterable[tuple[_Fields, bool]]:
    """Yield the fields of each message, with True if the message's XML is undamaged.

    The document is cut at every opening and closing tag of a message, because any of these tags may
    be damaged.
    """
    pieces = filter(_SIGN_OF_A_MESSAGE.search, _EDGE.split(document))
    for piece in itertools.islice(pieces, _MOST_PIECES):
        node = parsed(b"<QueueMessage>" + piece + b"</QueueMessage>", _MOST_TAGS)
        undamaged = None if node is None else _fields_of(node)
        if undamaged is None:
            yield _unwritable(piece) or _rescued(piece), False
        else:
            yield undamaged, True


def _fields_of(node: ElementTree.Element) -> _Fields | None:
    """Return the fields of a message. Return None if a field occurs twice or contains tags, or if
    the element is not a message.
    """
    if node.tag != _ONE:
        return None
    found = {}
    for child in node:
        if len(child) or child.tag in found:
            return None
        found[child.tag] = child.text or ""
    return found


_NOT_XML = re.compile(
    rb"[\x00-\x08\x0b\x0c\x0e-\x1f]|\xef\xbf[\xbe\xbf]|\xed[\xa0-\xbf][\x80-\xbf]"
    rb"|&#(?:x([0-9A-Fa-f]{1,5})|([0-9]{1,6}));"
)
"""A character that XML cannot contain, or any numeric character reference."""


def _unwritable(piece: bytes) -> _Fields | None:
    """Return the fields of a message whose only damage is characters that XML cannot contain.

    Returns None for any other message.
    """
    before, opened, rest = piece.partition(b"<MessageText>")
    text, closed, after = rest.partition(b"</MessageText>")
    if b"<" in text:
        return None
    found: list[str] = []
    place = secrets.token_hex(8)  # a placeholder that no text contains

    def put_aside(match: re.Match[bytes]) -> bytes:
        written, *numbers = match.groups()
        if written is None and numbers[0] is None:
            character = match[0].decode("utf-8", "surrogatepass")
        else:
            character = chr(int(written, 16) if written else int(numbers[0]))
        if not unwritable(character):
            return match[0]
        found.append(character)
        return place.encode()

    text = _NOT_XML.sub(put_aside, text)
    whole = b"".join((b"<QueueMessage>", before, opened, text, closed, after, b"</QueueMessage>"))
    node = parsed(whole, _MOST_TAGS)
    fields_ = None if node is None or not found else _fields_of(node)
    if fields_ is None:
        return None
    parts = fields_[_TEXT].split(place)
    between = itertools.zip_longest(parts, found, fillvalue="")
    return {**fields_, _TEXT: "".join(itertools.chain.from_iterable(between))}


def _rescued(piece: bytes) -> _Fields:
    """Return the recoverable fields of a message that does not parse."""
    before, _, rest = piece.partition(b"<MessageText>")
    text, _, after = rest.partition(b"</MessageText>")
    # remove the text, so that markup in the text does not count as a field
    frame = before + after
    found = {name: value for name in _FRAME if (value := _only(frame, name)) is not None}
    return {**found, _TEXT: writable(_unescaped(text.decode("utf-8", "replace")))}


def _only(frame: bytes, name: str) -> str | None:
    """Return the value of this field; None if the field is missing or occurs twice."""
    _, opened, rest = frame.partition(b"<%s>" % name.encode())
    value, closed, after = rest.partition(b"</%s>" % name.encode())
    if not (opened and closed) or opened in after:
        return None
    return value.decode("utf-8", "replace")


def _unescaped(text: str) -> str:
    try:
        return html.unescape(text)
    except ValueError:  # a character reference with thousands of digits
        return text


def _message(queue: QueueRef, found: _Fields, intact: bool, leased: bool) -> Message | None:
    """Return the message; None if its id or receipt is not readable.

    The message is not intact if a field is missing or unreadable.
    """
    message_id, receipt = found.get(_ID, ""), found.get(_RECEIPT, "")
    if not fields.is_message_id(message_id) or (leased and not fields.is_receipt(receipt)):
        return None
    text = found.get(_TEXT)
    complete = text is not None
    values: dict[str, Any] = {}
    for name, element, read, unknown, may_lack in _OTHERS:
        written = found.get(element)
        value = read(written) if written else None
        if value is None:
            value = unknown
            complete = complete and may_lack and not written
        values[name] = value
    text = (text or "") if complete else writable(text or "")
    return Message(queue, message_id, text, intact=intact and complete, **values)


def _microseconds(http_date: str) -> int | None:
    """Parse an RFC 1123 time to microseconds since 1970."""
    at = fields.moment(http_date)
    return at and (at if at < _LATEST else _LATEST) * 1_000_000


def _count(digits: str) -> int | None:
    return fields.count(digits, MAX_DEQUEUE_COUNT)


_READ: dict[Form, Callable[[str], Any]] = {
    Form.TIME: _microseconds,
    Form.MAYBE_TIME: _microseconds,
    Form.COUNT: _count,
    Form.TEXT: str,
}
"""Parsers of an element's text. A parser returns None if the text is not readable."""
_UNKNOWN = {Form.TIME: UNKNOWN_TIME, Form.COUNT: 0}
"""Value of a field that is not readable and has no default."""


class _Other(NamedTuple):
    """A field other than id, receipt and text. unknown: value that is used if the element is not
    readable."""

    name: str
    element: str
    read: Callable[[str], Any]
    unknown: Any
    may_lack: bool

    @classmethod
    def of(cls, field: Field) -> _Other:
        unknown = field.default if field.has_default else _UNKNOWN[field.form]
        return cls(field.name, field.element, _READ[field.form], unknown, field.has_default)


_OTHERS = [
    _Other.of(each)
    for each in FIELDS
    if each.element and each.element not in (_ID, _RECEIPT, _TEXT)
]


def document(text: str) -> bytes:
    """Return the body of a request that puts or updates a message with this text."""
    # A carriage return must be a character reference, because XML readers turn a plain one into a
    # line feed.
    body = escape(text, {"\r": "&#13;"})
    return (
        '<?xml version="1.0" encoding="utf-8"?>'
        f"<QueueMessage><MessageText>{body}</MessageText></QueueMessage>"
    ).encode()
