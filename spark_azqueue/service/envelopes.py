"""Envelopes: JSON objects with the body of a dead-lettered message, and the reason.

    reason           why the message was dead-lettered; left out if no reason was given
    queue            the message's queue
    message_id       the message's id in this queue
    insertion_time   when the message was enqueued (ISO 8601, UTC); not from `settle`
    dequeue_count    how often the message was dequeued; not from `settle`
    message_row      position of `body` in its packed message; only from `dead_letters` of rows
                     of `unpack`
    body             the message's body
    complete         false if the envelope has only a part of the body: `part` of `parts`
    body_encoding    form of `body`: "text", "base64", or "stored": the text of the message as the
                     service stored it
    written_by       "spark-azqueue"; older envelopes lack it
    replayed_from    the write-ahead log and batch of the message; from `replay --mark` only

`settle(dead=…)`, the source and `replay --mark` write envelopes. `envelope_of` and `stored_text`
read them.

A user's own JSON may have the same field names. If it were opened as an envelope, its other fields
would be lost. So a text is an envelope only if its field `written_by` names this package. A text
without `written_by` may be an envelope of an older version. Such a text counts as an envelope only
if this package would write exactly the same characters, and if its message id has the service's
form.
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
"""A reason is cut to this number of characters if the full reason leaves no room for the body."""

_PIECE_BYTES = MAX_STORED_BYTES - 12 * LONG_REASON - 2_000
"""Maximum size of one part of a body, in bytes of JSON. The other fields of an envelope need the
rest of the message.
"""

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
"""All fields that an envelope may have, in the order in which they are written."""

_OF_PARTS: dict[str, type] = {"complete": bool, "part": int, "parts": int}
"""Additional fields of an envelope that has only a part of a body. Such an envelope also has
`written_by`.
"""

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)

_ID = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")

# XML cannot contain these characters. In JSON they occur only within strings.
_NOT_XML = re.compile("[\ufffe\uffff\ud800-\udfff]")


class BodyEncoding(str, enum.Enum):
    """Form of the field `body` of an envelope."""

    TEXT = "text"
    BASE64 = "base64"
    STORED = "stored"


@dataclass(frozen=True, slots=True)
class DeadLetterEnvelope:
    """A parsed envelope. queue, message_id: values in the envelope, which any sender can forge.

    unknown: name of a field that this version of the package does not know, or "". is_part: True if
    the envelope has only a part of the body. row: number of the row in a packed message, or None if
    the body is a whole message.
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
    """Return the text of an envelope: one line of JSON. more: further fields, which are written
    before the body.
    """
    fields: dict[str, str | int] = {} if reason is None else {"reason": reason}
    fields |= {"queue": queue, "message_id": message_id, **more}
    return _written(
        fields | {"body": body, "body_encoding": body_encoding.value, _WRITTEN_BY: _WRITER}
    )


def _written(fields: Mapping[str, Any]) -> str:
    return _NOT_XML.sub(_escaped, json.dumps(fields, ensure_ascii=False, separators=(",", ":")))


def poison_envelope(message: Message, reason: str) -> str | None:
    """Return the envelope of a poison message, with the body as stored; None if the envelope would
    be too large.

    A long reason is cut if the envelope then fits into a message.
    """
    for shortened in dict.fromkeys((reason, reason[:LONG_REASON])):
        envelope = _poison_envelope(message, shortened, message.text)
        if utf8_size(envelope) <= MAX_STORED_BYTES:
            return envelope
    return None


def poison_envelopes(message: Message, reason: str) -> list[str]:
    """Return the envelopes of a poison message that came in a damaged answer, and whose text no
    queue can store.

    Returns one envelope if the text fits into it. Otherwise returns several envelopes, each with a
    part of the text. `redrive` leaves such parts in the poison queue.
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
    """Return the envelope's fields `insertion_time` and `dequeue_count`. A field whose value is
    None is left out.

    insertion_time: microseconds since 1970.
    """
    fields: dict[str, str | int] = {}
    if insertion_time is not None:
        inserted = _EPOCH + datetime.timedelta(microseconds=insertion_time)
        fields["insertion_time"] = f"{inserted:%Y-%m-%dT%H:%M:%SZ}"
    if dequeue_count is not None:
        fields["dequeue_count"] = dequeue_count
    return fields


def _pieces(text: str) -> Iterator[str]:
    """Split a text into parts. Each part fits into an envelope, even after JSON escaping."""
    start = size = 0
    for place, character in enumerate(text):
        size += len(_NOT_XML.sub(_escaped, json.dumps(character, ensure_ascii=False)).encode()) - 2
        if size > _PIECE_BYTES:
            yield text[start:place]
            start, size = place, 6
    yield text[start:]


def envelope_of(text: str) -> DeadLetterEnvelope | None:
    """Parse an envelope. Returns None if the text is not an envelope. Never raises."""
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
    """Return True if these fields are an envelope of this package. The module's docstring has the
    rules."""
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
    """Return the original text of the dead-lettered message, as its sender stored it.

    encoding: `messageEncoding` of the queue, used if `settle` decoded the body. Raises InvalidRow
    if the text cannot be restored, or if the envelope has an unknown field, which would be lost.
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
