"""Carries out the decisions of `settle` on the driver. There is one decision for each message.

A write by Spark does not report how many receipts were refused. If Spark repeated a task, the
task's receipts would also be stale, because the first attempt has used them. So the driver sends
each request itself, once, and gets each answer.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from spark_azqueue.options.choices import Operation
from spark_azqueue.options.parse import sink_config

from .columns import GivenColumns, Row, check_supplied
from .row_errors import requests
from .sender import Sender
from .tally import Sent

log = logging.getLogger(__name__)

_KEEPS = ("done", "dead", "retry", "left")
"""Decisions, ordered by how long they keep the message, shortest first."""

_RECEIPT: GivenColumns = (("message_id", "string"), ("pop_receipt", "string"), ("queue", "string"))


def one_for_each_message(rows: Iterable[Any]) -> list[Any]:
    """Return one row for each message: the row with the decision that keeps the message longest.

    Logs a warning if decisions about a message differ. rows: one row for each decision about a
    message, with `message_id`, `pop_receipt`, `queue`, `outcome` and `delay`.
    """
    chosen: dict[tuple[str, str, str], Any] = {}
    differ: dict[tuple[str, str, str], None] = {}
    for row in rows:
        key = row.queue, row.message_id, row.pop_receipt
        other = chosen.setdefault(key, row)
        if row.outcome != other.outcome:
            differ[key] = None
        if _kept(row) > _kept(other):
            chosen[key] = row
    if differ:
        key = next(iter(differ))
        log.warning(
            "%d messages have several rows, for which the conditions of settle differ: the decision"
            " that keeps the message longest counts. For example message %s of queue '%s': %s",
            *(len(differ), key[1], key[0], chosen[key].outcome),
        )
    return list(chosen.values())


def _kept(row: Any) -> tuple[int, int]:
    return _KEEPS.index(row.outcome), row.delay or 0


def delete(rows: Sequence[Any], options: Mapping[str, str]) -> Sent:
    """Delete the messages of these rows. Raises InvalidOption, InvalidRow and ServiceError."""
    return _send(Operation.DELETE, _RECEIPT, list(map(_receipt, rows)), options)


def show_later(rows: Sequence[Any], options: Mapping[str, str]) -> Sent:
    """Make the messages of these rows visible after their delays. Raises the errors of `delete`."""
    columns = (*_RECEIPT, ("visibility_delay", "int"))
    delayed = [(*_receipt(row), row.delay) for row in rows]
    return _send(Operation.UPDATE, columns, delayed, options)


def _receipt(row: Any) -> tuple[str, str, str]:
    return row.message_id, row.pop_receipt, row.queue


def _send(
    operation: Operation, columns: GivenColumns, rows: Sequence[Row], options: Mapping[str, str]
) -> Sent:
    if not rows:
        return Sent()
    config = sink_config({**options, "operation": operation.value})
    places = check_supplied(columns, ignore_extra=False, queue=None, operation=operation)
    return Sender(config).send(requests(rows, places, config))
