"""The control plane, through the Azure SDK: creates and lists queues, and reads their metadata.

The SDK takes most of a second to import, and the sink's tasks seldom need it. So functions import
it when they need it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from azure.core.exceptions import ResourceExistsError

from spark_azqueue.errors import ServiceError

from ..account import Account
from ..answers import CLEARER, CREATOR, LISTER, READER
from ..messages import is_queue_name
from ..sdk.clients import (
    client_settings,
    client_url,
    code_of,
    retried,
    translated_errors,
    with_renewed_sas,
)
from ..sdk.deadline import CALL_S, all_pages

if TYPE_CHECKING:
    from azure.storage.queue import QueueClient, QueueServiceClient

T = TypeVar("T")

_RETRY_S = 30.0

LIST_S = 10.0
"""How long a list of queues may take: a stream waits for it."""

CLEAR_S = 600.0
"""How long it may take to clear a queue."""

MOST_LISTED = 100_000
"""The most names that a list may have."""

_PAGE = 5_000
"""The most names that one answer has (REST reference, "List Queues")."""


def create_queue(
    account: Account,
    name: str,
    within_s: float = CALL_S,
    *,
    metadata: Mapping[str, str] | None = None,
) -> bool:
    """Create a queue. Returns False if it exists already. Raises ServiceError.

    within_s: the longest that the call may take, retries included, in seconds. metadata: of a new
    queue; one that exists keeps its own.
    """
    create = functools.partial(_create, metadata=dict(metadata) if metadata else None)
    return _called(create, account, name, within_s)


def delete_queue(account: Account, name: str, within_s: float = CALL_S) -> None:
    """Delete a queue with its messages. Raises ServiceError. within_s: as above."""
    _called(_delete, account, name, within_s)


def clear_queue(account: Account, name: str, within_s: float = CLEAR_S) -> None:
    """Delete all messages of a queue, leased and delayed ones, too. Raises ServiceError.

    The service may end with 500 before all are deleted, and asks for a repeat then (REST reference,
    "Clear Messages"). within_s: the longest that the call may take, repeats included, in seconds.
    """
    _called(_clear, account, name, within_s, retry_s=within_s)


def read_metadata(account: Account, name: str, within_s: float = CALL_S) -> dict[str, str]:
    """Read a queue's metadata, with names in their original case. Raises ServiceError."""
    return _called(_metadata, account, name, within_s)


def list_queues(account: Account, prefix: str, within_s: float = LIST_S) -> list[str]:
    """The names of the account's queues that begin with `prefix`. Raises ServiceError.

    within_s: as above, for all pages together. Names that no queue can have are left out.
    """
    from azure.storage.queue import QueueServiceClient

    doing = f"list the queues of account '{account.name}'"

    def listed() -> list[str]:
        with QueueServiceClient(client_url(account), **client_settings(account)) as client:

            def page(marker: str | None) -> tuple[list[str], str | None]:
                return retried(within_s, _RETRY_S, _page_of, client, doing, prefix, marker)

            return all_pages(within_s, doing, page, MOST_LISTED)

    names = with_renewed_sas(account, listed)
    if len(names) > MOST_LISTED:
        raise ServiceError(
            f"could not {doing}: more than {MOST_LISTED:,} begin with '{prefix}'. Use a pattern"
            " that begins with more letters"
        )
    return [name for name in names if is_queue_name(name)]


def _page_of(
    client: QueueServiceClient, doing: str, prefix: str, marker: str | None
) -> tuple[list[str], str | None]:
    with translated_errors(doing, LISTER):
        listing = client.list_queues(name_starts_with=prefix or None, results_per_page=_PAGE)
        pages: Any = listing.by_page(continuation_token=marker)
        names = [queue.name for queue in next(pages)]
        return names, pages.continuation_token


def _create(
    client: QueueClient, account: Account, name: str, metadata: dict[str, str] | None
) -> bool:
    doing = f"create queue '{name}' in account '{account.name}'"
    with translated_errors(doing, CREATOR):
        try:
            client.create_queue(metadata=metadata)
        except ResourceExistsError as error:
            # The SDK turns 204 "exists already" into an error of the same class as 409 conflicts.
            if error.status_code == 204 or code_of(error) == "QueueAlreadyExists":
                return False
            raise
    return True


def _delete(client: QueueClient, account: Account, name: str) -> None:
    with translated_errors(f"delete queue '{name}' in account '{account.name}'", CREATOR):
        client.delete_queue()


def _clear(client: QueueClient, account: Account, name: str) -> None:
    with translated_errors(f"clear queue '{name}' in account '{account.name}'", CLEARER):
        client.clear_messages()


def _metadata(client: QueueClient, account: Account, name: str) -> dict[str, str]:
    with translated_errors(
        f"read the metadata of queue '{name}' in account '{account.name}'", READER
    ):
        return dict(client.get_queue_properties().metadata or {})


def _called(
    work: Callable[[QueueClient, Account, str], T],
    account: Account,
    name: str,
    within_s: float,
    retry_s: float = _RETRY_S,
) -> T:
    from azure.storage.queue import QueueClient

    def called() -> T:
        with QueueClient(client_url(account), name, **client_settings(account)) as client:
            return retried(within_s, retry_s, work, client, account, name)

    return with_renewed_sas(account, called)
