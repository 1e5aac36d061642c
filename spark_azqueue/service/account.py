"""Values that describe a storage account and its credential. `options/account.py` parses options
into these values.

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
    """The library or platform that provides a Microsoft Entra credential."""

    DEFAULT = "default"
    MANAGED_IDENTITY = "managedIdentity"
    WORKLOAD_IDENTITY = "workloadIdentity"
    SERVICE_PRINCIPAL = "servicePrincipal"
    AZURE_CLI = "azureCli"
    DATABRICKS = "databricks"
    FABRIC = "fabric"


@dataclass(frozen=True)
class EntraIdentity:
    """A Microsoft Entra identity. Each process makes the credential object itself."""

    kind: IdentityKind | None = None
    provider: str | None = None
    tenant_id: str | None = None
    client_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)
    argument: str | None = None
    """Argument for the provider; None to call the provider without arguments."""
    service_credential: str | None = None
    """Name of the service credential in Unity Catalog. Set only with DATABRICKS."""


@dataclass(frozen=True)
class SasProvider:
    """Path and argument of a user's callable that returns a SAS.

    path: `package.module:callable`. argument: the callable's argument, or None for a call without
    arguments.
    """

    path: str
    argument: str | None = None


@dataclass(frozen=True)
class Account:
    """Endpoint of a storage account, with exactly one of key, sas, sas_provider, identity.

    Exception: if a SAS is bound to a user, `identity` is set as well, because requests also need a
    token of this user.

    `url`: the queue endpoint. (In the result of `read_blob_account`, the blob endpoint.)
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
    """True if the credential was read from the process's environment, not from the options."""

    @property
    def host_and_port(self) -> str:
        """Host and port of the account, for error messages: "shop.queue.core.windows.net, port
        443".
        """
        parts = urlsplit(self.url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        return f"{parts.hostname}, port {port}"


API_VERSION = "2021-12-02"
"""REST version of all requests. Azurite supports this version. This version allows messages of 64
KiB, and messages that never expire.
"""


_LETTERS = "raup"
"""Permissions to read (peek), add, update and process (dequeue, delete)."""


def queue_sas(
    account: str, key: str, queue: str, expiry: datetime, *, https: bool, letters: str = _LETTERS
) -> str:
    """Return a SAS for one queue, as a URL's query part (REST reference, "Create a service SAS").

    letters: the permissions, as in the SAS parameter `sp`. key: the account key, base64. expiry:
    time in UTC. https: if true, the service accepts the SAS over TLS only.
    """
    expires, protocol = _expires(expiry), "https" if https else ""
    resource = f"/queue/{account}/{queue}"
    signed = (letters, "", expires, resource, "", "", protocol, API_VERSION)
    return _written({"se": expires, "sp": letters, "spr": protocol}, _signature(key, signed))


def container_sas(account: str, key: str, container: str, expiry: datetime, *, https: bool) -> str:
    """Return a SAS to read, create, write, delete and list the blobs of one container.

    Other parameters: see `queue_sas`.
    """
    expires, protocol = _expires(expiry), "https" if https else ""
    resource = f"/blob/{account}/{container}"
    signed = ("rcwdl", "", expires, resource, "", "", protocol, API_VERSION, "c", *[""] * 7)
    fields = {"sr": "c", "se": expires, "sp": "rcwdl", "spr": protocol}
    return _written(fields, _signature(key, signed))


def account_sas(account: str, key: str, service: str, expiry: datetime, *, https: bool) -> str:
    """Return a SAS to create, delete and list all queues or all containers of the account.

    service: "q" for queues, "b" for blobs. Other parameters: see `queue_sas`. REST reference,
    "Create an account SAS".
    """
    expires, protocol = _expires(expiry), "https" if https else ""
    types = "sc" if service == "b" else "sco"  # clearing a queue needs a permission on its messages
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
