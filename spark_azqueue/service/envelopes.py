"""Envelopes: JSON objects that hold a message's body with the reason why it was dead-lettered.

    reason           why; left out if none was given
    queue            where the message came from
    message_id       its id there
    insertion_time   when it was put there (ISO 8601, UTC); not of `settle`
    dequeue_count    how often it was dequeued there; not of `settle`
    message_row      which row of a packed message `body` is; of `dead_letters` of rows of `unpack`
    body             its body
    complete         false if the envelope has but a part of the body: `part` of `parts`
    body_encoding    what `body` is: "text", "base64", or "stored": the text of the message as the
                     service stored it
    written_by       "spark-azqueue"; older envelopes lack it
    replayed_from    which batch of which write-ahead log it is from; of `replay --mark` only

`settle(dead=…)`, the source and `replay --mark` write them. `envelope_of` and
`stored_text` undo that.

A user's own JSON may have the same names, and opening it would lose its other fields. So a text is
an envelope only if `written_by` says so; or, for an older one, if it is, character for character,
as this package writes envelopes, about a message with an id as the service gives them.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import enum
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from spark_azqueue.errors import InvalidRow

from .encoding import MAX_STORED_BYTES, Encoding, encode, utf8_size
from .messages import Message
from .redaction import shown

LONG_REASON = 1000
"""Characters of a reason that stay if the whole one leaves no room for the body."""

_PIECE_BYTES = MAX_STORED_BYTES - 12 * LONG_REASON - 2_000
"""Of a body in parts, as JSON: the rest of an envelope has room beside it."""

_WRITTEN_BY, _WRITER = "written_by", "spark-azqueue"

_FIELDS: dict[str, type] = {
    "reason": str,
    "queue": str,
    "message_id": str,
    "insertion_time": str,
    "dequeue_count": int,
    "message_row": int,
    "body": str,
    "body_encoding": str,
    _WRITTEN_BY: str,
}
"""All that an envelope may have, in the order in which it is written."""

_OF_PARTS: dict[str, type] = {"complete": bool, "part": int, "parts": int}
"""What one of several envelopes has besides, and names its writer."""

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)

_ID = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")

# JSON allows them within strings only, and XML cannot hold them.
_NOT_XML = re.compile("[\ufffe\uffff\ud800-\udfff]")


class BodyEncoding(str, enum.Enum):
    """What the field `body` of an envelope is."""

    TEXT = "text"
    BASE64 = "base64"
    STORED = "stored"


@dataclass(frozen=True, slots=True)
class DeadLetterEnvelope:
    """An envelope that was read. queue, message_id: as its writer says; nothing proves them.

    unknown: a field that this version does not know, "" if there is none. is_part: it has but a
    part of the body. row: which row of a packed message the body is; None for a whole message.
    """

    queue: str
    message_id: str
    body: str
    body_encoding: BodyEncoding
    reason: str = ""
    unknown: str = ""
    is_part: bool = False
    row: int | None = None


def envelope_text(
    queue: str,
    message_id: str,
    reason: str | None,
    body: str,
    body_encoding: BodyEncoding,
    **more: str | int,
) -> str:
    """The text of an envelope, one line of JSON. more: further fields, before the body."""
    fields: dict[str, str | int] = {} if reason is None else {"reason": reason}
    fields |= {"queue": queue, "message_id": message_id, **more}
    return _written(
        fields | {"body": body, "body_encoding": body_encoding.value, _WRITTEN_BY: _WRITER}
    )


def _written(fields: Mapping[str, Any]) -> str:
    return _NOT_XML.sub(_escaped, json.dumps(fields, ensure_ascii=False, separators=(",", ":")))


def poison_envelope(message: Message, reason: str) -> str | None:
    """The envelope about a poison message, its body as stored. None if it would not fit.

    A long reason is cut if that makes room.
    """
    for shortened in dict.fromkeys((reason, reason[:LONG_REASON])):
        envelope = _poison_envelope(message, shortened, message.text)
        if utf8_size(envelope) <= MAX_STORED_BYTES:
            return envelope
    return None


def poison_envelopes(message: Message, reason: str) -> list[str]:
    """The envelope about a poison message whose text no queue can hold: a damaged answer had it.

    Several if it does not fit into one: each has a part of the text, and `redrive` leaves them.
    """
    if envelope := poison_envelope(message, reason):
        return [envelope]
    reason = reason[:LONG_REASON]
    pieces = list(_pieces(message.text))
    return [
        _poison_envelope(message, reason, piece, complete=False, part=number, parts=len(pieces))
        for number, piece in enumerate(pieces, 1)
    ]


def _poison_envelope(message: Message, reason: str, body: str, **more: int) -> str:
    return envelope_text(
        message.queue.name,
        message.message_id,
        reason,
        body,
        BodyEncoding.STORED,
        **times_of(message.insertion_time, message.dequeue_count),
        **more,
    )


def times_of(insertion_time: int | None, dequeue_count: int | None) -> dict[str, str | int]:
    """The fields about when and how often; None leaves one out. insertion_time: microseconds."""
    fields: dict[str, str | int] = {}
    if insertion_time is not None:
        inserted = _EPOCH + datetime.timedelta(microseconds=insertion_time)
        fields["insertion_time"] = f"{inserted:%Y-%m-%dT%H:%M:%SZ}"
    if dequeue_count is not None:
        fields["dequeue_count"] = dequeue_count
    return fields


def _pieces(text: str) -> Iterator[str]:
    """A text in parts that fit into an envelope each, however their characters are escaped."""
    start = size = 0
    for place, character in enumerate(text):
        size += len(_NOT_XML.sub(_escaped, json.dumps(character, ensure_ascii=False)).encode()) - 2
        if size > _PIECE_BYTES:
            yield text[start:place]
            start, size = place, 6
    yield text[start:]


def envelope_of(text: str) -> DeadLetterEnvelope | None:
    """The envelope that a text is; None for any other text.

    Never raises, whatever the text is.
    """
    if not text.startswith("{") or '"body_encoding"' not in text:
        return None
    try:
        fields = json.loads(text, object_pairs_hook=_with_each_name_once)
        if not isinstance(fields, dict) or not _is_envelope(fields, text):
            return None
        encoding = BodyEncoding(fields["body_encoding"])
    except (ValueError, RecursionError):
        return None
    queue, message_id, body = (fields[name] for name in ("queue", "message_id", "body"))
    known = {*_FIELDS, *_OF_PARTS, "replayed_from"}
    unknown = next((name for name in fields if name not in known), "")
    is_part = not _OF_PARTS.keys().isdisjoint(fields)
    return DeadLetterEnvelope(
        *(queue, message_id, body, encoding, fields.get("reason", ""), unknown, is_part),
        row=fields.get("message_row"),
    )


def _with_each_name_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name comes twice")
    return found


def _is_envelope(fields: Mapping[str, Any], text: str) -> bool:
    """True if the text with these fields is an envelope of this package: see above."""
    types = {name: type(fields[name]) for name in _FIELDS if name in fields}
    if any(kind is not _FIELDS[name] for name, kind in types.items()):
        return False
    if not {"queue", "message_id", "body", "body_encoding"} <= types.keys():
        return False
    if _WRITTEN_BY in fields:
        return bool(fields[_WRITTEN_BY] == _WRITER)
    is_ordered = list(fields) == list(types)
    return is_ordered and bool(_ID.fullmatch(fields["message_id"])) and _written(fields) == text


def stored_text(envelope: DeadLetterEnvelope, encoding: Encoding) -> str:
    """The text of the message that the envelope is about, as its sender stored it.

    encoding: of the queue's messages (`messageEncoding`), for a body that `settle` had decoded.
    Raises InvalidRow if that cannot be, or if the envelope holds more than this version would keep.
    """
    if envelope.is_part:
        raise InvalidRow(
            "the envelope has but a part of the body: its text is in several envelopes"
        )
    if envelope.unknown:
        raise InvalidRow(
            f"the envelope has the field '{shown(envelope.unknown, 64)}', which this version does"
            " not know, and which would be lost"
        )
    if envelope.body_encoding is BodyEncoding.STORED:
        return encode(envelope.body, Encoding.NONE)
    body: str | bytes = envelope.body
    if envelope.body_encoding is BodyEncoding.BASE64:
        try:
            body = base64.b64decode(envelope.body, validate=True)
        except (binascii.Error, ValueError):
            raise InvalidRow("the body of the envelope is not the base64 that it claims") from None
    return encode(body, Encoding.BASE64 if encoding is Encoding.BASE64 else Encoding.NONE)


def _escaped(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"
