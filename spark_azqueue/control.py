"""The control plane, by Azure's own SDK: creating queues, their metadata, their size.

The SDK takes most of a second to import, and the sink's tasks seldom need it: it is imported where
it is used. Ring: edge.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from azure.core.exceptions import (
    AzureError,
    HttpResponseError,
    ResourceExistsError,
    ServiceRequestError,
    ServiceResponseError,
)

from .account import Account, Identity
from .config import SourceConfig
from .credentials import token_credential
from .errors import QueueNotFound, ServiceError, service_error
from .queue_settings import with_queue_settings
from .redaction import hide_signatures_in_logs
from .retry import CONTROL
from .transport import API_VERSION
from .wire import trusted_authorities

if TYPE_CHECKING:
    from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential, TokenCredential
    from azure.storage.queue import QueueClient


def create_queue(account: Account, name: str) -> bool:
    """Create a queue. Returns False where it exists already; raises ServiceError."""
    with _client(account, name) as client:
        return CONTROL(_create, client, account, name)


def read_metadata(account: Account, name: str) -> dict[str, str]:
    """What is noted on a queue (names as they were written). Raises ServiceError."""
    with _client(account, name) as client:
        return CONTROL(_metadata, client, account, name)


def with_settings_of_queues(config: SourceConfig) -> SourceConfig:
    """The config with what settingsFromQueue leaves to the queues, asked of them."""
    if not config.left_to_queue:
        return config
    metadata = {}
    for name in config.queues:
        try:
            metadata[name] = read_metadata(config.account, name)
        except QueueNotFound:
            if not config.create_queue:
                raise
    return with_queue_settings(config, metadata)


def approximate_count(account: Account, name: str) -> int:
    """About how many messages the queue holds, invisible ones too. Raises ServiceError."""
    with _client(account, name) as client:
        return CONTROL(_count, client, account, name)


def _create(client: QueueClient, account: Account, name: str) -> bool:
    doing = f"create queue '{name}' in account '{account.name}'"
    needs = "a key, an account SAS with 'c', or the role 'Storage Queue Data Contributor'"
    try:
        client.create_queue()
    except ResourceExistsError as error:
        # The SDK turns 204 "exists already" into an error of the same class as 409 conflicts.
        if error.status_code == 204 or code_of(error) == "QueueAlreadyExists":
            return False
        raise translated(error, doing, needs) from error
    except AzureError as error:
        raise translated(error, doing, needs) from error
    return True


def _metadata(client: QueueClient, account: Account, name: str) -> dict[str, str]:
    try:
        return dict(client.get_queue_properties().metadata or {})
    except AzureError as error:
        doing = f"read the metadata of queue '{name}' in account '{account.name}'"
        raise translated(error, doing, _READING) from error


def _count(client: QueueClient, account: Account, name: str) -> int:
    try:
        return client.get_queue_properties().approximate_message_count or 0
    except AzureError as error:
        doing = f"count the messages of queue '{name}' of account '{account.name}'"
        raise translated(error, doing, _READING) from error


_READING = "the SAS letter 'r' or the role 'Storage Queue Data Reader'"


def translated(error: AzureError, doing: str, needs: str) -> ServiceError:
    """An error of the SDK as ours. `doing` and `needs`: see `service_error`."""
    status = error.status_code if isinstance(error, HttpResponseError) else None
    if isinstance(error, HttpResponseError) and not (status and 200 <= status < 300):
        return service_error(doing, status=error.status_code, code=code_of(error), needs=needs)
    # A success that is an error all the same broke off in the middle.
    if isinstance(error, (ServiceRequestError, ServiceResponseError, HttpResponseError)):
        return service_error(doing, status=None, detail=type(error).__name__)
    return service_error(doing, status=400, detail=type(error).__name__)


def code_of(error: HttpResponseError) -> str:
    """The service's error code: sometimes a text, sometimes an enum, sometimes missing."""
    code = getattr(error, "error_code", None)
    return str(getattr(code, "value", code) or "")


def sdk_credential(
    account: Account,
) -> AzureNamedKeyCredential | AzureSasCredential | TokenCredential:
    """What the SDK's clients take to prove who we are."""
    from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential

    if account.key:
        return AzureNamedKeyCredential(account.name, account.key)
    if account.sas:
        return AzureSasCredential(account.sas)
    return token_credential(account.identity or Identity())


def _client(account: Account, name: str) -> QueueClient:
    from azure.storage.queue import QueueClient

    hide_signatures_in_logs()
    return QueueClient(
        account.url,
        name,
        credential=sdk_credential(account),
        api_version=API_VERSION,
        retry_total=0,
        connection_verify=trusted_authorities(),
    )
