"""Reads the XML of a dequeue's or a peek's reply.

It is read message by message where it does not parse as a whole, so that one damaged body cannot
hide the other 31, which the service has leased to us already. Ring: edge.
"""

from __future__ import annotations

import functools
import html
import re
import xml.etree.ElementTree as ElementTree
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime

from .errors import service_error
from .messages import Message

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
