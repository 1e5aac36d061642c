"""Turns rows into requests: one frozen, checked value per row.

`sender.py` sends them; it handles connections, retries and counting.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from spark_azqueue.errors import InvalidRow
from spark_azqueue.options.choices import MessageFormat, Operation
from spark_azqueue.options.sink_config import SinkConfig
from spark_azqueue.service import fields
from spark_azqueue.service.blobs.references import MAX_BODY_BYTES, Large, looks_like_reference
from spark_azqueue.service.messages import (
    MAX_STORED_BYTES,
    MAX_VISIBILITY_S,
    NEVER_EXPIRES,
    Delay,
    Lease,
    QueueRef,
    VisibleAt,
    delay_not_below_ttl,
    encode,
    queue_name,
    raw_bytes,
    seconds_of,
    stored_size,
)
from spark_azqueue.service.redaction import shown

from .columns import SinkColumns
from .events import event_of
from .rows import Row, value_of

Clock: TypeAlias = Callable[[], float]


@dataclass(frozen=True, slots=True)
class EnqueueRow:
    """Put an (encoded) text: visible after `delay`, expires after `ttl_s` (None: 7 days).

    A Large body is stored as a blob first, and its reference is put. row: its number in the task.
    reason: why the row itself cannot be sent; `text` is then the report about it.
    """

    row: int
    queue: QueueRef
    text: str | Large
    delay: Delay
    ttl_s: int | None
    reason: str = ""

    @property
    def size(self) -> int:
        """About how many bytes it holds on to."""
        return _ROW_BYTES + size_of(self.text)


@dataclass(frozen=True, slots=True)
class UpdateRow:
    """Show the message again after `delay`. text: a new text, or None to keep the old one."""

    row: int
    lease: Lease
    text: str | Large | None
    delay: Delay

    @property
    def size(self) -> int:
        """About how many bytes it holds on to."""
        return _LEASED_ROW_BYTES + size_of(self.text or "")


@dataclass(frozen=True, slots=True)
class DeleteRow:
    """Delete the message."""

    row: int
    lease: Lease

    @property
    def size(self) -> int:
        """About how many bytes it holds on to."""
        return _LEASED_ROW_BYTES


_ROW_BYTES = 300
"""About what the objects of a row take besides its text: a short text is the smallest part."""

_LEASED_ROW_BYTES = 400
"""The same with a message id and a receipt."""

RowRequest: TypeAlias = EnqueueRow | UpdateRow | DeleteRow


def requests(
    rows: Iterable[Row], columns: SinkColumns, config: SinkConfig, clock: Clock = time.time
) -> Iterator[RowRequest]:
    """Turn rows into checked requests. Raises InvalidRow with the row's number (from 0).

    clock: seconds since 1970, for the column `visible_at`.
    """
    for number, row in enumerate(rows):
        try:
            yield request_of(number, row, columns, config, clock)
        except (InvalidRow, ValueError) as error:
            raise InvalidRow(f"row {number} of this task cannot be sent: {error}") from error


def request_of(
    number: int, row: Row, columns: SinkColumns, config: SinkConfig, clock: Clock = time.time
) -> RowRequest:
    """Turn one row into a checked request. number: from 0. Raises InvalidRow or ValueError."""
    return _CHECKED[config.operation](number, row, columns, config, clock)


def _enqueue(
    number: int, row: Row, columns: SinkColumns, config: SinkConfig, clock: Clock
) -> EnqueueRow:
    body = body_of(row, columns)
    if body is None:
        raise InvalidRow("the body is null; filter such rows out, or give them an empty text")
    queue = _queue(row, columns, config)
    delay = _delay(row, columns, config, clock)
    if config.message_format is MessageFormat.CLOUD_EVENTS:
        body = event_of(row, columns, body)
    ttl = _number(row, columns.time_to_live)
    if ttl is not None and ttl < 1 and ttl != NEVER_EXPIRES:
        raise InvalidRow(f"time_to_live is {ttl}; allowed are 1 s upwards, or -1 (never expires)")
    ttl = config.time_to_live if ttl is None else ttl
    if reason := delay_not_below_ttl(seconds_of(delay, clock()), ttl):
        raise InvalidRow(reason)
    return EnqueueRow(number, queue, text_of(body, config), delay, ttl)


def _update(
    number: int, row: Row, columns: SinkColumns, config: SinkConfig, clock: Clock
) -> UpdateRow:
    lease = _lease(row, columns, config)
    body = body_of(row, columns)
    text = None if body is None else text_of(body, config)
    return UpdateRow(number, lease, text, _delay(row, columns, config, clock))


def _delete(
    number: int, row: Row, columns: SinkColumns, config: SinkConfig, clock: Clock
) -> DeleteRow:
    return DeleteRow(number, _lease(row, columns, config))


_CHECKED: dict[Operation, Callable[[int, Row, SinkColumns, SinkConfig, Clock], RowRequest]] = {
    Operation.ENQUEUE: _enqueue,
    Operation.UPDATE: _update,
    Operation.DELETE: _delete,
}


def body_of(row: Row, columns: SinkColumns) -> str | bytes | bytearray | None:
    """The row's body, None if it has none."""
    body = value_of(row, columns.body)
    return body if isinstance(body, (str, bytes, bytearray)) else None


def text_of(body: str | bytes | bytearray, config: SinkConfig) -> str | Large:
    """The text to store in the message, or a Large body that becomes a blob."""
    if config.claim_check is not None and (
        stored_size(body, config.encoding) > MAX_STORED_BYTES or looks_like_reference(body)
    ):
        data = raw_bytes(body)
        if len(data) > MAX_BODY_BYTES:
            raise InvalidRow(
                f"the body has {len(data):,} bytes; a blob holds at most {MAX_BODY_BYTES:,} for a"
                " message. Split it"
            )
        return Large(data, isinstance(body, str))
    return encode(body, config.encoding)


def size_of(text: str | Large) -> int:
    """How many bytes of memory a text or a large body takes."""
    return sys.getsizeof(text.data if isinstance(text, Large) else text)


def _queue(row: Row, columns: SinkColumns, config: SinkConfig) -> QueueRef:
    """The row's queue, or that of the options: a plain name in the sink's account."""
    name = value_of(row, columns.queue)
    if name is None:
        queue = config.queue_if_none_is_named
        if queue is None:
            raise InvalidRow("its queue is null, and the option 'defaultQueue' is not set")
        return QueueRef(config.account.name, queue)
    try:
        return QueueRef(config.account.name, queue_name(str(name)))
    except ValueError as error:
        raise InvalidRow(f"its queue is {shown(repr(name), 80)}; expected {error}") from None


def _delay(row: Row, columns: SinkColumns, config: SinkConfig, clock: Clock) -> Delay:
    at = value_of(row, columns.visible_at)
    if isinstance(at, datetime):
        return _visible_at(at, clock())
    delay = _number(row, columns.visibility_delay)
    if delay is None:
        return config.visibility_delay
    if not 0 <= delay <= MAX_VISIBILITY_S:
        raise InvalidRow(f"visibility_delay is {delay}; allowed are 0 s to {MAX_VISIBILITY_S} s")
    return delay


def _visible_at(at: datetime, now: float) -> VisibleAt:
    """The moment. A time without a zone, as on Spark 4.0, is local time."""
    moment = at.timestamp()
    if moment - now > MAX_VISIBILITY_S:
        raise InvalidRow(
            f"visible_at is {at.isoformat()}; allowed is at most {MAX_VISIBILITY_S} s from now"
        )
    return VisibleAt(moment)


def _lease(row: Row, columns: SinkColumns, config: SinkConfig) -> Lease:
    message_id = value_of(row, columns.message_id)
    receipt = value_of(row, columns.pop_receipt)
    if message_id is None or not fields.is_message_id(str(message_id)):
        raise InvalidRow(
            f"its message_id is {shown(repr(message_id), 80)}; expected the source's, unchanged"
        )
    if not receipt:
        raise InvalidRow(
            f"message {message_id} has no pop_receipt; the stream source gives one (with"
            " deleteOnCommit=false it is yours to use), a peek does not"
        )
    return Lease(_queue(row, columns, config), str(message_id), str(receipt))


def _number(row: Row, place: int | None) -> int | None:
    value = value_of(row, place)
    return None if value is None else int(str(value))
