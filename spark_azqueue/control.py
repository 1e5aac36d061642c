"""The control plane, by Azure's own SDK: creating queues, and how many messages they hold.

Ring: edge.
"""

from __future__ import annotations

from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential, TokenCredential
from azure.core.exceptions import (
    AzureError,
    HttpResponseError,
    ResourceExistsError,
    ServiceRequestError,
    ServiceResponseError,
)
from azure.storage.queue import QueueClient

from .account import Account, Identity
from .credentials import token_credential, trusted_authorities
from .errors import service_error
from .retry import CONTROL
from .transport import API_VERSION


def create_queue(account: Account, name: str) -> bool:
    """Create a queue. Returns False where it exists already; raises ServiceError."""
    with _client(account, name) as client:
        return CONTROL(_create, client, account, name)


def _create(client: QueueClient, account: Account, name: str) -> bool:
    try:
        client.create_queue()
    except ResourceExistsError as error:
        # The SDK turns 204 "exists already" into an error of the same class as 409 conflicts.
        if error.status_code == 204 or _code(error) == "QueueAlreadyExists":
            return False
        raise _translated(error, f"create {_told(account, name)}", _TO_CREATE) from error
    except AzureError as error:
        raise _translated(error, f"create {_told(account, name)}", _TO_CREATE) from error
    return True


def approximate_count(account: Account, name: str) -> int:
    """About how many messages the queue holds, invisible ones too. Raises ServiceError."""
    with _client(account, name) as client:
        return CONTROL(_count, client, account, name)


def _count(client: QueueClient, account: Account, name: str) -> int:
    try:
        return client.get_queue_properties().approximate_message_count or 0
    except AzureError as error:
        doing = f"count the messages of {_told(account, name)}"
        raise _translated(error, doing, _TO_COUNT) from error


_TO_CREATE = "a key, an account SAS with 'c', or the role 'Storage Queue Data Contributor'"
_TO_COUNT = "the SAS letter 'r' or the role 'Storage Queue Data Reader'"


def _told(account: Account, name: str) -> str:
    return f"queue '{name}' of account '{account.name}'"


def _translated(error: AzureError, doing: str, needs: str) -> Exception:
    if isinstance(error, HttpResponseError):
        return service_error(doing, status=error.status_code, code=_code(error), needs=needs)
    if isinstance(error, (ServiceRequestError, ServiceResponseError)):
        return service_error(doing, status=None, detail=type(error).__name__)
    return service_error(doing, status=400, detail=type(error).__name__)


def _code(error: HttpResponseError) -> str:
    """The service's error code: sometimes a text, sometimes an enum, sometimes missing."""
    code = getattr(error, "error_code", None)
    return str(getattr(code, "value", code) or "")


def _client(account: Account, name: str) -> QueueClient:
    credential: AzureNamedKeyCredential | AzureSasCredential | TokenCredential
    if account.key:
        credential = AzureNamedKeyCredential(account.name, account.key)
    elif account.sas:
        credential = AzureSasCredential(account.sas)
    else:
        credential = token_credential(account.identity or Identity())
    return QueueClient(
        account.url,
        name,
        credential=credential,
        api_version=API_VERSION,
        retry_total=0,
        connection_verify=trusted_authorities() or True,
    )
