"""The options that source and sink share: the account, its addresses and credential, and the
encoding of bodies.

This module sends no requests, and its errors do not show secrets.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from spark_azqueue.errors import InvalidOption
from spark_azqueue.errors.conditions import Condition
from spark_azqueue.service.account import Account, EntraIdentity, IdentityKind, SasProvider
from spark_azqueue.service.encoding import Encoding
from spark_azqueue.service.policy import check_destination
from spark_azqueue.service.providers import called, check_provider
from spark_azqueue.service.sas_provider import is_bound_to_a_user

from . import parsers
from .option import Option, made_of, option

ENVIRONMENT_VARIABLE = "AZURE_STORAGE_CONNECTION_STRING"

invalid_account = partial(InvalidOption, condition=Condition.INVALID_ACCOUNT)

# Azurite's account and key. Both are public (see Azurite's README), and valid only for Azurite.
_AZURITE = {
    "accountname": "devstoreaccount1",
    "accountkey": (
        "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
    ),
    "queueendpoint": "http://127.0.0.1:10001/devstoreaccount1",
    "blobendpoint": "http://127.0.0.1:10000/devstoreaccount1",
}


_SAS = re.compile(r"[!-~]+")
_URL = re.compile(
    r"https?://(?P<host>\[[0-9A-F:.]+\]|[A-Z0-9._-]+)(:(?P<port>[0-9]{1,5}))?"
    r"(?P<path>(/[A-Z0-9._~-]+)*)",
    re.IGNORECASE | re.ASCII,
)
_SERVICE = re.compile(r"\.(blob|dfs|file|queue|table|web)\.core\.")
_HARMLESS = re.compile(r"[A-Za-z0-9.:/_\[\]-]{1,200}")


QUEUE = Option(
    "queue",
    parsers.queue_names,
    "Source: the queue to read, or several, separated by commas. In a pattern such as"
    " `orders-*`, `*` matches any characters and `?` one: the account's queues that"
    " match are found at the start and again every minute, up to 1,000 of them, without those"
    " that end with `-poison`. Sink: the queue for all rows; without it, each row names its own"
    " in a column `queue`.",
    shown="(required; the sink may name it per row)",
)


def _text(name: str, doc: str, shown: str = "", *, secret: bool = False) -> Option:
    return Option(name, parsers.text, doc, shown=shown, secret=secret)


_secret = partial(_text, secret=True)

ACCOUNT_OPTIONS = (
    _secret(
        "secret.connectionString",
        "Connection string of the storage account: with an account key, or with a SAS.",
        shown="environment variable `AZURE_STORAGE_CONNECTION_STRING`",
    ),
    _text(
        "accountUrl",
        "Queue endpoint, `https://<account>.queue.core.windows.net`, together with"
        " `accountAccessKey`, `sasToken`, `sasProvider`, `credential` or `credentialProvider`.",
    ),
    _secret("accountAccessKey", "Access key of the account."),
    _secret(
        "sasToken",
        "Shared access signature. The source needs the letters `p` and `u` (with"
        " `settingsFromQueue` also `r`), the sink `a` (to update `u`, to delete `p`), a peek `r`.",
    ),
    _text(
        "sasProvider",
        "`package.module:callable`, or `package.module:callable(text)` to call it with this"
        " text (no secret: query plans show it). A function with the annotation `->"
        " AzureSasCredential` (of `azure.core`), whose SAS is used. Called in each process,"
        " and again before the SAS expires and when the service refuses it. See"
        " [permissions.md](permissions.md#a-sas-that-is-renewed).",
    ),
    Option(
        "credential",
        parsers.one_of(IdentityKind),
        "Microsoft Entra identity, through azure-identity: `default`, `managedIdentity`,"
        " `workloadIdentity`, `servicePrincipal` or `azureCli`. Or `databricks`: a service"
        " credential of Unity Catalog, see [databricks.md](databricks.md). Or `fabric`: the"
        " identity that runs the notebook or job on Microsoft Fabric, see [fabric.md](fabric.md).",
    ),
    _text(
        "serviceCredential",
        "Name of the service credential in Unity Catalog, with `credential=databricks`.",
    ),
    _text(
        "credentialProvider",
        "`package.module:callable`, or `package.module:callable(text)` as above, that returns"
        " an `azure.core` TokenCredential: a class with `get_token`, or a function with the"
        " annotation `-> TokenCredential`. Called once in each process. It has to be in an"
        " installed module, and a [policy](permissions.md#policy) can restrict the allowed ones.",
    ),
    _text("tenantId", "Entra tenant, with `credential`."),
    _text(
        "clientId",
        "Entra application, or the user-assigned managed identity, with `credential`.",
    ),
    _secret("clientSecret", "Secret of the application, with `credential=servicePrincipal`."),
)

_CREDENTIALS = (
    *("secret.connectionString", "accountAccessKey", "sasToken"),
    *("sasProvider", "credential", "credentialProvider"),
)
_WAYS = (
    "'secret.connectionString', or 'accountUrl' with one of 'accountAccessKey', 'sasToken',"
    " 'sasProvider', 'credential', 'credentialProvider'"
)


@dataclass(frozen=True, kw_only=True)
class SharedConfig:
    """Settings that source and sink share. parallelism: None to learn the number of parallel
    requests from the service's answers.
    """

    account: Account = made_of(*ACCOUNT_OPTIONS)
    encoding: Encoding = option(
        "messageEncoding",
        parsers.one_of(Encoding),
        "How bodies are stored: `none` (as text) or `base64` (as Azure Functions expects by"
        " default). For reading also `auto`: base64 if the text is valid base64; see"
        " [permissions.md](permissions.md#message-encoding).",
        default=Encoding.NONE,
    )
    create_queue: bool = option(
        "createQueue",
        parsers.flag,
        "Create a queue that does not exist instead of failing. The sink creates it, and the"
        " `blobContainer`, when it sends the first row.",
        default=False,
    )
    parallelism: int | None = option(
        "parallelism",
        parsers.or_auto(parsers.whole_number(1, 128)),
        "Most concurrent requests: of a source to dequeue (up to 32 messages each), and the"
        " same number to delete; in each task of a sink to send. `auto`: as many as each queue"
        " and the process can handle, with at most 16 dequeues.",
        shown="auto",
    )


def read_account(options: Mapping[str, Any], environment: Mapping[str, str]) -> Account:
    """Return the account and the credential that parsed options name. values: options by canonical
    name.

    environment: environment variables, such as `os.environ`, which are used if the options name no
    account, or name a provider. Raises InvalidOption if there is no credential, more than one
    credential, or a credential that a policy forbids.
    """
    given = {name: value for name, value in options.items() if value is not None}
    text = given.get("secret.connectionString")
    ways = [name for name in _CREDENTIALS if name in given]
    if len(ways) > 1 and not _is_of_a_user(ways, given):
        raise invalid_account(
            f"more than one credential: {' and '.join(map(repr, ways))} are set; keep one of them"
        )
    if text and "accountUrl" in given:
        raise invalid_account(
            f"'accountUrl' and '{ways[0]}' are both set; the connection string already names the"
            " account, so remove 'accountUrl'"
        )
    if not ways and "accountUrl" not in given:
        text = environment.get(ENVIRONMENT_VARIABLE)
        if not text:
            raise invalid_account(
                f"no credential: set {_WAYS}, or the environment variable {ENVIRONMENT_VARIABLE}"
            )
    if text:
        source = f"option '{ways[0]}'" if ways else f"environment variable {ENVIRONMENT_VARIABLE}"
        _check_details(given, "a connection string")
        account = replace(from_connection_string(text, source), of_environment=not ways)
        check_destination(account, source, environment)
        return account
    if not ways:
        raise invalid_account(f"'accountUrl' is set, but no credential with it: set {_WAYS}")
    if "accountUrl" not in given:
        raise invalid_account(
            f"'{ways[0]}' needs 'accountUrl', such as https://<account>.queue.core.windows.net"
        )
    account = _from_url(given, ways, environment)
    check_destination(account, "option 'accountUrl'", environment)
    return account


def _is_of_a_user(ways: Sequence[str], given: Mapping[str, Any]) -> bool:
    """Return True if the credential is a SAS that may be bound to a user, and the options also say
    how to get the user's token.
    """
    sas, *others = ways
    if others not in (["credential"], ["credentialProvider"]):
        return False
    return sas == "sasProvider" or (sas == "sasToken" and is_bound_to_a_user(str(given[sas])))


def _from_url(
    given: Mapping[str, Any], ways: Sequence[str], environment: Mapping[str, str]
) -> Account:
    way = ways[0]
    url = checked_url(str(given["accountUrl"]), "option 'accountUrl'")
    account = Account(account_name(url), url, blob_url=blob_url_beside(url))
    if way == "accountAccessKey":
        _check_details(given, f"'{way}'")
        return replace(account, key=account_key(str(given[way]), "option 'accountAccessKey'"))
    if way == "sasToken":
        account = replace(account, sas=sas_token(str(given[way]), "option 'sasToken'"))
        if len(ways) == 1 and is_bound_to_a_user(str(given[way])):
            raise invalid_account(
                "the SAS in option 'sasToken' is bound to a user (sduoid), so it needs a token of"
                " that user as well: set 'credential' or 'credentialProvider'"
            )
    if way == "sasProvider":
        source = SasProvider(*called(str(given[way])))
        check_provider(source.path, environment, way)
        account = replace(account, sas_provider=source)
    if len(ways) == 1 and way in ("sasToken", "sasProvider"):
        _check_details(given, f"'{way}'")
        return account
    way = ways[-1]
    if not url.startswith("https:"):
        raise invalid_account(
            f"'{way}' sends a token, which needs an https 'accountUrl', not {url}"
        )
    kind: IdentityKind | None = given.get("credential")
    provider, argument = None, None
    if kind:
        taken, needed = _NEEDED.get(kind, _ENTRA), _NEEDED.get(kind, ())
        _check_details(given, f"credential={kind.value}", taken, needed)
    else:
        _check_details(given, f"'{way}'")
        provider, argument = called(str(given[way]))
        check_provider(provider, environment)
    identity = EntraIdentity(
        kind=kind,
        provider=provider,
        tenant_id=given.get("tenantId"),
        client_id=given.get("clientId"),
        client_secret=given.get("clientSecret"),
        argument=argument,
        service_credential=given.get("serviceCredential"),
    )
    return replace(account, identity=identity)


_ENTRA = ("tenantId", "clientId")
_NEEDED = {
    IdentityKind.SERVICE_PRINCIPAL: (*_ENTRA, "clientSecret"),
    IdentityKind.DATABRICKS: ("serviceCredential",),
    IdentityKind.FABRIC: (),
}
_DETAILS = {
    # For each option that is allowed only with some credentials: these credentials.
    **dict.fromkeys(_ENTRA, "a Microsoft Entra identity"),
    "clientSecret": "credential=servicePrincipal",
    "serviceCredential": "credential=databricks",
}


def _check_details(
    given: Mapping[str, Any], way: str, allowed: Sequence[str] = (), needed: Sequence[str] = ()
) -> None:
    """Raise InvalidOption if an option is not allowed with this credential, or if a needed option
    is missing.
    """
    for name in needed:
        if name not in given:
            raise invalid_account(f"{way} needs '{name}' as well")
    for name, those in _DETAILS.items():
        if name in given and name not in allowed:
            raise invalid_account(f"'{name}' does not go with {way}, but with {those}; remove it")


def from_connection_string(text: str, source: str, service: str = "queue") -> Account:
    """Return the account in a connection string. Its `url` is the endpoint of `service`.

    source: where the text comes from, for error messages. service: "queue" or "blob". Raises
    InvalidOption.
    """
    parts = connection_string_parts(text, source)
    if parts.get("usedevelopmentstorage", "").lower() == "true":
        parts = _AZURITE
    name, key, sas = (parts.get(k) for k in ("accountname", "accountkey", "sharedaccesssignature"))
    if sas and is_bound_to_a_user(sas):
        raise invalid_account(
            f"the {source} holds a SAS that is bound to a user (sduoid), which goes with a token:"
            " set 'accountUrl', 'sasToken' and 'credential' instead"
        )
    url, named = endpoint(parts, service), f"{service.capitalize()}Endpoint"
    if not url:
        raise invalid_account(f"the {source} has neither AccountName nor {named}")
    url = checked_url(url, f"{named} of the {source}", service)
    if not (key or sas):
        raise invalid_account(f"the {source} has neither AccountKey nor SharedAccessSignature")
    # If the queues are not at the usual address, for example in an emulator, the blobs are not
    # either.
    unusual = "queueendpoint" in parts and "blobendpoint" not in parts
    return Account(
        name or account_name(url),
        url,
        key=account_key(key, f"AccountKey of the {source}") if key else None,
        sas=None if key else sas_token(sas or "", source),
        blob_url=blob_url_beside(url) if unusual else endpoint(parts, "blob"),
    )


def account_key(text: str, source: str) -> str:
    """Return an account key. Raises InvalidOption if the text is not a key. source: where the text
    comes from, for error messages.
    """
    if _is_base64(text):
        return text
    bare = text.rstrip("=")
    if _is_base64(bare + "=" * (-len(bare) % 4)):
        raise invalid_account(
            f"the {source} is an account key without the '=' at its end (value not shown): copy it"
            " whole, as the portal shows it"
        )
    raise invalid_account(f"the {source} is not an account key: those are base64 (value not shown)")


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except ValueError:
        return False
    return True


def sas_token(text: str, source: str) -> str:
    """Return a SAS without "?".

    Raises InvalidOption if the text is not a SAS. source: where the text comes from, for error
    messages.
    """
    sas = text.lstrip("?").strip()
    if "sig=" not in sas:
        raise invalid_account(f"the {source} holds no SAS token (no 'sig=' in it; value not shown)")
    if not _SAS.fullmatch(sas):
        raise invalid_account(
            f"the {source} holds a SAS token with blanks or other characters that cannot be in an"
            " address (value not shown)"
        )
    return sas


def checked_url(url: str, source: str, service: str = "queue") -> str:
    """Check an account's URL. Return it without a trailing slash, and with the scheme in lower
    case.

    source: option that has the URL, for error messages. service: "queue" or "blob". Raises
    InvalidOption.
    """
    url = url.rstrip("/")
    if "?" in url or "#" in url:
        raise invalid_account(
            f"the {source} has a query part, which plans would show (value hidden). Give a SAS as"
            " 'sasToken', or as SharedAccessSignature of a connection string"
        )
    found = _URL.fullmatch(url)
    host, path = (found["host"].lower(), found["path"]) if found else ("", "")
    other = _SERVICE.search(host)
    is_of_another = other is not None and other[1] != service
    if not _port_is_legal(found) or is_of_another or (f".{service}.core." in host and path):
        what = "a queue" if service == "queue" else "a container"
        raise invalid_account(
            f"the {source} is {_masked(url)}; expected https://<account>.{service}.core.windows.net,"
            f" without {what}"
        )
    scheme, rest = url.split(":", 1)
    return f"{scheme.lower()}:{rest}"


def _port_is_legal(found: re.Match[str] | None) -> bool:
    return found is not None and 0 < int(found["port"] or 1) < 65_536


def _masked(url: str) -> str:
    """Return a text that is not an address, for an error. A text that may contain a secret is
    hidden.
    """
    if _HARMLESS.fullmatch(url) and ("." in url or "://" in url):
        return repr(url)
    if "=" in url:
        return "no address, but looks like a connection string or a SAS (value not shown)"
    if "@" in url:
        return "an address with a user or a password in it (value not shown)"
    return "no address (value not shown)"


def account_name(url: str) -> str:
    """Return the account's name.

    The name is in the path for Azurite and for IP addresses, and in the host name for Azure.
    """
    parts = urlsplit(url)
    if path := parts.path.strip("/"):
        return path.split("/")[0]
    return re.sub(r"-secondary$", "", (parts.hostname or "").split(".")[0])


def blob_url_beside(queue_url: str) -> str | None:
    """Return the blob endpoint of the same account: `.queue.` becomes `.blob.`.

    Returns None for a URL without `.queue.`.
    """
    host = urlsplit(queue_url).netloc
    if ".queue." not in host:
        return None
    return queue_url.replace(host, host.replace(".queue.", ".blob.", 1), 1)


def connection_string_parts(text: str, source: str) -> dict[str, str]:
    """Return the fields of a connection string by lower-case name. Raises InvalidOption, which
    never shows the text.
    """
    parts: dict[str, str] = {}
    for piece in filter(None, (piece.strip() for piece in text.split(";"))):
        name, equals, value = piece.partition("=")
        if not equals:
            raise invalid_account(
                f"the {source} is not a connection string: it should read"
                " 'AccountName=…;AccountKey=…;EndpointSuffix=core.windows.net' (value not shown)"
            )
        parts[name.strip().lower()] = value.strip()
    return parts


def endpoint(parts: Mapping[str, str], service: str) -> str | None:
    """Return the endpoint in a connection string or, without one, the usual endpoint of the
    account's name. None if the name is missing too.
    """
    if url := parts.get(f"{service}endpoint", "").rstrip("/"):
        return url
    if not (name := parts.get("accountname")):
        return None
    protocol = parts.get("defaultendpointsprotocol", "https")
    suffix = parts.get("endpointsuffix", "core.windows.net")
    return f"{protocol}://{name}.{service}.{suffix}"
