"""From a request understood to the bytes that answer it, faults and permissions included."""

from __future__ import annotations

import math
from collections.abc import Callable

from . import errors, rest
from .account import ModelAccount
from .documents import http_date
from .errors import ServiceError
from .faults import Fault
from .wire import Request, render

NO_ANSWER = 0
"""Stands where a status would, when the connection ends instead."""

UNKNOWN = rest.Call("unknown", "", "", {})
"""A request for something that is not served."""

_REFUSALS: dict[str, Callable[[], ServiceError]] = {
    "busy_503": errors.busy,
    "error_500": errors.timed_out,
    "receipt_mismatch": errors.pop_receipt_mismatch,
    "not_found": errors.message_not_found,
    "forbidden": errors.not_permitted,
    "unauthorized": errors.token_refused,
}


def finds_messages(call: rest.Call, account: ModelAccount, now: float) -> bool:
    """Tell whether the call is a dequeue that would lease something."""
    try:
        return call.op == "dequeue" and account.queue(call.queue).has_visible(now=now)
    except ServiceError:
        return False


def carry_out(
    job: rest.Job, fault: Fault | None, *, permissions: frozenset[str], revoked: bool
) -> rest.Reply:
    """Do what the request asks, or what the fault says instead; refusals are `ServiceError`s."""
    if fault is not None:
        if fault.kind == "reset":
            return rest.Reply(NO_ANSWER, "")
        if fault.kind in _REFUSALS:
            raise _REFUSALS[fault.kind]()
    if revoked:
        raise errors.not_authenticated()
    rest.check_access(job.call, job.request, permissions)
    return rest.perform(job)


def to_bytes(
    reply: rest.Reply, request: Request, request_id: str, now: float, fault: Fault | None
) -> bytes:
    """Render a reply with the headers that every reply of the service has."""
    headers = [
        *reply.headers,
        ("Server", "spark-azqueue-fake"),
        ("x-ms-request-id", request_id),
        ("x-ms-version", request.fields.get("x-ms-version", "2021-12-02")),
        ("Date", http_date(now)),
    ]
    if "x-ms-client-request-id" in request.fields:
        headers.append(("x-ms-client-request-id", request.fields["x-ms-client-request-id"]))
    if fault is not None and fault.kind == "busy_503":
        headers.append(("Retry-After", str(math.ceil(fault.seconds))))
    return render(
        reply.status,
        reply.reason,
        headers,
        reply.body,
        # As the service does: documents in chunks, refusals with their length.
        chunked=bool(reply.body) and reply.status < 300,
        head_only=request.method == "HEAD",
    )
