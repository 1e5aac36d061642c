"""A storage account and its credential, as values; `options/account.py` makes them.

`repr` of these values hides every secret.
"""

from __future__ import annotations

import base64
import enum
import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import urlencode, urlsplit


class IdentityKind(str, enum.Enum):
    """Which Microsoft Entra credential to use: of azure-identity, Unity Catalog or Fabric."""

    DEFAULT = "default"
    MANAGED_IDENTITY = "managedIdentity"
    WORKLOAD_IDENTITY = "workloadIdentity"
    SERVICE_PRINCIPAL = "servicePrincipal"
    AZURE_CLI = "azureCli"
    DATABRICKS = "databricks"
    FABRIC = "fabric"


@dataclass(frozen=True)
class EntraIdentity:
    """A Microsoft Entra identity; the credential object itself is made in each process."""

    kind: IdentityKind | None = None
    provider: str | None = None
    tenant_id: str | None = None
    client_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)
    argument: str | None = None
    """What the provider is called with; None: without arguments."""
    service_credential: str | None = None
    """Set with DATABRICKS: its name in Unity Catalog."""


@dataclass(frozen=True)
class SasProvider:
    """A callable of the user's that gives a SAS. path: `package.module:callable`.

    argument: what it is called with; None: without arguments.
    """

    path: str
    argument: str | None = None


@dataclass(frozen=True)
class Account:
    """A storage account's endpoint with exactly one of key, sas, sas_provider, identity.

    A SAS that is bound to a user goes with that user's identity: then there are both.

    `url`: the queue endpoint (in what `read_blob_account` returns: the blob endpoint).
    `blob_url`: the blob endpoint, or None if it is unknown.
    """

    name: str
    url: str
    key: str | None = field(default=None, repr=False)
    sas: str | None = field(default=None, repr=False)
    identity: EntraIdentity | None = None
    blob_url: str | None = field(default=None, compare=False)
    sas_provider: SasProvider | None = None
    of_environment: bool = field(default=False, compare=False)
    """True if the credential is in the process's environment, and not in the options."""

    @property
    def host_and_port(self) -> str:
        """Where requests go, for an error: "shop.queue.core.windows.net, port 443"."""
        parts = urlsplit(self.url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        return f"{parts.hostname}, port {port}"


API_VERSION = "2021-12-02"
"""REST version. Every Azurite in use knows it; it has 64 KiB messages that never expire."""


_LETTERS = "raup"
"""Read (peek), add, update and process (dequeue, delete)."""


def queue_sas(
    account: str, key: str, queue: str, expiry: datetime, *, https: bool, letters: str = _LETTERS
) -> str:
    """Return a SAS for this queue, as the query part of a URL. REST reference, "Create a service
    SAS".

    letters: what it permits. key: the account key, base64. expiry: in UTC. https: the service is to
    take it over TLS alone.
    """
    expires, protocol = _expires(expiry), "https" if https else ""
    resource = f"/queue/{account}/{queue}"
    signed = (letters, "", expires, resource, "", "", protocol, API_VERSION)
    return _written({"se": expires, "sp": letters, "spr": protocol}, _signature(key, signed))


def container_sas(account: str, key: str, container: str, expiry: datetime, *, https: bool) -> str:
    """The same for a container and its blobs: to read, create, write, delete and list them."""
    expires, protocol = _expires(expiry), "https" if https else ""
    resource = f"/blob/{account}/{container}"
    signed = ("rcwdl", "", expires, resource, "", "", protocol, API_VERSION, "c", *[""] * 7)
    fields = {"sr": "c", "se": expires, "sp": "rcwdl", "spr": protocol}
    return _written(fields, _signature(key, signed))


def account_sas(account: str, key: str, service: str, expiry: datetime, *, https: bool) -> str:
    """The same for all of the account's queues or containers: to create, delete and list them.

    service: "q" or "b". REST reference, "Create an account SAS".
    """
    expires, protocol = _expires(expiry), "https" if https else ""
    types = "sc" if service == "b" else "sco"  # to clear a queue is a right on its messages
    signed = (account, "rdlc", service, types, "", expires, "", protocol, API_VERSION, "", "")
    fields = {"ss": service, "srt": types, "se": expires, "sp": "rdlc", "spr": protocol}
    return _written(fields, _signature(key, signed))


def _expires(expiry: datetime) -> str:
    return expiry.strftime("%Y-%m-%dT%H:%M:%SZ")


def _signature(key: str, signed: Iterable[str]) -> bytes:
    return hmac.digest(base64.b64decode(key), "\n".join(signed).encode(), hashlib.sha256)


def _written(fields: dict[str, str], signature: bytes) -> str:
    fields = {"sv": API_VERSION, **fields, "sig": base64.b64encode(signature).decode("ascii")}
    return urlencode({name: value for name, value in fields.items() if value})
