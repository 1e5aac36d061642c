"""Letters: JSON objects that hold a message's body with the reason why it was set aside.

    reason           why; left out if nobody said
    queue            where the message came from
    message_id       its id there
    insertion_time   when it was put there (ISO 8601, UTC); of poison messages only
    dequeue_count    how often it was dequeued there; of poison messages only
    body             its body
    complete         false if the letter has but a part of the body: `part` of `parts`
    body_encoding    what `body` is: "text", "base64", or "stored": the text of the message as the
                     service stored it

`settle(dead=…)` and poisonFormat=letter write them. `letter_of` and `stored_text` undo that.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import enum
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from spark_azqueue.errors import InvalidRow

from .encoding import MAX_STORED_BYTES, Encoding, encode, utf8_size
from .messages import Message

LONG_REASON = 1000
"""Characters of a reason that stay if the whole one leaves no room for the body."""

_PIECE_BYTES = MAX_STORED_BYTES - 12 * LONG_REASON - 2_000
"""Of a body in parts, as JSON: the rest of a letter has room beside it."""

# JSON allows them within strings only, and XML cannot hold them.
_NOT_XML = re.compile("[\ufffe\uffff\ud800-\udfff]")


class BodyEncoding(str, enum.Enum):
    """What the field `body` of a letter is."""

    TEXT = "text"
    BASE64 = "base64"
    STORED = "stored"


@dataclass(frozen=True, slots=True)
class Letter:
    """A letter that was read. queue, message_id: as its writer says; nothing proves them."""

    queue: str
    message_id: str
    body: str
    body_encoding: BodyEncoding
    reason: str = ""


def letter_text(
    queue: str,
    message_id: str,
    reason: str | None,
    body: str,
    body_encoding: BodyEncoding,
    **more: str | int,
) -> str:
    """The text of a letter, one line of JSON. more: further fields, before the body."""
    fields: dict[str, str | int] = {} if reason is None else {"reason": reason}
    fields |= {"queue": queue, "message_id": message_id, **more}
    fields |= {"body": body, "body_encoding": body_encoding.value}
    return _NOT_XML.sub(_escaped, json.dumps(fields, ensure_ascii=False, separators=(",", ":")))


def poison_letter(message: Message, reason: str) -> str | None:
    """The letter about a poison message, its body as stored. None if it would not fit.

    A long reason is cut if that makes room.
    """
    for shortened in dict.fromkeys((reason, reason[:LONG_REASON])):
        letter = _poison_letter(message, shortened, message.text)
        if utf8_size(letter) <= MAX_STORED_BYTES:
            return letter
    return None


def poison_letters(message: Message, reason: str) -> list[str]:
    """The letter about a poison message whose text no queue can hold: a damaged answer had it.

    Several if it does not fit into one: each has a part of the text, and `redrive` leaves them.
    """
    if letter := poison_letter(message, reason):
        return [letter]
    reason = reason[:LONG_REASON]
    pieces = list(_pieces(message.text))
    return [
        _poison_letter(message, reason, piece, complete=False, part=number, parts=len(pieces))
        for number, piece in enumerate(pieces, 1)
    ]


def _poison_letter(message: Message, reason: str, body: str, **more: int) -> str:
    inserted = datetime.datetime.fromtimestamp(
        message.insertion_time / 1_000_000, datetime.timezone.utc
    )
    return letter_text(
        message.queue.name,
        message.message_id,
        reason,
        body,
        BodyEncoding.STORED,
        insertion_time=f"{inserted:%Y-%m-%dT%H:%M:%SZ}",
        dequeue_count=message.dequeue_count,
        **more,
    )


def _pieces(text: str) -> Iterator[str]:
    """A text in parts that fit into a letter each, however their characters are escaped."""
    start = size = 0
    for place, character in enumerate(text):
        size += len(_NOT_XML.sub(_escaped, json.dumps(character, ensure_ascii=False)).encode()) - 2
        if size > _PIECE_BYTES:
            yield text[start:place]
            start, size = place, 6
    yield text[start:]


def letter_of(text: str) -> Letter | None:
    """The letter that a text is; None for any other text, and for a letter whose body was cut.

    Never raises, whatever the text is.
    """
    if not text.startswith("{") or '"body_encoding"' not in text:
        return None
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict) or fields.get("complete", True) is not True:
        return None
    queue, message_id, body = (fields.get(name) for name in ("queue", "message_id", "body"))
    if not (isinstance(queue, str) and isinstance(message_id, str) and isinstance(body, str)):
        return None
    try:
        encoding = BodyEncoding(fields["body_encoding"])
    except ValueError:
        return None
    reason = fields.get("reason")
    return Letter(queue, message_id, body, encoding, reason if isinstance(reason, str) else "")


def stored_text(letter: Letter, encoding: Encoding) -> str:
    """The text of the message that the letter is about, as its sender stored it.

    encoding: of the queue's messages (`messageEncoding`), for a body that `settle` had decoded.
    Raises InvalidRow if that cannot be.
    """
    if letter.body_encoding is BodyEncoding.STORED:
        return encode(letter.body, Encoding.NONE)
    body: str | bytes = letter.body
    if letter.body_encoding is BodyEncoding.BASE64:
        try:
            body = base64.b64decode(letter.body, validate=True)
        except (binascii.Error, ValueError):
            raise InvalidRow("the body of the letter is not the base64 that it claims") from None
    return encode(body, Encoding.BASE64 if encoding is Encoding.BASE64 else Encoding.NONE)


def _escaped(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"
