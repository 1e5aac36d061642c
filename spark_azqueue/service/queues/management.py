"""Control plane: functions that create, delete, clear and list queues, and read their metadata.

Each function opens its own connections, and closes them at its end.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from spark_azqueue.errors import ServiceError
from spark_azqueue.service import fields

from ..account import Account
from ..answers import CLEARER, CREATOR, LISTER, READER, not_the_service
from ..incoming import Answer, lines_of
from ..markup import parsed
from ..messages import QueueRef, is_queue_name
from ..retry import RetryPolicy
from ..wire.calls import SMALL_BYTES, Call, Request, escaped
from ..wire.http import Session
from ..wire.pages import all_pages
from ..wire.transport import InFlight, carried_out
from .calls import MAX_COUNT

T = TypeVar("T")

CALL_S = 60.0
"""Maximum time of a call with all its attempts, in seconds."""

_RETRY_S = 30.0

LIST_S = 10.0
"""Maximum time to list queues, in seconds. The time is short because a stream waits while its
queues are listed."""

CLEAR_S = 600.0
"""Maximum time to clear a queue, in seconds."""

MOST_LISTED = 100_000
"""Maximum number of names in a list."""

_PAGE = 5_000
"""Maximum number of names in one answer (REST reference, "List Queues")."""

_PAGE_BYTES = 2**20
"""Maximum size of a page in bytes. A page with the longest possible names takes half of this size.
"""

_MOST_TAGS = 4 * _PAGE + 50
"""Maximum number of tags on a page. The service writes four tags per queue."""


@dataclass(frozen=True, slots=True)
class CreateQueue(Call[bool]):
    """Create a queue. Returns False if the queue exists with the same metadata."""

    queue: QueueRef
    metadata: Mapping[str, str]
    of_account: ClassVar[bool] = True
    doing: ClassVar[str] = "create"
    needs: ClassVar[str] = CREATOR

    def request(self, now: float) -> Request:
        headers = {f"x-ms-meta-{name}": value for name, value in self.metadata.items()}
        return Request("PUT", (), "", headers=headers, most=SMALL_BYTES)

    def result(self, answer: Answer) -> bool:
        if answer.status not in (201, 204):
            what = f"create queue '{self.queue.name}'"
            raise not_the_service(what, "it does not say that the queue was created")
        return answer.status == 201


@dataclass(frozen=True, slots=True)
class DeleteQueue(Call[None]):
    """Delete a queue and its messages."""

    queue: QueueRef
    of_account: ClassVar[bool] = True
    doing: ClassVar[str] = "delete"
    needs: ClassVar[str] = CREATOR

    def request(self, now: float) -> Request:
        return Request("DELETE", (), "", most=SMALL_BYTES)

    def result(self, answer: Answer) -> None:
        return None


@dataclass(frozen=True, slots=True)
class Clear(Call[None]):
    """Delete all messages of a queue."""

    queue: QueueRef
    of_account: ClassVar[bool] = True
    doing: ClassVar[str] = "clear"
    needs: ClassVar[str] = CLEARER

    def request(self, now: float) -> Request:
        return Request("DELETE", ("messages",), "", most=SMALL_BYTES)

    def result(self, answer: Answer) -> None:
        return None


_METADATA = re.compile(r"x-ms-meta-([^:]+):(.*)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Metadata(Call[dict[str, str]]):
    """Return a queue's metadata, with names in their original case."""

    queue: QueueRef
    doing: ClassVar[str] = "read the metadata of"
    needs: ClassVar[str] = READER

    def request(self, now: float) -> Request:
        return Request("GET", (), "comp=metadata", most=SMALL_BYTES)

    def result(self, answer: Answer) -> dict[str, str]:
        count = answer.headers.get("x-ms-approximate-messages-count", "")
        if fields.count(count, MAX_COUNT) is None:
            raise not_the_service(f"{self.doing} queue '{self.queue.name}'", "it holds no count")
        found = (_METADATA.fullmatch(line.decode("latin-1")) for line in lines_of(answer.head))
        return {each[1].strip(): each[2].strip() for each in found if each}


@dataclass(frozen=True, slots=True)
class ListQueues(Call["tuple[list[str], str]"]):
    """Return one page of the names of queues that begin with `prefix`, and the marker of the next
    page."""

    queue: QueueRef
    prefix: str
    marker: str
    of: ClassVar[str] = ""
    of_account: ClassVar[bool] = True
    doing: ClassVar[str] = "list the queues of"
    needs: ClassVar[str] = LISTER

    def request(self, now: float) -> Request:
        query = f"comp=list&maxresults={_PAGE}"
        query += f"&prefix={escaped(self.prefix)}" if self.prefix else ""
        query += f"&marker={escaped(self.marker)}" if self.marker else ""
        return Request("GET", (), query, most=_PAGE_BYTES)

    def result(self, answer: Answer) -> tuple[list[str], str]:
        root = parsed(answer.body, _MOST_TAGS)
        listed = root.find("Queues") if root is not None else None
        if root is None or root.tag != "EnumerationResults" or listed is None:
            what = f"{self.doing} account '{self.queue.account}'"
            raise not_the_service(what, "it is not a page of a list of queues")
        names = [queue.findtext("Name") or "" for queue in listed]
        return names, root.findtext("NextMarker") or ""


def create_queue(
    account: Account,
    name: str,
    within_s: float = CALL_S,
    *,
    metadata: Mapping[str, str] | None = None,
) -> bool:
    """Create a queue. Returns False if the queue exists already. Raises ServiceError.

    within_s: maximum time of the call with retries, in seconds. metadata: metadata for a new queue.
    An existing queue keeps its metadata.
    """
    try:
        return _called(account, CreateQueue(QueueRef(account.name, name), metadata or {}), within_s)
    except ServiceError as error:
        if error.code != "QueueAlreadyExists":
            raise
        return False


def delete_queue(account: Account, name: str, within_s: float = CALL_S) -> None:
    """Delete a queue and its messages. Raises ServiceError. within_s: as for `create_queue`."""
    _called(account, DeleteQueue(QueueRef(account.name, name)), within_s)


def clear_queue(account: Account, name: str, within_s: float = CLEAR_S) -> None:
    """Delete all messages of a queue, including leased and delayed messages. Raises ServiceError.

    If the service answers 500 before all messages are deleted, the request is sent again (REST
    reference, "Clear Messages"). within_s: maximum time of all these requests, in seconds.
    """
    _called(account, Clear(QueueRef(account.name, name)), within_s, retry_s=within_s)


def read_metadata(account: Account, name: str, within_s: float = CALL_S) -> dict[str, str]:
    """Read a queue's metadata, with names in their original case. Raises ServiceError."""
    return _called(account, Metadata(QueueRef(account.name, name)), within_s)


def list_queues(account: Account, prefix: str, within_s: float = LIST_S) -> list[str]:
    """Return the names of the account's queues that begin with `prefix`. Raises ServiceError.

    within_s: maximum time for all pages together, in seconds. Names in the answer that are not
    legal queue names are left out.
    """
    doing = f"list the queues of account '{account.name}'"
    with contextlib.closing(Session(account)) as session:

        def page(marker: str, left_s: float) -> tuple[list[str], str]:
            call = ListQueues(QueueRef(account.name, ""), prefix, marker)
            return _made(session, call, RetryPolicy(_RETRY_S), left_s)

        names = all_pages(within_s, doing, page, MOST_LISTED)
    if len(names) > MOST_LISTED:
        raise ServiceError(
            f"could not {doing}: more than {MOST_LISTED:,} begin with '{prefix}'. Use a pattern"
            " that begins with more letters"
        )
    return [name for name in names if is_queue_name(name)]


def _called(account: Account, call: Call[T], within_s: float, retry_s: float = _RETRY_S) -> T:
    with contextlib.closing(Session(account)) as session:
        return _made(session, call, RetryPolicy(retry_s), within_s)


def _made(session: Session, call: Call[T], retry: RetryPolicy, within_s: float) -> T:
    return carried_out(InFlight(session, session.wire()), call, retry, within_s)
