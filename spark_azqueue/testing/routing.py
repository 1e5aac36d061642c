"""Finds the operation, queue and message of a request, and checks the request's version.

Addresses and verbs: Queue Storage REST reference, one page per operation; "Versioning for Azure
Storage". Accounts are in the path (`/account/queue/messages`), as with the storage emulators.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple
from urllib.parse import unquote

from . import errors
from .wire import HttpRequest, parameters

ANSWERED_AS = "2021-12-02"
"""Version of the answer to a request that names no version."""

_FIRST_WITH_TOKENS = "2017-11-09"

_TEXT = """
2009-09-19 2011-08-18 2012-02-12 2013-08-15 2014-02-14 2015-02-21 2015-04-05 2015-07-08
2015-12-11 2016-05-31 2017-04-17 2017-07-29 2017-11-09 2018-03-28 2018-11-09 2019-02-02
2019-07-07 2019-10-10 2019-12-12 2020-02-10 2020-04-08 2020-06-12 2020-08-04 2020-10-02
2020-12-06 2021-02-12 2021-04-10 2021-06-08 2021-08-06 2021-10-04 2021-12-02 2022-11-02
2023-01-03 2023-05-03 2023-08-03 2023-11-03 2024-02-04 2024-05-04 2024-08-04 2024-11-04
2025-01-05 2025-05-05 2025-07-05 2025-11-05 2026-02-06 2026-04-06 2026-06-06 2026-10-06
"""
KNOWN_VERSIONS = frozenset(_TEXT.split())
"""Versions that the fake accepts by default; `FakeQueueService(versions=…)` sets others."""

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


class RoutedCall(NamedTuple):
    """A parsed request: an operation on a queue or message."""

    op: str
    queue: str
    message_id: str
    query: dict[str, str]
    """Decoded parameters by name. If a parameter is repeated, its values are joined with commas."""


UNKNOWN = RoutedCall("unknown", "", "", {})
"""A request for an operation that does not exist."""


def route(request: HttpRequest, account: str) -> RoutedCall:
    """Parse a request. Raises Refusal for an operation that the fake does not support."""
    query = _query(request.query)
    first, *parts = [unquote(part) for part in request.path.removeprefix("/").split("/")]
    if first != account:
        raise errors.resource_not_found()
    if parts == [""]:
        parts = []
    if "" in parts:
        raise errors.invalid_uri()
    op = _operation(request.method, parts, query)
    if op is None:
        raise errors.unsupported_verb()
    return RoutedCall(op, parts[0] if parts else "", parts[2] if len(parts) == 3 else "", query)


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


def check_version(request: HttpRequest, query: dict[str, str], versions: Collection[str]) -> None:
    """Raise Refusal (400) if the version is unknown, or if it is required and missing."""
    named = request.fields.get("x-ms-version")
    if named is not None and named not in versions:
        raise errors.invalid_header("x-ms-version", named)
    asked = query.get("api-version")
    if asked is not None and asked not in versions:
        raise errors.invalid_parameter("api-version", asked, "no such version")
    scheme = request.fields.get("authorization", "").partition(" ")[0]
    if scheme == "Bearer" and (named or "") < _FIRST_WITH_TOKENS:
        raise errors.not_authenticated(
            "Authentication scheme Bearer is not supported in this version."
        )
    if scheme and named is None:
        raise errors.missing_header("x-ms-version")


def version_answered(request: HttpRequest, versions: Collection[str]) -> str:
    """Return the version of the answer: the request's version if it is known, else the default."""
    named = request.fields.get("x-ms-version", "")
    return named if named in versions else ANSWERED_AS
