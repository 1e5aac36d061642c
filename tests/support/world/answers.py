"""What the service answers to a call, by the rules of `testing/model.py`, as it is on the wire."""

from __future__ import annotations

from typing import Any

from spark_azqueue.service.incoming import Answer
from spark_azqueue.service.messages import seconds_of
from spark_azqueue.service.queues.calls import (
    Count,
    DatedDelete,
    Delete,
    Dequeue,
    Peek,
    Put,
    Release,
    Update,
)
from spark_azqueue.service.queues.reach import ProbeUpdate
from spark_azqueue.service.wire.calls import Call
from spark_azqueue.testing import Refusal, documents
from spark_azqueue.testing.model import SEVEN_DAYS, ModelAccount


def answer(
    account: ModelAccount, call: Call[Any], now: float, *, twice: bool = False, skew_s: float = 0.0
) -> Answer:
    """The answer to a request that takes effect now.

    twice: what a dequeue gives stays visible. skew_s: so much the clock that dates a refused
    request by receipt is ahead of the one of the leases.
    """
    try:
        return _carried_out(account, call, now, twice=twice)
    except Refusal as refused:
        ahead_s = 0.0 if isinstance(call, ProbeUpdate) else skew_s
        return refusal(refused.status, refused.code, now + ahead_s)


def refusal(status: int, code: str, now: float) -> Answer:
    """The answer to a request that is refused now."""
    return _dated(status, now, f"x-ms-error-code: {code}\r\n")


def _dated(status: int, now: float, head: str = "", body: bytes = b"") -> Answer:
    head += f"Date: {documents.http_date(now)}\r\n"
    return Answer(status, head.encode(), body, now)


def _carried_out(account: ModelAccount, call: Call[Any], now: float, *, twice: bool) -> Answer:
    queue = account.queue(call.queue.name, now=now)
    match call:
        case Dequeue():
            views = queue.dequeue(
                now=now, count=call.count, visibility=call.visibility_s, twice=twice
            )
            return _dated(200, now, body=documents.dequeue_reply(views))
        case Peek():
            return _dated(
                200, now, body=documents.peek_reply(queue.peek(now=now, count=call.count))
            )
        case Put():
            view = queue.put(
                call.text,
                now=now,
                visibility_delay=seconds_of(call.delay_s, now),
                ttl=SEVEN_DAYS if call.ttl_s is None else call.ttl_s,
            )
            return _dated(201, now, body=documents.put_reply(view))
        case Count():
            count = queue.approximate_count(now=now)
            return _dated(200, now, f"x-ms-approximate-messages-count: {count}\r\n")
        case ProbeUpdate():
            return refusal(404, "MessageNotFound", now)
        case Delete() | DatedDelete():
            queue.delete(call.lease.message_id, call.lease.pop_receipt, now=now)
            return _dated(204, now)
        case Update() | Release():
            delay = call.visibility_s if isinstance(call, Update) else call.delay
            view = queue.update(
                call.lease.message_id,
                call.lease.pop_receipt,
                now=now,
                visibility=seconds_of(delay, now),
                text=call.text if isinstance(call, Update) else None,
            )
            return _dated(204, now, f"x-ms-popreceipt: {view.receipt}\r\n")
    raise AssertionError(call)
