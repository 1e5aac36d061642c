"""Converts the rows of a task into requests, and handles rows that cannot be sent.

With onRowError=queue, a row that cannot be sent goes to the queue of row errors, as a JSON object:

    reason         text of the error
    error          class of the error: InvalidRow, QueueNotFound, …
    queue          target queue of the row (only the beginning, if the text is too long for a
                   name); null if the row named no queue
    body           the body, or null; as base64 if `body_encoding` is "base64"
    body_encoding  "text" or "base64"
    body_bytes     size of the whole body
    complete       false if only the beginning of the body fits
    attributes     with messageFormat=cloudevents, if the row could not become an event: its columns
                   as texts. If the service refused the event, `body` is the whole event instead
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from spark_azqueue.errors import AccessDenied, InvalidOption, InvalidRow, Outcome, ServiceError
from spark_azqueue.options.choices import MessageFormat, OnRowError
from spark_azqueue.options.sink_config import SinkConfig
from spark_azqueue.service.encoding import (
    MAX_STORED_BYTES,
    BodyType,
    Encoding,
    decode,
    raw_bytes,
    stored_size,
)
from spark_azqueue.service.messages import NEVER_EXPIRES, QueueRef
from spark_azqueue.service.redaction import shown

from .columns import Row, SinkColumns, value_of
from .events import attributes_of
from .requests import Clock, EnqueueRow, RowRequest, body_of, put_of, request_of, text_or_blob

_NAMED_AT_MOST = 200

MaybeBody = str | bytes | bytearray | None


def requests(
    rows: Iterable[Row], columns: SinkColumns, config: SinkConfig, clock: Clock = time.time
) -> Iterator[RowRequest]:
    """Convert rows into checked requests. The option `onRowError` controls rows that cannot be
    sent.

    clock: returns seconds since 1970, for the column `visible_at`. With onRowError=fail, raises
    InvalidRow with the row's number (from 0). Raises InvalidOption for rows of a source that
    deletes on commit.
    """
    for number, row in enumerate(rows):
        try:
            request = request_of(number, row, columns, config, clock)
        except InvalidOption:
            raise  # every row of the source would fail
        except (InvalidRow, ValueError) as error:
            if config.on_row_error is OnRowError.FAIL:
                raise InvalidRow(f"row {number} of this task cannot be sent: {error}") from error
            named = value_of(row, columns.queue)
            queue = config.queue_if_none_is_named if named is None else shown(named, _NAMED_AT_MOST)
            more: dict[str, Any] = {}
            if config.message_format is MessageFormat.CLOUD_EVENTS:
                more = {"attributes": attributes_of(row, columns)}
            request = _set_aside(number, error, queue, body_of(row, columns), config, more)
        yield request


def instead_of(request: RowRequest, error: ServiceError, config: SinkConfig) -> EnqueueRow | None:
    """Return a request that reports a refused request to the queue of row errors.

    Returns None if the task must fail: with onRowError=fail, if other rows would fail for the same
    reason (no access, no answer), and if the refused request was itself for the queue of row
    errors.
    """
    if config.on_row_error is OnRowError.FAIL or not isinstance(request, EnqueueRow):
        return None
    if request.reason or not _is_about_the_row(error):
        return None
    return _set_aside(request.row, error, request.queue.name, _sent(request, config), config)


def _is_about_the_row(error: ServiceError) -> bool:
    if error.outcome is not Outcome.FATAL or isinstance(error, AccessDenied):
        return False
    return error.status in (400, 413) or (error.status, error.code) == (404, "QueueNotFound")


def _set_aside(
    number: int,
    error: Exception,
    queue: str | None,
    body: MaybeBody,
    config: SinkConfig,
    more: Mapping[str, Any] = MappingProxyType({}),
) -> EnqueueRow:
    assert config.row_error_queue, "onRowError=queue comes with rowErrorQueue"
    kind = type(error).__name__ if isinstance(error, (InvalidRow, ServiceError)) else "InvalidRow"
    said = {"reason": str(error), "error": kind, "queue": queue, **more}
    text = _report(said, body)
    if config.claim_check is None and not _fits(text, config.encoding):
        text = _cut(said, body, config.encoding)
    target = QueueRef(config.account.name, config.row_error_queue)
    sent, large = text_or_blob(text, config)
    return put_of(
        *(config, target, sent, 0, NEVER_EXPIRES), row=number, large=large, reason=str(error)
    )


def _report(said: dict[str, Any], body: MaybeBody, most: int | None = None) -> str:
    """Return the report as JSON. most: maximum bytes of the body in the report; None for the whole
    body."""
    if body is None:
        fields = {"body": None, "body_encoding": "text", "body_bytes": 0, "complete": True}
        return json.dumps({**said, **fields})
    whole = raw_bytes(body)
    part = whole[:most]
    try:
        whole.decode("utf-8")
        kind, shown = "text", part.decode("utf-8", "ignore")  # the cut may split a character
    except UnicodeDecodeError:
        kind, shown = "base64", base64.b64encode(part).decode("ascii")
    fields = {
        "body": shown,
        "body_encoding": kind,
        "body_bytes": len(whole),
        "complete": len(part) == len(whole),
    }
    return json.dumps({**said, **fields})


def _cut(said: dict[str, Any], body: MaybeBody, encoding: Encoding) -> str:
    """Return the report as JSON, with as much of the body as fits into a message."""
    fits, too_much = 0, MAX_STORED_BYTES
    while too_much - fits > 1:
        middle = (fits + too_much) // 2
        if _fits(_report(said, body, middle), encoding):
            fits = middle
        else:
            too_much = middle
    return _report(said, body, fits)


def _fits(text: str, encoding: Encoding) -> bool:
    return stored_size(text, encoding) <= MAX_STORED_BYTES


def _sent(request: EnqueueRow, config: SinkConfig) -> str | bytes:
    """Return the body of the row from which this request was made."""
    if request.large is not None:
        return request.large.data
    return decode(request.text, config.encoding, BodyType.BINARY)
