"""Finds the operation, queue and message of a request.

Addresses and verbs: Queue Storage REST reference, one page per operation. Accounts are in the path
(`/account/queue/messages`), as with the storage emulators.
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import unquote

from . import errors
from .errors import Refusal
from .wire import Request, parameters

_OF_THE_ACCOUNT = {("GET", "list"): "list"}
_OF_A_QUEUE = {
    ("PUT", ""): "create",
    ("DELETE", ""): "delete_queue",
    ("GET", "metadata"): "properties",
    ("HEAD", "metadata"): "properties",
    ("PUT", "metadata"): "set_metadata",
}
_OF_ITS_MESSAGES = {"POST": "put", "GET": "dequeue", "DELETE": "clear"}
_OF_A_MESSAGE = {"PUT": "update", "DELETE": "delete"}


class Call(NamedTuple):
    """A parsed request: an operation on a queue or message."""

    op: str
    queue: str
    message_id: str
    query: dict[str, str]
    """Decoded parameters. The values of a repeated one are joined with commas."""


UNKNOWN = Call("unknown", "", "", {})
"""A request for an operation that does not exist."""


def route(request: Request, account: str) -> Call:
    """Parse a request. Raises Refusal for what this subset does not have."""
    query = _query(request.query)
    first, *parts = [unquote(part) for part in request.path.removeprefix("/").split("/")]
    if first != account:
        raise Refusal(404, "ResourceNotFound", "The specified resource does not exist.")
    if parts == [""]:
        parts = []
    if "" in parts:
        raise errors.invalid_uri()
    op = _operation(request.method, parts, query)
    if op is None:
        raise errors.unsupported_verb()
    return Call(op, parts[0] if parts else "", parts[2] if len(parts) == 3 else "", query)


def _operation(method: str, parts: list[str], query: dict[str, str]) -> str | None:
    comp = query.get("comp", "")
    if not parts:
        return _OF_THE_ACCOUNT.get((method, comp))
    if len(parts) == 1:
        return _OF_A_QUEUE.get((method, comp))
    if parts[1] != "messages" or len(parts) > 3:
        return None
    if len(parts) == 3:
        return _OF_A_MESSAGE.get(method)
    if method == "GET" and query.get("peekonly", "").lower() == "true":
        return "peek"
    return _OF_ITS_MESSAGES.get(method)


def _query(text: str) -> dict[str, str]:
    query: dict[str, str] = {}
    for name, value in parameters(text):
        query[name] = f"{query[name]},{value}" if name in query else value
    return query
