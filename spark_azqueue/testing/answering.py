"""Answers a request: routes and counts the request, applies faults and permissions, and renders the
answer.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable
from typing import NamedTuple

from . import errors, rest, routing
from .authorization import Gate
from .documents import http_date
from .errors import Refusal
from .faults import Fault, FaultScript, retry_after
from .model import MAX_MESSAGE_BYTES, ModelAccount, check_queue_name
from .routing import UNKNOWN, RoutedCall, route
from .wire import HttpAnswer, HttpRequest, render

_LOGGER = logging.getLogger(__name__)

NO_ANSWER = 0
"""Status that is recorded for a request whose connection ends without an answer."""

_BEFORE_VERSIONS = (400, "InvalidAuthenticationInfo")
"""Status and code of the only answer that has no version: the service sends it before it reads the
version of the request (recorded).
"""

_FAILURES_AT_MOST = 100

_REFUSALS: dict[str, Callable[[], Refusal]] = {
    "busy_503": errors.busy,
    "busy_429": errors.too_many,
    "error_500": errors.timed_out,
    "receipt_mismatch": errors.pop_receipt_mismatch,
    "not_found": errors.message_not_found,
    "forbidden": errors.not_permitted,
    "unauthorized": errors.token_refused,
}


class LogEntry(NamedTuple):
    """One request."""

    op: str
    queue: str
    id: str
    """Message id in the URL (update, delete); "" for other operations."""
    status: int
    """The HTTP status, or 0 if there was no answer."""


class Records:
    """Counters of all requests, and a log of the newest requests.

    Not thread-safe: callers must hold a lock.
    """

    def __init__(self, log_size: int) -> None:
        self.requests: Counter[str] = Counter()
        self.statuses: Counter[tuple[str, int]] = Counter()
        self.log: deque[LogEntry] = deque(maxlen=log_size)
        self.failures: deque[Exception] = deque(maxlen=_FAILURES_AT_MOST)
        """Exceptions that show a bug in the fake."""

    def note(self, entry: LogEntry) -> None:
        """Count one request and add it to the log."""
        self.requests[entry.op] += 1
        self.statuses[entry.op, entry.status] += 1
        self.log.append(entry)

    def clear(self) -> None:
        """Remove all counts, the log and the failures."""
        self.requests.clear()
        self.statuses.clear()
        self.log.clear()
        self.failures.clear()


class Answering:
    """Answers requests, one at a time, and records them."""

    def __init__(
        self, model: ModelAccount, gate: Gate, faults: FaultScript, records: Records
    ) -> None:
        self._model = model
        self._gate = gate
        self._faults = faults
        self._records = records

    def answer(self, request: HttpRequest, now: float, *, number: int, revoked: bool) -> HttpAnswer:
        """Answer one request. Never raises; see `Records.failures`. number: number from which the
        request's id is made.
        """
        call, fault, delay = UNKNOWN, None, 0.0
        request_id = f"{number:08x}-0000-4000-8000-000000000000"

        def rendered(reply: rest.Reply) -> bytes | None:
            if reply.status == NO_ANSWER:
                return None
            return to_bytes(reply, request, request_id, now, fault, self._gate.versions)

        try:
            try:
                call = route(request, self._gate.account)
                fault, delay = self._faults.judge(
                    call.op, call.queue, finds_messages=finds_messages(call, self._model, now)
                )
                job = rest.Job(call, request, self._model, now, fault)
                reply = carry_out(job, fault, self._gate, revoked=revoked)
            except Refusal as error:
                reply = rest.refusal(error, request_id, now)
            if fault is not None and fault.kind == "reply_lost":
                # The client does not get a refusal either.
                reply = rest.Reply(NO_ANSWER, "")
            data = rendered(reply)
        except Exception as problem:
            _LOGGER.exception("the fake queue service failed at a request")
            self._records.failures.append(problem)
            reply = rest.refusal(errors.internal_error(), request_id, now)
            data = rendered(reply)
        self._records.note(LogEntry(call.op, call.queue, call.message_id, reply.status))
        return HttpAnswer(data, delay, reset=fault is not None and fault.kind == "reset")


def finds_messages(call: RoutedCall, account: ModelAccount, now: float) -> bool:
    """Return True if the call is a dequeue that would lease a message."""
    try:
        return call.op == "dequeue" and account.queue(call.queue).has_visible(now=now)
    except Refusal:
        return False


def carry_out(job: rest.Job, fault: Fault | None, gate: Gate, *, revoked: bool) -> rest.Reply:
    """Carry out the request, or the fault that hits it. Raises `Refusal` if the request is
    refused."""
    if fault is not None:
        if fault.kind == "reset":
            return rest.Reply(NO_ANSWER, "")
        if fault.kind in _REFUSALS:
            raise _REFUSALS[fault.kind]()
    if revoked:
        raise errors.not_authenticated()
    if job.call.queue:
        check_queue_name(job.call.queue)
    gate.admit(job.call, job.request)
    if job.request.too_large:
        raise errors.body_too_large(MAX_MESSAGE_BYTES)
    return rest.perform(job)


def to_bytes(
    reply: rest.Reply,
    request: HttpRequest,
    request_id: str,
    now: float,
    fault: Fault | None,
    served: frozenset[str],
) -> bytes:
    """Render a reply, with the headers that all replies of the service have."""
    headers = [
        *reply.headers,
        ("Server", "spark-azqueue-fake"),
        ("x-ms-request-id", request_id),
        ("Date", http_date(now)),
    ]
    if (reply.status, dict(reply.headers).get("x-ms-error-code")) != _BEFORE_VERSIONS:
        headers.append(("x-ms-version", routing.version_answered(request, served)))
    if "x-ms-client-request-id" in request.fields:
        headers.append(("x-ms-client-request-id", request.fields["x-ms-client-request-id"]))
    headers += retry_after(fault)
    return render(
        reply.status,
        reply.reason,
        headers,
        reply.body,
        # As on the service, documents are sent in chunks, and refusals with their length.
        chunked=bool(reply.body) and reply.status < 300,
        head_only=request.method == "HEAD",
    )
