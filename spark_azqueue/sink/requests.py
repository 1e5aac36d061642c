"""Converts a row into a checked request that has the row's number.

`row_errors.py` iterates over the rows of a task; `sender.py` sends the requests.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, TypeAlias

from spark_azqueue.errors import InvalidRow, Outcome, ServiceError
from spark_azqueue.options.choices import MessageFormat, Operation
from spark_azqueue.options.sink_config import SinkConfig
from spark_azqueue.options.transaction import check_delay, life_of
from spark_azqueue.service import fields
from spark_azqueue.service.answers import unreadable_answer
from spark_azqueue.service.blobs.references import MAX_BODY_BYTES, Large, looks_like_reference
from spark_azqueue.service.encoding import MAX_STORED_BYTES, encode, raw_bytes, stored_size
from spark_azqueue.service.incoming import Answer
from spark_azqueue.service.messages import (
    MAX_VISIBILITY_S,
    NEVER_EXPIRES,
    WEEK_S,
    Delay,
    Lease,
    QueueRef,
    VisibleAt,
    delay_not_below_ttl,
    queue_name,
    seconds_of,
)
from spark_azqueue.service.queues.calls import Delete, Put, Update
from spark_azqueue.service.redaction import shown

from .columns import Row, SinkColumns, value_of
from .events import event_of
from .transaction.record import Hidden

Clock: TypeAlias = Callable[[], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class EnqueueRow(Put):
    """A row to put. row: number of the row in the task.

    large: body that is first stored in a blob; the reference to this blob then becomes `text`.
    reason: why the row cannot be sent; if set, `text` is the report about the row.
    """

    row: int
    large: Large | None = None
    reason: str = ""

    @property
    def size(self) -> int:
        """Approximate memory of the request in bytes."""
        return _ROW_BYTES + sys.getsizeof(self.large.data if self.large else self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class HiddenRow(EnqueueRow):
    """A row to put as a prepared message, which is invisible until its transaction is published.

    due: time at which the published message must become visible. delay_s, ttl_s: delay and time to
    live of the prepared message, in seconds.
    """

    due: Delay = 0

    def result(self, answer: Answer) -> Hidden:  # type: ignore[override]
        """Return the prepared message, with its receipt.

        Raises ServiceError if the answer has no receipt; the caller then puts the message again.
        """
        placed = self.placed(answer)
        if placed is None or not placed.inserted or not placed.expires:
            raise unreadable_answer(
                f"{self.doing} queue '{self.queue.name}'",
                "it has no receipt, or no times. The message stays hidden until it expires",
            )
        if isinstance(self.due, VisibleAt):
            due = max(0, math.ceil(self.due.moment))
        else:
            due = placed.inserted + self.due if self.due else 0
        return Hidden(placed.lease, due, placed.expires)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateRow(Update):
    """A row to update.

    The message becomes visible after `visibility_s` seconds. If the row has a body, the message
    gets a new text.

    row, large: as in `EnqueueRow`.
    """

    row: int
    large: Large | None = None

    @property
    def size(self) -> int:
        """Approximate memory of the request in bytes."""
        return _LEASED_ROW_BYTES + sys.getsizeof(self.large.data if self.large else self.text or "")

    def refused(self, error: ServiceError) -> tuple[Outcome, Lease | None]:
        """Return the outcome of this refused request; OK if an earlier try may have taken
        effect."""
        return judged(error.outcome, in_doubt=error.unanswered), None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRow(Delete):
    """A row to delete. row: number of the row in the task."""

    row: int
    large: ClassVar[None] = None

    @property
    def size(self) -> int:
        """Approximate memory of the request in bytes."""
        return _LEASED_ROW_BYTES

    def refused(self, error: ServiceError) -> Outcome:
        """Return the outcome of this refused request; OK if an earlier try may have taken
        effect."""
        return judged(error.outcome, in_doubt=error.unanswered)


_ROW_BYTES = 300
"""Approximate memory of a row's objects in bytes, without the text.

The objects often need more memory than the text.
"""

_LEASED_ROW_BYTES = 400
"""Approximate memory of a row's objects in bytes, including a message id and a receipt."""

RowRequest: TypeAlias = EnqueueRow | UpdateRow | DeleteRow


def judged(outcome: Outcome, *, in_doubt: bool) -> Outcome:
    """Return the outcome of a request whose receipt may have been refused.

    in_doubt: an earlier try may have taken effect. In this case the receipt was probably refused
    because the earlier try worked, so the outcome is OK.
    """
    return Outcome.OK if outcome.refused and in_doubt else outcome


def request_of(
    number: int, row: Row, columns: SinkColumns, config: SinkConfig, clock: Clock = time.time
) -> RowRequest:
    """Convert one row into a checked request. number: number of the row, from 0.

    Raises InvalidRow or ValueError. Raises InvalidOption for rows of a source that deletes on
    commit.
    """
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
    delay_s = seconds_of(delay, clock())
    if reason := delay_not_below_ttl(delay_s, ttl):
        raise InvalidRow(reason)
    if config.transaction:
        check_delay(delay_s, ttl)
    text, large = text_or_blob(body, config)
    return put_of(config, queue, text, delay, ttl, row=number, large=large)


def put_of(
    config: SinkConfig,
    queue: QueueRef,
    text: str,
    delay: Delay,
    ttl: int | None,
    *,
    row: int,
    large: Large | None,
    reason: str = "",
) -> EnqueueRow:
    """Return the request that puts a row. With `transactionLog`, it puts a prepared message.

    reason: why the row goes to the queue of row errors; if set, a prepared message never expires,
    and is invisible for as long as the service allows. Raises ValueError for a time to live that a
    prepared message cannot have.
    """
    if config.transaction is None:
        return EnqueueRow(queue, text, delay, ttl, row=row, large=large, reason=reason)
    life = NEVER_EXPIRES if reason else life_of(ttl)
    hidden = WEEK_S if reason else life - 1
    return HiddenRow(*(queue, text, hidden, life), row=row, large=large, reason=reason, due=delay)


def _update(
    number: int, row: Row, columns: SinkColumns, config: SinkConfig, clock: Clock
) -> UpdateRow:
    lease = _lease(row, columns, config)
    body = body_of(row, columns)
    text, large = (None, None) if body is None else text_or_blob(body, config)
    delay = _delay(row, columns, config, clock)
    return UpdateRow(lease, delay, text, row=number, large=large)


def _delete(
    number: int, row: Row, columns: SinkColumns, config: SinkConfig, clock: Clock
) -> DeleteRow:
    return DeleteRow(_lease(row, columns, config), row=number)


_CHECKED: dict[Operation, Callable[[int, Row, SinkColumns, SinkConfig, Clock], RowRequest]] = {
    Operation.ENQUEUE: _enqueue,
    Operation.UPDATE: _update,
    Operation.DELETE: _delete,
}


def body_of(row: Row, columns: SinkColumns) -> str | bytes | bytearray | None:
    """Return the row's body, or None if the row has no body."""
    body = value_of(row, columns.body)
    return body if isinstance(body, (str, bytes, bytearray)) else None


def text_or_blob(body: str | bytes | bytearray, config: SinkConfig) -> tuple[str, Large | None]:
    """Return the text of the message, and None.

    If the body must first be stored in a blob, returns "" and a `Large` body.
    """
    if config.claim_check is not None and (
        stored_size(body, config.encoding) > MAX_STORED_BYTES or looks_like_reference(body)
    ):
        data = raw_bytes(body)
        if len(data) > MAX_BODY_BYTES:
            raise InvalidRow(
                f"the body has {len(data):,} bytes; a blob holds at most {MAX_BODY_BYTES:,} for a"
                " message. Split it"
            )
        return "", Large(data, isinstance(body, str))
    return encode(body, config.encoding), None


def _queue(row: Row, columns: SinkColumns, config: SinkConfig) -> QueueRef:
    """Return the row's queue, or the queue of the options. The queue is always in the sink's
    account."""
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
    """Return the time at which a row becomes visible. A time without a zone, as on Spark 4.0, is
    local time."""
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
    fields.check_usable(message_id, receipt)
    return Lease(_queue(row, columns, config), str(message_id), str(receipt))


def _number(row: Row, place: int | None) -> int | None:
    value = value_of(row, place)
    return None if value is None else int(str(value))
