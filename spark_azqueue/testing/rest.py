"""Carries out REST requests on the model. Has a subset of the service's REST operations.

Parameters, status codes and headers: Queue Storage REST reference, one page per operation.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from . import documents, errors
from .errors import Refusal
from .faults import Fault, duration_of
from .model import SEVEN_DAYS, ModelAccount, ModelQueue
from .routing import RoutedCall
from .wire import HttpRequest

_NUMBER = re.compile(r"(-?)0*(0|[1-9][0-9]*)")
_INT32_MAX = 2**31 - 1
_DIGITS_AT_MOST = len(str(_INT32_MAX))
_NAMES_AT_MOST = 5000


class Reply(NamedTuple):
    """The result of a call, before it is rendered to bytes."""

    status: int
    reason: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""


class Job(NamedTuple):
    """The input of an operation."""

    call: RoutedCall
    request: HttpRequest
    account: ModelAccount
    now: float
    fault: Fault | None
    """A fault that changes a dequeue, or the deletion of a queue."""

    def queue(self) -> ModelQueue:
        """Return the queue of the call. Raises Refusal."""
        return self.account.queue(self.call.queue, now=self.now)

    def hit_by(self, kind: str) -> bool:
        """Return True if a fault of this kind hits the request."""
        return self.fault is not None and self.fault.kind == kind


def perform(job: Job) -> Reply:
    """Carry out the call. Raises `Refusal`."""
    return _OPERATIONS[job.call.op](job)


def refusal(error: Refusal, request_id: str, now: float) -> Reply:
    """Turn a refusal into a reply."""
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
    # The service checks the body before it looks for the queue.
    text = documents.parse_message(job.request.body)
    message = job.queue().put(
        text,
        now=job.now,
        visibility_delay=_integer(job, "visibilitytimeout", 0),
        ttl=_integer(job, "messagettl", SEVEN_DAYS),
    )
    headers = (("Content-Type", "application/xml"),)
    return Reply(201, "Created", headers, documents.put_reply(message))


def _dequeue(job: Job) -> Reply:
    messages = job.queue().dequeue(
        now=job.now,
        count=_integer(job, "numofmessages", 1),
        visibility=_integer(job, "visibilitytimeout", 30),
        twice=job.hit_by("delivered_twice"),
    )
    return _document(documents.dequeue_reply(messages, broken=job.hit_by("broken_xml")))


def _peek(job: Job) -> Reply:
    messages = job.queue().peek(now=job.now, count=_integer(job, "numofmessages", 1))
    return _document(documents.peek_reply(messages))


def _update(job: Job) -> Reply:
    text = documents.parse_message(job.request.body) if job.request.body else None
    message = job.queue().update(
        job.call.message_id,
        _required(job, "popreceipt"),
        now=job.now,
        visibility=_integer(job, "visibilitytimeout", None),
        text=text,
    )
    return _done(
        ("x-ms-popreceipt", message.receipt),
        ("x-ms-time-next-visible", documents.http_date(message.next_visible)),
    )


def _delete(job: Job) -> Reply:
    receipt = _required(job, "popreceipt")
    job.queue().delete(job.call.message_id, receipt, now=job.now)
    return _done()


def _clear(job: Job) -> Reply:
    job.queue().clear()
    return _done()


def _create(job: Job) -> Reply:
    created = job.account.create(job.call.queue, _metadata(job.request), now=job.now)
    return Reply(201, "Created") if created else _done()


def _delete_queue(job: Job) -> Reply:
    blocked = duration_of(job.fault) if job.fault and job.hit_by("being_deleted") else 0.0
    job.account.delete(job.call.queue, now=job.now, blocked_for=blocked)
    return _done()


def _properties(job: Job) -> Reply:
    count = job.queue().approximate_count(now=job.now)
    metadata = job.account.metadata(job.call.queue)
    headers = [(f"x-ms-meta-{name}", value) for name, value in metadata.items()]
    headers += [("Cache-Control", "no-cache"), ("x-ms-approximate-messages-count", str(count))]
    return Reply(200, "OK", tuple(headers))


def _set_metadata(job: Job) -> Reply:
    job.queue()
    job.account.set_metadata(job.call.queue, _metadata(job.request))
    return _done()


def _list(job: Job) -> Reply:
    query = job.call.query
    size = _integer(job, "maxresults", _NAMES_AT_MOST)
    if size < 1:
        raise errors.out_of_range("maxresults", size, 1, _NAMES_AT_MOST)
    size = min(size, _NAMES_AT_MOST)
    account = job.request.path.strip("/")
    prefix, first = query.get("prefix", ""), _from_marker(query.get("marker", ""), account)
    names = [name for name in job.account.names() if name.startswith(prefix) and name >= first]
    page, rest = names[:size], names[size:]
    with_metadata = "metadata" in query.get("include", "")
    queues = [(name, job.account.metadata(name) if with_metadata else None) for name in page]
    endpoint = f"http://{job.request.fields.get('host', '')}/{account}"
    asked = [(tag, query[name]) for name, tag in _ECHOED if query.get(name)]
    following = f"/{account}/{rest[0]}" if rest else ""
    return _document(documents.queue_list(endpoint, asked, queues, following))


_ECHOED = (("prefix", "Prefix"), ("marker", "Marker"), ("maxresults", "MaxResults"))
"""Parameters of a request for a listing. The answer repeats them in this order."""


def _from_marker(marker: str, account: str) -> str:
    """Return the name of the first queue of the page that this marker names.

    A marker is opaque to clients. The service's markers have the form `/account/name`.
    """
    if not marker:
        return ""
    found = re.fullmatch(rf"/{re.escape(account)}/([a-z0-9-]{{3,63}})", marker)
    if found is None:
        raise errors.invalid_parameter("marker", marker, "not one that a list has given")
    return found[1]


_OPERATIONS: dict[str, Callable[[Job], Reply]] = {
    each.__name__.removeprefix("_"): each
    for each in (
        *(_put, _dequeue, _peek, _update, _delete, _clear),
        *(_create, _delete_queue, _properties, _set_metadata, _list),
    )
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
    """Read a whole number. Without a default, the parameter is required."""
    if default is not None and name not in job.call.query:
        return default
    text = _required(job, name)
    found = _NUMBER.fullmatch(text)
    if found is None:
        raise errors.invalid_parameter(name, text, "not a whole number")
    # Checked before `int`, because Python refuses texts of more than 4,300 digits.
    if len(found[2]) > _DIGITS_AT_MOST or int(found[2]) > _INT32_MAX:
        raise errors.invalid_parameter(name, text, "does not fit into 32 bits")
    return int(found[1] + found[2])


def _metadata(request: HttpRequest) -> dict[str, str]:
    prefix = "x-ms-meta-"
    return {
        name[len(prefix) :]: value
        for name, value in request.headers
        if name.lower().startswith(prefix)
    }
