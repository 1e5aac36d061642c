"""A storage account and its credential, as values. Read from options; nothing is sent.

`repr` of these values hides every secret.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from spark_azqueue.errors import InvalidOption


class IdentityKind(str, enum.Enum):
    """Which Microsoft Entra credential to use: of azure-identity, or of Unity Catalog."""

    DEFAULT = "default"
    MANAGED_IDENTITY = "managedIdentity"
    WORKLOAD_IDENTITY = "workloadIdentity"
    SERVICE_PRINCIPAL = "servicePrincipal"
    AZURE_CLI = "azureCli"
    DATABRICKS = "databricks"


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
class Account:
    """A storage account's endpoint with exactly one of key, sas, identity.

    `url`: the queue endpoint (in what `read_blob_account` returns: the blob endpoint).
    `blob_url`: the blob endpoint, or None if it cannot be told.
    """

    name: str
    url: str
    key: str | None = field(default=None, repr=False)
    sas: str | None = field(default=None, repr=False)
    identity: EntraIdentity | None = None
    blob_url: str | None = field(default=None, compare=False)

    @property
    def host_and_port(self) -> str:
        """Where requests go, for an error: "shop.queue.core.windows.net, port 443"."""
        parts = urlsplit(self.url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        return f"{parts.hostname}, port {port}"


_URL = re.compile(
    r"https?://(?P<host>\[[0-9A-F:.]+\]|[A-Z0-9._-]+)(:(?P<port>[0-9]{1,5}))?"
    r"(?P<path>(/[A-Z0-9._~-]+)*)",
    re.IGNORECASE | re.ASCII,
)


_HARMLESS = re.compile(r"[A-Za-z0-9.:/_\[\]-]{1,200}")


def checked_url(url: str, source: str, service: str = "queue") -> str:
    """Return an account's URL for this service, without a trailing slash. Raises InvalidOption.

    source: names the option in errors. service: "queue" or "blob".
    """
    url = url.rstrip("/")
    if "?" in url or "#" in url:
        raise InvalidOption(
            f"the {source} has a query part, which plans would show (value hidden). Give a SAS as"
            " 'sasToken', or as SharedAccessSignature of a connection string"
        )
    found = _URL.fullmatch(url)
    host, path = (found["host"].lower(), found["path"]) if found else ("", "")
    if not _port_is_legal(found) or (f".{service}.core." in host and path):
        what = "a queue" if service == "queue" else "a container"
        raise InvalidOption(
            f"the {source} is {_told(url)}; expected https://<account>.{service}.core.windows.net,"
            f" without {what}"
        )
    return url


def _port_is_legal(found: re.Match[str] | None) -> bool:
    return found is not None and 0 < int(found["port"] or 1) < 65_536


def _told(url: str) -> str:
    """Describe a text that is not an address. Hide it if it may be or hold a secret."""
    if _HARMLESS.fullmatch(url) and ("." in url or "://" in url):
        return repr(url)
    if "=" in url:
        return "no address, but looks like a connection string or a SAS (value not shown)"
    if "@" in url:
        return "an address with a user or a password in it (value not shown)"
    return "no address (value not shown)"


def account_name(url: str) -> str:
    """The account's name. Azurite and IP addresses have it in the path, Azure in the host name."""
    parts = urlsplit(url)
    if path := parts.path.strip("/"):
        return path.split("/")[0]
    return re.sub(r"-secondary$", "", (parts.hostname or "").split(".")[0])


def blob_url_beside(queue_url: str) -> str | None:
    """The blob endpoint of the same account: `.queue.` becomes `.blob.`. None without `.queue.`"""
    host = urlsplit(queue_url).netloc
    if ".queue." not in host:
        return None
    return queue_url.replace(host, host.replace(".queue.", ".blob.", 1), 1)


def connection_string_parts(text: str, source: str) -> dict[str, str]:
    """Fields by lower-case name. Raises InvalidOption, which never quotes the text."""
    parts: dict[str, str] = {}
    for piece in filter(None, (piece.strip() for piece in text.split(";"))):
        name, equals, value = piece.partition("=")
        if not equals:
            raise InvalidOption(
                f"the {source} is not a connection string: it should read"
                " 'AccountName=…;AccountKey=…;EndpointSuffix=core.windows.net' (value not shown)"
            )
        parts[name.strip().lower()] = value.strip()
    return parts


def endpoint(parts: Mapping[str, str], service: str) -> str | None:
    """The endpoint in a connection string, or the one its account name implies, or None."""
    if url := parts.get(f"{service}endpoint", "").rstrip("/"):
        return url
    if not (name := parts.get("accountname")):
        return None
    protocol = parts.get("defaultendpointsprotocol", "https")
    suffix = parts.get("endpointsuffix", "core.windows.net")
    return f"{protocol}://{name}.{service}.{suffix}"


API_VERSION = "2021-12-02"
"""REST version. Every Azurite in use knows it; it has 64 KiB messages that never expire."""
