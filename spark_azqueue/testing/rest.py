"""The REST subset: what a request asks for, and carrying it out on the model.

Addresses, parameters, status codes and headers: Queue Storage REST reference, one page per
operation. Accounts are in the path (`/account/queue/messages`), as with the storage emulators.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote

from . import documents, errors
from .account import ModelAccount
from .errors import ServiceError
from .model import SEVEN_DAYS
from .wire import Request

ALL_PERMISSIONS = frozenset("raupcdlw")

# "Create a service SAS" for the first four letters, "Create an account SAS" for the others, which
# a SAS for one queue cannot have. Any one of the letters is enough.
_PERMISSIONS = {
    "peek": "r",
    "properties": "r",
    "put": "a",
    "update": "u",
    "dequeue": "p",
    "delete": "p",
    "create": "cw",
    "set_metadata": "w",
    "delete_queue": "d",
    "clear": "d",
    "list": "l",
}


class Call(NamedTuple):
    """A request understood: which operation on what."""

    op: str
    queue: str
    message_id: str
    query: dict[str, str]


class Reply(NamedTuple):
    """The outcome of a call, not yet bytes."""

    status: int
    reason: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""


class Job(NamedTuple):
    """All that an operation works with."""

    call: Call
    request: Request
    account: ModelAccount
    now: float
    fault: str
    """The kind of a fault that changes what a dequeue does; empty: none."""


def route(request: Request, account: str) -> Call:
    """Find out what is asked for, or refuse what this subset does not serve."""
    query = dict(parse_qsl(request.query, keep_blank_values=True))
    first, *parts = [unquote(part) for part in request.path.strip("/").split("/")]
    if first != account:
        raise ServiceError(404, "ResourceNotFound", "The specified resource does not exist.")
    method = "GET" if request.method == "HEAD" else request.method
    comp = query.get("comp", "")
    op = None
    if not parts:
        op = {("GET", "list"): "list"}.get((method, comp))
    elif len(parts) == 1:
        op = {
            ("PUT", ""): "create",
            ("DELETE", ""): "delete_queue",
            ("GET", "metadata"): "properties",
            ("PUT", "metadata"): "set_metadata",
        }.get((method, comp))
    elif parts[1] == "messages" and len(parts) == 2:
        reading = "peek" if query.get("peekonly", "").lower() == "true" else "dequeue"
        op = {"POST": "put", "GET": reading, "DELETE": "clear"}.get(method)
    elif parts[1] == "messages" and len(parts) == 3:
        op = {"PUT": "update", "DELETE": "delete"}.get(method)
    if op is None:
        raise ServiceError(
            405, "UnsupportedHttpVerb", "The resource doesn't support the specified Http Verb."
        )
    queue, message_id = (parts[0] if parts else ""), (parts[2] if len(parts) == 3 else "")
    return Call(op, queue, message_id, query)


def check_access(call: Call, request: Request, permissions: frozenset[str]) -> None:
    """Refuse a call without credentials or permission; no signature is ever verified."""
    if "authorization" not in request.fields and "sig" not in call.query:
        raise errors.not_authenticated()
    if permissions.isdisjoint(_PERMISSIONS[call.op]):
        raise errors.not_permitted()


def perform(job: Job) -> Reply:
    """Carry the call out; refusals come as `ServiceError`."""
    return _OPERATIONS[job.call.op](job)


def refusal(error: ServiceError, request_id: str, now: float) -> Reply:
    """Turn a refusal into the reply that tells of it."""
    headers = [("x-ms-error-code", error.code), ("Content-Type", "application/xml")]
    if error.status == 401:
        headers.append(
            (
                "WWW-Authenticate",
                "Bearer authorization_uri=https://login.microsoftonline.com/"
                "00000000-0000-0000-0000-000000000000/oauth2/authorize "
                "resource_id=https://storage.azure.com",
            )
        )
    document = documents.error_document(error, request_id, now)
    return Reply(error.status, error.message, tuple(headers), document)


def _put(job: Job) -> Reply:
    message = job.account.queue(job.call.queue).put(
        documents.parse_message(job.request.body),
        now=job.now,
        visibility_delay=_integer(job, "visibilitytimeout", 0),
        ttl=_integer(job, "messagettl", SEVEN_DAYS),
    )
    return _document(documents.put_reply(message), 201, "Created")


def _dequeue(job: Job) -> Reply:
    messages = job.account.queue(job.call.queue).dequeue(
        now=job.now,
        count=_integer(job, "numofmessages", 1),
        visibility=_integer(job, "visibilitytimeout", 30),
        twice=job.fault == "delivered_twice",
    )
    return _document(documents.dequeue_reply(messages, broken=job.fault == "broken_xml"))


def _peek(job: Job) -> Reply:
    messages = job.account.queue(job.call.queue).peek(
        now=job.now, count=_integer(job, "numofmessages", 1)
    )
    return _document(documents.peek_reply(messages))


def _update(job: Job) -> Reply:
    message = job.account.queue(job.call.queue).update(
        job.call.message_id,
        _required(job, "popreceipt"),
        now=job.now,
        visibility=_integer(job, "visibilitytimeout", None),
        text=documents.parse_message(job.request.body) if job.request.body else None,
    )
    return _done(
        ("x-ms-popreceipt", message.receipt),
        ("x-ms-time-next-visible", documents.http_date(message.next_visible)),
    )


def _delete(job: Job) -> Reply:
    receipt = _required(job, "popreceipt")
    job.account.queue(job.call.queue).delete(job.call.message_id, receipt, now=job.now)
    return _done()


def _clear(job: Job) -> Reply:
    job.account.queue(job.call.queue).clear()
    return _done()


def _create(job: Job) -> Reply:
    created = job.account.create(job.call.queue, _metadata(job.request))
    return Reply(201, "Created") if created else _done()


def _delete_queue(job: Job) -> Reply:
    job.account.delete(job.call.queue)
    return _done()


def _properties(job: Job) -> Reply:
    metadata = job.account.metadata(job.call.queue)
    count = job.account.queue(job.call.queue).approximate_count(now=job.now)
    headers = [(f"x-ms-meta-{name}", value) for name, value in metadata.items()]
    headers += [("Cache-Control", "no-cache"), ("x-ms-approximate-messages-count", str(count))]
    return Reply(200, "OK", tuple(headers))


def _set_metadata(job: Job) -> Reply:
    job.account.set_metadata(job.call.queue, _metadata(job.request))
    return _done()


def _list(job: Job) -> Reply:
    query = job.call.query
    size = _integer(job, "maxresults", 5000)
    if size < 1:
        raise errors.out_of_range("maxresults", size, 1, 5000)
    prefix, marker = query.get("prefix", ""), query.get("marker", "")
    names = [name for name in job.account.names() if name.startswith(prefix) and name >= marker]
    page, rest = names[:size], names[size:]
    with_metadata = "metadata" in query.get("include", "")
    queues = [(name, job.account.metadata(name) if with_metadata else {}) for name in page]
    endpoint = f"http://{job.request.fields.get('host', '')}{job.request.path}"
    return _document(documents.queue_list(endpoint, queues, rest[0] if rest else ""))


_OPERATIONS: dict[str, Callable[[Job], Reply]] = {
    "put": _put,
    "dequeue": _dequeue,
    "peek": _peek,
    "update": _update,
    "delete": _delete,
    "clear": _clear,
    "create": _create,
    "delete_queue": _delete_queue,
    "properties": _properties,
    "set_metadata": _set_metadata,
    "list": _list,
}


def _document(body: bytes, status: int = 200, reason: str = "OK") -> Reply:
    headers = (("Cache-Control", "no-cache"), ("Content-Type", "application/xml"))
    return Reply(status, reason, headers, body)


def _done(*headers: tuple[str, str]) -> Reply:
    return Reply(204, "No Content", headers)


def _required(job: Job, name: str) -> str:
    try:
        return job.call.query[name]
    except KeyError:
        raise errors.missing_parameter(name) from None


def _integer(job: Job, name: str, default: int | None) -> int:
    """Read a whole number; with no default the parameter is required."""
    if default is not None and name not in job.call.query:
        return default
    text = _required(job, name)
    digits = text[1:] if text.startswith("-") else text
    if not (digits.isascii() and digits.isdigit()):
        raise errors.invalid_parameter(name, text, "not a whole number")
    return int(text)


def _metadata(request: Request) -> dict[str, str]:
    prefix = "x-ms-meta-"
    return {
        name[len(prefix) :]: value
        for name, value in request.headers
        if name.lower().startswith(prefix)
    }
