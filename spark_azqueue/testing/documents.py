"""The XML documents and the dates that the service reads and writes."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from datetime import datetime, timezone
from email.utils import formatdate
from xml.etree import ElementTree

from . import errors
from .errors import Refusal
from .model import NOT_XML, MessageView

# The service begins its documents with a byte order mark.
_HEAD = '\ufeff<?xml version="1.0" encoding="utf-8"?>'

_DECLARED = re.compile(r"""<\?xml[^>]*?\sencoding\s*=\s*["']([^"']*)""")


class _Strict(ElementTree.TreeBuilder):
    def doctype(self, name: str, pubid: str | None, system: str | None) -> None:
        """Called by the parser at a DOCTYPE declaration, but not at the same characters in a text.
        Raises an error."""
        raise errors.invalid_xml()


def _strict_parser() -> ElementTree.XMLParser:
    return ElementTree.XMLParser(target=_Strict())  # noqa: S314 - as below


def http_date(at: float) -> str:
    """Render unix seconds as RFC 1123 text, without fractions, as the service does."""
    return _http_date(int(at))


@functools.lru_cache(maxsize=4096)
def _http_date(second: int) -> str:
    return formatdate(second, usegmt=True)


def parse_message(body: bytes) -> str:
    """Return the text of a `<QueueMessage><MessageText>…` document, or refuse with 400.

    As on the service, the document must be UTF-8, with exactly one `MessageText`, no other elements
    and no DOCTYPE.
    """
    try:
        document = body.decode("utf-8-sig")
        declared = _DECLARED.match(document)
        # Without this check, the parser would recognize UTF-16 by its zero bytes, and accept it.
        if "\0" in document or (declared is not None and declared[1].lower() != "utf-8"):
            raise errors.invalid_xml()
        parser = _strict_parser() if "<!DOCTYPE" in document else None
        root = ElementTree.fromstring(document, parser)  # noqa: S314 - sent by the tests themselves
    except ElementTree.ParseError as error:
        line, column = error.position
        raise errors.invalid_xml(line, column + 1) from None
    except ValueError:
        raise errors.invalid_xml() from None
    if root.tag != "QueueMessage" or [child.tag for child in root] != ["MessageText"]:
        raise errors.invalid_xml()
    text = root[0]
    if len(text) or ((root.text or "") + (text.tail or "")).strip():
        raise errors.invalid_xml()
    return text.text or ""


def put_reply(message: MessageView) -> bytes:
    """Render the answer to a put."""
    return _message_list([_times(message) + _receipt(message)])


def dequeue_reply(messages: list[MessageView], *, broken: bool = False) -> bytes:
    """Render the answer to a dequeue. broken: put a control character into the last body."""
    last = len(messages) - 1
    return _message_list(
        _times(message)
        + _receipt(message)
        + _body(message, "\x01" if broken and place == last else "")
        for place, message in enumerate(messages)
    )


def peek_reply(messages: list[MessageView]) -> bytes:
    """Render the answer to a peek."""
    return _message_list(_times(message) + _body(message) for message in messages)


def queue_list(
    endpoint: str,
    asked: Iterable[tuple[str, str]],
    queues: Iterable[tuple[str, dict[str, str] | None]],
    next_marker: str,
) -> bytes:
    """Render a page of queue names. asked: elements that repeat the request's parameters.

    queues: names, with the queues' metadata if the request asks for metadata.
    """
    rows = [
        _element("Name", name) + ("" if metadata is None else _of("Metadata", metadata.items()))
        for name, metadata in queues
    ]
    repeated = "".join(_element(tag, text) for tag, text in asked)
    listed = _element_of("Queues", "".join(_element_of("Queue", row) for row in rows))
    return (
        f'{_HEAD}<EnumerationResults ServiceEndpoint="{endpoint}">{repeated}{listed}'
        f"{_element('NextMarker', next_marker)}</EnumerationResults>"
    ).encode()


def _of(tag: str, fields: Iterable[tuple[str, str]]) -> str:
    return _element_of(tag, "".join(_element(name, text) for name, text in fields))


def _element(tag: str, text: str) -> str:
    return _element_of(tag, escape(text))


def _element_of(tag: str, inner: str) -> str:
    """Return an element with this markup. An empty element has the service's form `<Tag />`."""
    return f"<{tag}>{inner}</{tag}>" if inner else f"<{tag} />"


def error_document(error: Refusal, request_id: str, now: float) -> bytes:
    """Render a refusal. As on the service, the message ends with the request's id and time."""
    at = datetime.fromtimestamp(now, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%f0Z")
    details = "".join(
        f"<{name}>{escape(NOT_XML.sub('?', text))}</{name}>" for name, text in error.details
    )
    return (
        f"{_HEAD}<Error><Code>{error.code}</Code><Message>{escape(error.message)}\n"
        f"RequestId:{request_id}\nTime:{at}</Message>{details}</Error>"
    ).encode()


def escape(text: str) -> str:
    """Escape text for an element. CR is escaped as well, because a parser would replace it by
    LF."""
    return (
        text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("\r", "&#xD;")
    )


def _message_list(rows: Iterable[str]) -> bytes:
    inner = "".join(f"<QueueMessage>{row}</QueueMessage>" for row in rows)
    if not inner:
        return f"{_HEAD}<QueueMessagesList />".encode()
    return f"{_HEAD}<QueueMessagesList>{inner}</QueueMessagesList>".encode()


def _times(message: MessageView) -> str:
    return (
        f"<MessageId>{message.id}</MessageId>"
        f"<InsertionTime>{http_date(message.insertion)}</InsertionTime>"
        f"<ExpirationTime>{http_date(message.expiration)}</ExpirationTime>"
    )


def _receipt(message: MessageView) -> str:
    return (
        f"<PopReceipt>{message.receipt}</PopReceipt>"
        f"<TimeNextVisible>{http_date(message.next_visible)}</TimeNextVisible>"
    )


def _body(message: MessageView, raw: str = "") -> str:
    return f"<DequeueCount>{message.dequeue_count}</DequeueCount>" + _element_of(
        "MessageText", escape(message.text) + raw
    )
