"""Which storage account, and with which credential: read from options, never from the network.

`repr` of these values hides every secret. Ring: core (standard library only).
"""

from __future__ import annotations

import base64
import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from .errors import InvalidOption

ENVIRONMENT_VARIABLE = "AZURE_STORAGE_CONNECTION_STRING"

# Azurite's account is the same everywhere and public (Azurite's README); it opens nothing else.
_AZURITE_NAME = "devstoreaccount1"
_AZURITE_KEY = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)
_AZURITE_URL = f"http://127.0.0.1:10001/{_AZURITE_NAME}"

_WAYS = (
    "'secret.connectionString', or 'accountUrl' with one of 'accountAccessKey', 'sasToken',"
    " 'credential', 'credentialProvider'"
)


class IdentityKind(str, enum.Enum):
    """Which Microsoft Entra credential of azure-identity to use."""

    DEFAULT = "default"
    MANAGED_IDENTITY = "managedIdentity"
    WORKLOAD_IDENTITY = "workloadIdentity"
    SERVICE_PRINCIPAL = "servicePrincipal"
    AZURE_CLI = "azureCli"


@dataclass(frozen=True)
class Identity:
    """A Microsoft Entra identity; the credential object itself is made in each process."""

    kind: IdentityKind | None = None
    provider: str | None = None
    tenant_id: str | None = None
    client_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Account:
    """A storage account's queue endpoint with exactly one of key, sas, identity."""

    name: str
    url: str
    key: str | None = field(default=None, repr=False)
    sas: str | None = field(default=None, repr=False)
    identity: Identity | None = None


def read_account(options: Mapping[str, Any], environment: Mapping[str, str]) -> Account:
    """Find the one credential in parsed options (by canonical name).

    Raises InvalidOption where there is none, more than one, or one that does not fit together.
    """
    given = {name: value for name, value in options.items() if value is not None}
    text = given.get("secret.connectionString") or given.get("connectionString")
    ways = [
        name
        for name in (
            "secret.connectionString",
            "connectionString",
            "accountAccessKey",
            "sasToken",
            "credential",
            "credentialProvider",
        )
        if name in given
    ]
    if len(ways) > 1:
        raise InvalidOption(
            f"more than one credential: {' and '.join(map(repr, ways))} are set; keep one of them"
        )
    if text and "accountUrl" in given:
        raise InvalidOption(
            f"'accountUrl' and '{ways[0]}' are both set; the connection string already names the"
            " account, so remove 'accountUrl'"
        )
    if not ways and "accountUrl" not in given:
        text = environment.get(ENVIRONMENT_VARIABLE)
        if not text:
            raise InvalidOption(
                f"no credential: set {_WAYS}, or the environment variable {ENVIRONMENT_VARIABLE}"
            )
    if text:
        source = f"option '{ways[0]}'" if ways else f"environment variable {ENVIRONMENT_VARIABLE}"
        _refuse_identity_details(given, "a connection string")
        return _from_connection_string(text, source)
    if not ways:
        raise InvalidOption(f"'accountUrl' is set, but no credential with it: set {_WAYS}")
    if "accountUrl" not in given:
        raise InvalidOption(
            f"'{ways[0]}' needs 'accountUrl', such as https://<account>.queue.core.windows.net"
        )
    return _from_url(given, ways[0])


def _from_url(given: Mapping[str, Any], way: str) -> Account:
    url = _checked_url(str(given["accountUrl"]), "option 'accountUrl'")
    name = _account_name(url)
    if way == "accountAccessKey":
        _refuse_identity_details(given, f"'{way}'")
        return Account(name, url, key=_key(str(given[way]), "option 'accountAccessKey'"))
    if way == "sasToken":
        _refuse_identity_details(given, f"'{way}'")
        return Account(name, url, sas=_sas(str(given[way]), "option 'sasToken'"))
    if not url.startswith("https:"):
        raise InvalidOption(f"'{way}' sends a token, which needs an https 'accountUrl', not {url}")
    kind = given.get("credential")
    if kind is None:
        _refuse_identity_details(given, f"'{way}'")
    identity = Identity(
        kind=kind,
        provider=given.get("credentialProvider"),
        tenant_id=given.get("tenantId"),
        client_id=given.get("clientId"),
        client_secret=given.get("clientSecret"),
    )
    if kind is IdentityKind.SERVICE_PRINCIPAL:
        for option in ("tenantId", "clientId", "clientSecret"):
            if option not in given:
                raise InvalidOption(f"credential=servicePrincipal needs '{option}' as well")
    elif identity.client_secret is not None:
        raise InvalidOption("'clientSecret' goes with credential=servicePrincipal only")
    return Account(name, url, identity=identity)


def _checked_url(url: str, source: str) -> str:
    url = url.rstrip("/")
    try:
        parts = urlsplit(url)
        legal = parts.scheme in ("https", "http") and parts.hostname and parts.port != 0
    except ValueError:  # brackets or a port that are none
        legal = False
    if "?" in url or "#" in url:
        raise InvalidOption(
            f"the {source} has a query part, which plans would show (value hidden). Give a SAS as"
            " 'sasToken', or as SharedAccessSignature of a connection string"
        )
    if not legal or (".queue.core." in (parts.hostname or "") and parts.path):
        raise InvalidOption(
            f"the {source} is {url!r}; expected https://<account>.queue.core.windows.net, without"
            " a queue"
        )
    return url


def _refuse_identity_details(given: Mapping[str, Any], way: str) -> None:
    for option in ("tenantId", "clientId", "clientSecret"):
        if option in given:
            raise InvalidOption(f"'{option}' goes with 'credential', not with {way}; remove it")


def _from_connection_string(text: str, source: str) -> Account:
    parts: dict[str, str] = {}
    for piece in filter(None, (piece.strip() for piece in text.split(";"))):
        field_name, equals, value = piece.partition("=")
        if not equals:
            raise InvalidOption(
                f"the {source} is not a connection string: it should read"
                " 'AccountName=…;AccountKey=…;EndpointSuffix=core.windows.net' (value not shown)"
            )
        parts[field_name.strip().lower()] = value.strip()
    if parts.get("usedevelopmentstorage", "").lower() == "true":
        return Account(_AZURITE_NAME, _AZURITE_URL, key=_AZURITE_KEY)
    name, key, sas = (parts.get(k) for k in ("accountname", "accountkey", "sharedaccesssignature"))
    url = parts.get("queueendpoint", "").rstrip("/")
    if not url and name:
        protocol = parts.get("defaultendpointsprotocol", "https")
        suffix = parts.get("endpointsuffix", "core.windows.net")
        url = f"{protocol}://{name}.queue.{suffix}"
    if not url:
        raise InvalidOption(f"the {source} has neither AccountName nor QueueEndpoint")
    url = _checked_url(url, f"QueueEndpoint of the {source}")
    if not (key or sas):
        raise InvalidOption(f"the {source} has neither AccountKey nor SharedAccessSignature")
    name = name or _account_name(url)
    if key:
        return Account(name, url, key=_key(key, f"AccountKey of the {source}"))
    return Account(name, url, sas=_sas(sas or "", source))


def _key(text: str, source: str) -> str:
    try:
        base64.b64decode(text, validate=True)
    except ValueError:
        raise InvalidOption(
            f"the {source} is not an account key: those are base64 (value not shown)"
        ) from None
    return text


def _sas(text: str, source: str) -> str:
    sas = text.lstrip("?").strip()
    if "sig=" not in sas:
        raise InvalidOption(f"the {source} holds no SAS token (no 'sig=' in it; value not shown)")
    return sas


def _account_name(url: str) -> str:
    """Azurite and IP addresses carry the account in the path, the service in the host name."""
    parts = urlsplit(url)
    if path := parts.path.strip("/"):
        return path.split("/")[0]
    return re.sub(r"-secondary$", "", (parts.hostname or "").split(".")[0])
