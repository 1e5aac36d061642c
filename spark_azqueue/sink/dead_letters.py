"""Makes the copies of messages for `settle` and `dead_letters`.

A copy is an envelope (`service/envelopes.py`), with `body_encoding` "stored" if the body could not
be decoded. If the body leaves no room for the other fields, the copy is *bare*: the body alone, in
the form in which the sender stored it.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from spark_azqueue.errors import InvalidRow
from spark_azqueue.service.blobs.references import MAX_BODY_BYTES
from spark_azqueue.service.encoding import Encoding, encode, raw_bytes
from spark_azqueue.service.envelopes import LONG_REASON, BodyEncoding, envelope_text

log = logging.getLogger(__name__)

_REASON_SHOWN = 200


@dataclass(frozen=True, slots=True)
class Given:
    """A message to dead-letter.

    stored: the message's text, if it could not be decoded. more: additional fields of the envelope.
    """

    message_id: str
    queue: str
    reason: str | None
    body: str | bytes | bytearray | None
    stored: str | None = None
    more: Mapping[str, str | int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Copy:
    """A message to send. bare: store the text unchanged, whatever `messageEncoding` is."""

    text: str
    bare: bool = False


def copies_of(
    rows: Sequence[Any], encoding: Encoding, queue: str, *, in_blobs: bool
) -> list[tuple[Any, Copy]]:
    """Return the copies of messages to dead-letter, each with its row.

    Rows that cannot be copied are left out.

    rows: rows with the fields of `Given`. queue: target queue of the copies; named in warnings
    about bare copies and about rows without a copy. encoding, in_blobs: see `copy_of`.
    """
    copies: list[tuple[Any, Copy]] = []
    refused: list[tuple[Any, InvalidRow]] = []
    for row in rows:
        given = Given(row.message_id, row.queue, row.reason, row.body, row.stored)
        try:
            copies.append((row, copy_of(given, encoding, in_blobs=in_blobs)))
        except InvalidRow as error:
            refused.append((row, error))
    if refused:
        log.warning(
            "%d of %d dead messages cannot be copied into '%s'. They are not deleted, and come"
            " again when their visibility timeout ends. For example message %s of queue '%s': %s",
            *(len(refused), len(rows), queue),
            *(refused[0][0].message_id, refused[0][0].queue, refused[0][1]),
        )
    if bare := [row for row, copy in copies if copy.bare]:
        log.warning(
            "%d of %d dead messages are too large for an envelope: their bodies were copied into"
            " '%s' alone, without the reason. For example message %s of queue '%s': %s",
            *(len(bare), len(rows), queue),
            *(bare[0].message_id, bare[0].queue, (bare[0].reason or "")[:_REASON_SHOWN]),
        )
    return copies


def copy_of(given: Given, encoding: Encoding, *, in_blobs: bool) -> Copy:
    """Return the envelope about a message, or a bare copy of the message.

    encoding: the `messageEncoding` of envelopes. in_blobs: envelopes over 64 KiB are stored in
    blobs. Raises InvalidRow with the reason if there is no body to copy, or if the copy cannot be
    sent.
    """
    body = given.stored if given.body is None else given.body
    if body is None:
        raise InvalidRow(
            "its body is null. With onUndecodable=permissive its text is in the column"
            " '_corrupt_record': keep that column, under this name"
        )
    for reason in dict.fromkeys((given.reason, (given.reason or "")[:LONG_REASON] or None)):
        envelope = _envelope(given, reason, body)
        if _can_be_sent(envelope, encoding, in_blobs=in_blobs):
            return Copy(envelope)
    # The sender stored the body as text or as base64, so the body fits into a message in one of
    # these encodings, unless it comes from a blob.
    likely = (encoding, Encoding.NONE, Encoding.BASE64)
    for stored_as in likely if given.body is not None else (Encoding.NONE,):
        try:
            return Copy(encode(body, stored_as), bare=True)
        except InvalidRow:
            continue
    raise InvalidRow(
        f"its body has {len(raw_bytes(body)):,} bytes, which is too much for a message. Set"
        " largeBody=blob and 'blobContainer' in the options"
    )


def dead_letter_text(given: Given) -> str:
    """Return the text of a dead-letter copy: the envelope, or the body if the envelope is too long.

    If the body is also too long, the envelope is returned, because the sink can store the envelope
    in a blob. Raises InvalidRow if there is no body.
    """
    try:
        return copy_of(given, Encoding.NONE, in_blobs=False).text
    except InvalidRow:
        if given.body is None and given.stored is None:
            raise
        return copy_of(given, Encoding.NONE, in_blobs=True).text


def _envelope(given: Given, reason: str | None, body: str | bytes | bytearray) -> str:
    if isinstance(body, str):
        kind = BodyEncoding.STORED if given.body is None else BodyEncoding.TEXT
        text = body
    else:
        kind, text = BodyEncoding.BASE64, base64.b64encode(body).decode("ascii")
    return envelope_text(given.queue, given.message_id, reason, text, kind, **given.more)


def _can_be_sent(envelope: str, encoding: Encoding, *, in_blobs: bool) -> bool:
    if in_blobs:
        return len(raw_bytes(envelope)) <= MAX_BODY_BYTES
    try:
        encode(envelope, encoding)
    except InvalidRow:
        return False
    return True
