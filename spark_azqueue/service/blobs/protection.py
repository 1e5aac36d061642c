"""What keeps blobs for longer than this package does, as far as the blob endpoint tells.

Lifecycle rules cannot be read there: they belong to Azure's resource manager, which takes other
credentials.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from spark_azqueue.errors import AccessDenied

from ..account import Account
from ..sdk.clients import client_settings, client_url, retried, translated_errors
from .container import Container

if TYPE_CHECKING:
    from azure.storage.blob import ContainerClient

T = TypeVar("T")

_WITHIN_S = 10.0
_NEEDS = "an account key, or the letter 'r' of a SAS for the account"


@dataclass(frozen=True)
class Protection:
    """Each is None if the credential may not read it.

    immutable: the container has an immutability policy or a legal hold. kept_days: for how long
    soft delete keeps a deleted blob, 0 if it is off. versions: the account keeps versions.
    """

    immutable: bool | None
    kept_days: int | None
    versions: bool | None


def protection_of(account: Account, container: Container, path: str) -> Protection:
    """Ask for the properties of the container, the account, and this blob. Raises ServiceError."""

    def asked(what: str, act: Callable[[ContainerClient], T]) -> T | None:
        return _unless_denied(lambda: container.do(f"read properties of {what}", _NEEDS, act))

    def immutable(client: ContainerClient) -> bool:
        found = client.get_container_properties()
        return bool(found.has_immutability_policy or found.has_legal_hold)

    def versions(client: ContainerClient) -> bool:
        return bool(client.get_blob_client(path).get_blob_properties().version_id)

    return Protection(
        asked("the container", immutable),
        _unless_denied(lambda: _kept_days(account)),
        asked(f"blob '{path}'", versions),
    )


def _kept_days(account: Account) -> int:
    from azure.storage.blob import BlobServiceClient

    with BlobServiceClient(client_url(account), **client_settings(account)) as client:
        with translated_errors(f"read the blob settings of account '{account.name}'", _NEEDS):
            policy = client.get_service_properties()["delete_retention_policy"]
            return int(policy.days or 0) if policy and policy.enabled else 0


def _unless_denied(ask: Callable[[], T]) -> T | None:
    try:
        found: T = retried(_WITHIN_S, _WITHIN_S, ask)
    except AccessDenied:
        return None
    return found
