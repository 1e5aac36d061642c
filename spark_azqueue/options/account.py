"""The options of source and sink: the account, its credential, bodies. Nothing is sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from spark_azqueue.service.account import Account, EntraIdentity, IdentityKind, SasProvider
from spark_azqueue.service.encoding import Encoding
from spark_azqueue.service.policy import check_destination
from spark_azqueue.service.providers import check_provider
from spark_azqueue.service.sas_provider import is_bound_to_a_user

from . import parsers
from .addresses import (
    account_key,
    account_name,
    blob_url_beside,
    checked_url,
    from_connection_string,
    invalid_account,
    sas_token,
)
from .option import Option, made_of, option

ENVIRONMENT_VARIABLE = "AZURE_STORAGE_CONNECTION_STRING"


QUEUE = Option(
    "queue",
    parsers.queue_names,
    "Source: the queue to read, or several, separated by commas. In a pattern such as"
    " `orders-*`, `*` stands for any characters and `?` for one: the account's queues that"
    " match are found at the start and again every minute, up to 1,000 of them, without those"
    " that end with `-poison`. Sink: the queue for all rows; without it, each row names its own"
    " in a column `queue`.",
    shown="(required; the sink may name it per row)",
)

_ACCOUNT_OPTIONS = (
    Option(
        "secret.connectionString",
        parsers.text,
        "Connection string of the storage account: with an account key, or with a SAS.",
        shown="environment variable `AZURE_STORAGE_CONNECTION_STRING`",
        secret=True,
    ),
    Option(
        "connectionString",
        parsers.text,
        "The same under a name that Spark does not redact: query plans and event logs show it in"
        " plain text. Prefer `secret.connectionString`.",
        secret=True,
    ),
    Option(
        "accountUrl",
        parsers.text,
        "Queue endpoint, `https://<account>.queue.core.windows.net`, together with"
        " `accountAccessKey`, `sasToken`, `sasProvider`, `credential` or `credentialProvider`.",
    ),
    Option("accountAccessKey", parsers.text, "Access key of the account.", secret=True),
    Option(
        "sasToken",
        parsers.text,
        "Shared access signature. The source needs the letters `p` and `u` (with"
        " `settingsFromQueue` also `r`), the sink `a` (to update `u`, to delete `p`), a peek `r`.",
        secret=True,
    ),
    Option(
        "sasProvider",
        parsers.text,
        "`package.module:callable` that gives an `azure.core` AzureSasCredential, whose SAS is"
        " used: a function with the annotation `-> AzureSasCredential`. Called in each process,"
        " again before the SAS ends and when the service refuses it. See"
        " [permissions.md](permissions.md#a-sas-that-is-renewed).",
    ),
    Option(
        "sasProviderArgument",
        parsers.text,
        "A text that the `sasProvider` is called with, such as a name. No secret: query plans show"
        " it.",
    ),
    Option(
        "credential",
        parsers.one_of(IdentityKind),
        "Microsoft Entra identity, through azure-identity: `default`, `managedIdentity`,"
        " `workloadIdentity`, `servicePrincipal` or `azureCli`. Or `databricks`: a service"
        " credential of Unity Catalog, see [databricks.md](databricks.md).",
    ),
    Option(
        "serviceCredential",
        parsers.text,
        "Name of the service credential in Unity Catalog, with `credential=databricks`.",
    ),
    Option(
        "credentialProvider",
        parsers.text,
        "`package.module:callable` that gives an `azure.core` TokenCredential: a class with"
        " `get_token`, or a function with the annotation `-> TokenCredential`. Called once in each"
        " process. It has to be in an installed module, and a"
        " [policy](permissions.md#policy) can name the only ones that are allowed.",
    ),
    Option(
        "credentialProviderArgument",
        parsers.text,
        "A text that the `credentialProvider` is called with, such as a name. No secret: query"
        " plans show it.",
    ),
    Option("tenantId", parsers.text, "Entra tenant, with `credential`."),
    Option(
        "clientId",
        parsers.text,
        "Entra application, or the user-assigned managed identity, with `credential`.",
    ),
    Option(
        "clientSecret",
        parsers.text,
        "Secret of the application, with `credential=servicePrincipal`.",
        secret=True,
    ),
)

_WAYS = (
    "'secret.connectionString', or 'accountUrl' with one of 'accountAccessKey', 'sasToken',"
    " 'sasProvider', 'credential', 'credentialProvider'"
)


@dataclass(frozen=True, kw_only=True)
class SharedConfig:
    """What source and sink have both."""

    account: Account = made_of(*_ACCOUNT_OPTIONS)
    encoding: Encoding = option(
        "messageEncoding",
        parsers.one_of(Encoding),
        "How bodies are stored: `none` (as text) or `base64` (as Azure Functions expects by"
        " default). For reading also `auto`: base64 if the text is valid base64; see"
        " [encoding.md](encoding.md).",
        default=Encoding.NONE,
    )
    create_queue: bool = option(
        "createQueue",
        parsers.flag,
        "Create a queue that does not exist instead of failing. The sink also creates the"
        " `blobContainer`.",
        default=False,
    )


def read_account(options: Mapping[str, Any], environment: Mapping[str, str]) -> Account:
    """Find the one credential in parsed options (by canonical name).

    environment: as `os.environ`; looked at if the options name no account, or a provider.
    Raises InvalidOption if there is no credential, more than one, or one that must not be used.
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
            "sasProvider",
            "credential",
            "credentialProvider",
        )
        if name in given
    ]
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
    """True for a SAS that may be bound to a user, and what gives that user's token."""
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
        check_provider(str(given[way]), environment, way)
        source = SasProvider(str(given[way]), given.get("sasProviderArgument"))
        account = replace(account, sas_provider=source)
    if len(ways) == 1 and way in ("sasToken", "sasProvider"):
        _check_details(given, f"'{way}'", ("sasProviderArgument",) if account.sas_provider else ())
        return account
    way = ways[-1]
    if not url.startswith("https:"):
        raise invalid_account(
            f"'{way}' sends a token, which needs an https 'accountUrl', not {url}"
        )
    kind: IdentityKind | None = given.get("credential")
    if kind:
        needed = _NEEDED.get(kind, ())
        also = ("sasProviderArgument",) if account.sas_provider else ()
        _check_details(given, f"credential={kind.value}", (*(needed or _ENTRA), *also), needed)
    else:
        arguments = ("credentialProviderArgument", "sasProviderArgument")
        _check_details(given, f"'{way}'", arguments[: 1 + bool(account.sas_provider)])
        check_provider(str(given[way]), environment)
    identity = EntraIdentity(
        kind=kind,
        provider=given.get("credentialProvider"),
        tenant_id=given.get("tenantId"),
        client_id=given.get("clientId"),
        client_secret=given.get("clientSecret"),
        argument=given.get("credentialProviderArgument"),
        service_credential=given.get("serviceCredential"),
    )
    return replace(account, identity=identity)


_ENTRA = ("tenantId", "clientId")
_NEEDED = {
    IdentityKind.SERVICE_PRINCIPAL: (*_ENTRA, "clientSecret"),
    IdentityKind.DATABRICKS: ("serviceCredential",),
}
_DETAILS = {
    # Options that go with some credentials only: with which.
    **dict.fromkeys(_ENTRA, "a Microsoft Entra identity"),
    "clientSecret": "credential=servicePrincipal",
    "serviceCredential": "credential=databricks",
    "credentialProviderArgument": "'credentialProvider'",
    "sasProviderArgument": "'sasProvider'",
}


def _check_details(
    given: Mapping[str, Any], way: str, allowed: Sequence[str] = (), needed: Sequence[str] = ()
) -> None:
    """Raise InvalidOption for a detail that this way does not take, or needs and does not have."""
    for name in needed:
        if name not in given:
            raise invalid_account(f"{way} needs '{name}' as well")
    for name, those in _DETAILS.items():
        if name in given and name not in allowed:
            raise invalid_account(f"'{name}' does not go with {way}, but with {those}; remove it")
