"""The control plane, through the Azure SDK: creates queues and reads their metadata.

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
from .permissions import CREATOR, READER

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


def _create(client: QueueClient, account: Account, name: str) -> bool:
    doing = f"create queue '{name}' in account '{account.name}'"
    with told(doing, CREATOR):
        try:
            client.create_queue()
        except ResourceExistsError as error:
            # The SDK turns 204 "exists already" into an error of the same class as 409 conflicts.
            if error.status_code == 204 or code_of(error) == "QueueAlreadyExists":
                return False
            raise
    return True


def _metadata(client: QueueClient, account: Account, name: str) -> dict[str, str]:
    with told(f"read the metadata of queue '{name}' in account '{account.name}'", READER):
        return dict(client.get_queue_properties().metadata or {})


def _called(
    work: Callable[[QueueClient, Account, str], T], account: Account, name: str, within_s: float
) -> T:
    from azure.storage.queue import QueueClient

    with QueueClient(account.url, name, **client_settings(account)) as client:
        return retried(within_s, _RETRY_S, work, client, account, name)
