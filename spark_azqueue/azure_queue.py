"""The hot plane: dequeue, delete, update, put on one queue, one attempt per call.

The reply's XML is read message by message where it does not parse as a whole, so that one damaged
body cannot hide the other 31, which the service has leased to us already. Ring: edge.
"""

from __future__ import annotations

import functools
import html
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from urllib.parse import quote
from xml.sax.saxutils import escape

from .errors import Outcome, ServiceError, service_error
from .leases import Lease
from .messages import Message
from .transport import Response, Transport

_NEEDS = {
    "dequeue": "the SAS letter 'p' or the role 'Storage Queue Data Message Processor'",
    "delete": "the SAS letter 'p' or the role 'Storage Queue Data Message Processor'",
    "update": "the SAS letter 'u' or the role 'Storage Queue Data Contributor'",
    "put": "the SAS letter 'a' or the role 'Storage Queue Data Message Sender'",
    "peek": "the SAS letter 'r' or the role 'Storage Queue Data Reader'",
}


@dataclass(frozen=True, slots=True)
class Page:
    """The messages of one dequeue. `sent_at`: monotonic time at which the request left."""

    messages: tuple[Message, ...]
    asked: int
    sent_at: float


class AzureQueue:
    """One queue. Safe to use from any number of threads of one process."""

    def __init__(self, transport: Transport, name: str) -> None:
        self._transport = transport
        self.name = name

    def dequeue(self, count: int, visibility_s: int) -> Page:
        """Lease up to `count` (1 to 32) messages for `visibility_s` (1 s to 7 days).

        Where the answer is lost, the page stays invisible until that time is over: no loss.
        """
        answer = self._call(
            "GET",
            "dequeue",
            "dequeue from",
            query={"numofmessages": count, "visibilitytimeout": visibility_s},
        )
        return Page(tuple(read_messages(self.name, answer.body)), count, answer.sent_at)

    def peek(self, count: int) -> tuple[Message, ...]:
        """Up to `count` (1 to 32) visible messages, untouched: no lease, no dequeue count."""
        answer = self._call(
            "GET", "peek", "peek into", query={"numofmessages": count, "peekonly": "true"}
        )
        return tuple(read_messages(self.name, answer.body))

    def delete(self, lease: Lease) -> Outcome:
        """Delete by receipt. Returns OK, GONE or LOST; raises ServiceError for the rest.

        A receipt whose lease ran out still works while nobody else has dequeued the message.
        """
        return self._by_receipt("DELETE", "delete", lease, {})[0]

    def update(
        self, lease: Lease, visibility_s: int, text: str | None = None
    ) -> tuple[Outcome, Lease | None]:
        """Hide the message for `visibility_s` from now (0 = release it); None keeps its text.

        Returns the outcome and, with OK, the lease with its new receipt: the old one is dead.
        """
        body = None if text is None else _document(text)
        query: dict[str, str | int] = {"visibilitytimeout": visibility_s}
        outcome, answer = self._by_receipt("PUT", "update", lease, query, body)
        if answer is None:
            return outcome, None
        receipt = answer.headers.get("x-ms-popreceipt", "")
        return outcome, Lease(self.name, lease.message_id, receipt)

    def put(self, text: str, delay_s: int = 0, ttl_s: int | None = None) -> None:
        """Enqueue a text. Retrying after a lost answer may enqueue it twice.

        delay_s: invisible for so long. ttl_s: expires after so long, -1 never, None 7 days.
        """
        query: dict[str, str | int] = {"visibilitytimeout": delay_s} if delay_s else {}
        if ttl_s is not None:
            query["messagettl"] = ttl_s
        self._call("POST", "put", "put into", query=query, body=_document(text))

    def check(self) -> datetime:
        """Check that the queue exists and that we may update in it; return the service's time.

        Updates a message that cannot exist: refused as unknown where we may (404 or 400), as
        forbidden where we may not (403). Raises QueueNotFound, AccessDenied, ServiceError.
        """
        nobody = "00000000-0000-0000-0000-000000000000"
        receipt = "AgAAAAMAAAAAAAAAAAAAAAAAAAA="
        try:
            answer = self._call(
                "PUT",
                "update",
                "update messages in",
                path=f"/messages/{nobody}",
                query={"popreceipt": receipt, "visibilitytimeout": 0},
                by_receipt=True,
            )
            date = answer.headers.get("Date")
        except ServiceError as error:
            if not error.outcome.refused:
                raise
            date = error.date
        return parsedate_to_datetime(date) if date else datetime.now(timezone.utc)

    def check_put(self) -> None:
        """Check that we may put into this queue (which exists), without putting anything.

        Sends a time to live of 0, which the service refuses with 400 where we may put and with 403
        where we may not. Raises AccessDenied, ServiceError.
        """
        try:
            self.put("", 0, 0)
        except ServiceError as error:
            if error.status != 400:
                raise

    def _by_receipt(
        self,
        method: str,
        operation: str,
        lease: Lease,
        query: dict[str, str | int],
        body: bytes | None = None,
    ) -> tuple[Outcome, Response | None]:
        try:
            answer = self._call(
                method,
                operation,
                f"{operation} message {lease.message_id} in",
                path=f"/messages/{quote(lease.message_id, safe='')}",
                query={"popreceipt": lease.pop_receipt, **query},
                body=body,
                by_receipt=True,
            )
        except ServiceError as error:
            if error.outcome.refused:
                return error.outcome, None
            raise
        return Outcome.OK, answer

    def _call(
        self,
        method: str,
        operation: str,
        doing: str,
        *,
        path: str = "/messages",
        query: dict[str, str | int],
        body: bytes | None = None,
        by_receipt: bool = False,
    ) -> Response:
        return self._transport.request(
            method,
            self.name,
            path,
            query,
            body,
            doing=doing,
            needs=_NEEDS[operation],
            by_receipt=by_receipt,
        )


def _document(text: str) -> bytes:
    # A carriage return must be written as a reference, or XML readers make a line feed of it.
    body = escape(text, {"\r": "&#13;"})
    return (
        '<?xml version="1.0" encoding="utf-8"?>'
        f"<QueueMessage><MessageText>{body}</MessageText></QueueMessage>"
    ).encode()


# ── the reply's XML ───────────────────────────────────────────────────────────────────────────────

_ONE = re.compile(rb"<QueueMessage>.*?</QueueMessage>", re.DOTALL)
_TEXT = re.compile(rb"<MessageText>(.*?)</MessageText>", re.DOTALL)


def read_messages(queue: str, document: bytes) -> list[Message]:
    """Messages of a dequeue or peek reply, each by itself where the document is damaged.

    Raises ServiceUnavailable where it is no such reply at all.
    """
    if b"<QueueMessagesList" not in document[:200]:
        # A proxy's own page, say. An error must not look like an empty queue.
        raise service_error(
            f"read messages of queue '{queue}'",
            status=None,
            detail="the answer is no list of messages; is there a proxy on the way?",
        )
    try:
        root = ElementTree.fromstring(document)  # noqa: S314 (the service's own, over TLS)
    except ElementTree.ParseError:
        return [_damaged_or_not(queue, piece) for piece in _ONE.findall(document)]
    return [_message(queue, node) for node in root.iter("QueueMessage")]


def _damaged_or_not(queue: str, piece: bytes) -> Message:
    try:
        return _message(queue, ElementTree.fromstring(piece))  # noqa: S314
    except ElementTree.ParseError:
        found = _TEXT.search(piece)
        raw = found[1].decode("utf-8", "replace") if found else ""
        node = ElementTree.fromstring(_TEXT.sub(b"", piece))  # noqa: S314
        return _message(queue, node, text=html.unescape(raw), intact=False)


def _message(
    queue: str, node: ElementTree.Element, text: str | None = None, intact: bool = True
) -> Message:
    fields = {child.tag: child.text or "" for child in node}
    visible = fields.get("TimeNextVisible")
    return Message(
        queue=queue,
        message_id=fields["MessageId"],
        text=fields.get("MessageText", "") if text is None else text,
        insertion_time=_microseconds(fields["InsertionTime"]),
        expiration_time=_microseconds(fields["ExpirationTime"]),
        dequeue_count=int(fields.get("DequeueCount", 0)),
        next_visible_time=_microseconds(visible) if visible else None,
        pop_receipt=fields.get("PopReceipt"),
        intact=intact,
    )


# What never expires does so at the end of the year 9999. Python's datetime, and so `collect()`,
# cannot hold that in any time zone east of UTC: a day less means as much.
_LATEST = int(datetime(9999, 12, 30, 23, 59, 59, tzinfo=timezone.utc).timestamp())


@functools.lru_cache(maxsize=4096)
def _microseconds(http_date: str) -> int:
    """RFC 1123 text -> microseconds since 1970. Messages of one time share the text: cached."""
    return min(int(parsedate_to_datetime(http_date).timestamp()), _LATEST) * 1_000_000
