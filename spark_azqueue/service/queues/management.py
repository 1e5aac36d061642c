"""The control plane, through the Azure SDK: creates queues, reads their metadata and size.

The SDK takes most of a second to import, and the sink's tasks seldom need it. So functions import
it when they need it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from azure.core.exceptions import ResourceExistsError

from ..account import Account
from ..sdk.clients import client_settings, code_of, retried, told
from ..sdk.deadline import CALL_S

if TYPE_CHECKING:
    from azure.storage.queue import QueueClient

T = TypeVar("T")

_RETRY_S = 30.0


def create_queue(account: Account, name: str, within_s: float = CALL_S) -> bool:
    """Create a queue. Returns False if it exists already. Raises ServiceError.

    within_s: the longest that the call may take, retries included, in seconds.
    """
    return _called(_create, account, name, within_s)


def read_metadata(account: Account, name: str, within_s: float = CALL_S) -> dict[str, str]:
    """Read a queue's metadata, with names in their original case. Raises ServiceError."""
    return _called(_metadata, account, name, within_s)


def approximate_count(account: Account, name: str, within_s: float = CALL_S) -> int:
    """Approximate number of messages in the queue, invisible ones included. Raises ServiceError."""
    return _called(_count, account, name, within_s)


def _create(client: QueueClient, account: Account, name: str) -> bool:
    doing = f"create queue '{name}' in account '{account.name}'"
    needs = "a key, an account SAS with 'c', or the role 'Storage Queue Data Contributor'"
    with told(doing, needs):
        try:
            client.create_queue()
        except ResourceExistsError as error:
            # The SDK turns 204 "exists already" into an error of the same class as 409 conflicts.
            if error.status_code == 204 or code_of(error) == "QueueAlreadyExists":
                return False
            raise
    return True


def _metadata(client: QueueClient, account: Account, name: str) -> dict[str, str]:
    with told(f"read the metadata of queue '{name}' in account '{account.name}'", _READING):
        return dict(client.get_queue_properties().metadata or {})


def _count(client: QueueClient, account: Account, name: str) -> int:
    with told(f"count the messages of queue '{name}' of account '{account.name}'", _READING):
        return client.get_queue_properties().approximate_message_count or 0


_READING = "the SAS letter 'r' or the role 'Storage Queue Data Reader'"


def _called(
    work: Callable[[QueueClient, Account, str], T], account: Account, name: str, within_s: float
) -> T:
    from azure.storage.queue import QueueClient

    with QueueClient(account.url, name, **client_settings(account)) as client:
        return retried(within_s, _RETRY_S, work, client, account, name)
