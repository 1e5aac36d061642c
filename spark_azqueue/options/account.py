"""The options that name a storage account and its credential. Nothing is sent."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from spark_azqueue.errors import InvalidOption
from spark_azqueue.service.account import (
    Account,
    EntraIdentity,
    IdentityKind,
    account_name,
    blob_url_beside,
    checked_url,
    connection_string_parts,
    endpoint,
)
from spark_azqueue.service.providers import check_provider

ENVIRONMENT_VARIABLE = "AZURE_STORAGE_CONNECTION_STRING"


# Azurite's well-known account and key (see Azurite's README); they open nothing else.
_AZURITE = {
    "accountname": "devstoreaccount1",
    "accountkey": (
        "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
    ),
    "queueendpoint": "http://127.0.0.1:10001/devstoreaccount1",
    "blobendpoint": "http://127.0.0.1:10000/devstoreaccount1",
}


_SAS = re.compile(r"[!-~]+")


_WAYS = (
    "'secret.connectionString', or 'accountUrl' with one of 'accountAccessKey', 'sasToken',"
    " 'credential', 'credentialProvider'"
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
        return from_connection_string(text, source)
    if not ways:
        raise InvalidOption(f"'accountUrl' is set, but no credential with it: set {_WAYS}")
    if "accountUrl" not in given:
        raise InvalidOption(
            f"'{ways[0]}' needs 'accountUrl', such as https://<account>.queue.core.windows.net"
        )
    return _from_url(given, ways[0], environment)


def _from_url(given: Mapping[str, Any], way: str, environment: Mapping[str, str]) -> Account:
    url = checked_url(str(given["accountUrl"]), "option 'accountUrl'")
    account = Account(account_name(url), url, blob_url=blob_url_beside(url))
    if way == "accountAccessKey":
        _refuse_identity_details(given, f"'{way}'")
        return replace(account, key=_key(str(given[way]), "option 'accountAccessKey'"))
    if way == "sasToken":
        _refuse_identity_details(given, f"'{way}'")
        return replace(account, sas=_sas(str(given[way]), "option 'sasToken'"))
    if not url.startswith("https:"):
        raise InvalidOption(f"'{way}' sends a token, which needs an https 'accountUrl', not {url}")
    kind = given.get("credential")
    if kind is None:
        _refuse_identity_details(given, f"'{way}'")
    if way == "credentialProvider":
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
    _check_databricks(identity)
    if kind is IdentityKind.SERVICE_PRINCIPAL:
        for option in ("tenantId", "clientId", "clientSecret"):
            if option not in given:
                raise InvalidOption(f"credential=servicePrincipal needs '{option}' as well")
    elif identity.client_secret is not None:
        raise InvalidOption("'clientSecret' goes with credential=servicePrincipal only")
    return replace(account, identity=identity)


def _check_databricks(identity: EntraIdentity) -> None:
    is_databricks = identity.kind is IdentityKind.DATABRICKS
    if is_databricks and identity.service_credential is None:
        raise InvalidOption("credential=databricks needs 'serviceCredential' as well")
    if identity.service_credential is not None and not is_databricks:
        raise InvalidOption("'serviceCredential' goes with credential=databricks only")
    if is_databricks and (identity.tenant_id or identity.client_id):
        raise InvalidOption(
            "'tenantId' and 'clientId' do not go with credential=databricks: the service credential"
            " has its own; remove them"
        )
    if identity.argument is not None and identity.provider is None:
        raise InvalidOption("'credentialProviderArgument' goes with 'credentialProvider' only")


def _refuse_identity_details(given: Mapping[str, Any], way: str) -> None:
    for option in ("serviceCredential", "credentialProviderArgument"):
        if option in given and way != "'credentialProvider'":
            raise InvalidOption(
                f"'{option}' does not go with {way}, which is a credential of its own; remove it"
            )
    for option in ("tenantId", "clientId", "clientSecret"):
        if option in given:
            raise InvalidOption(f"'{option}' goes with 'credential', not with {way}; remove it")


def from_connection_string(text: str, source: str, service: str = "queue") -> Account:
    """The account in a connection string; `url` is that of this service ("queue" or "blob").

    source: where the text comes from, for errors. Raises InvalidOption.
    """
    parts = connection_string_parts(text, source)
    if parts.get("usedevelopmentstorage", "").lower() == "true":
        parts = _AZURITE
    name, key, sas = (parts.get(k) for k in ("accountname", "accountkey", "sharedaccesssignature"))
    url, named = endpoint(parts, service), f"{service.capitalize()}Endpoint"
    if not url:
        raise InvalidOption(f"the {source} has neither AccountName nor {named}")
    url = checked_url(url, f"{named} of the {source}", service)
    if not (key or sas):
        raise InvalidOption(f"the {source} has neither AccountKey nor SharedAccessSignature")
    # If the queues are not at the usual address (an emulator, say), neither are the blobs.
    unusual = "queueendpoint" in parts and "blobendpoint" not in parts
    return Account(
        name or account_name(url),
        url,
        key=_key(key, f"AccountKey of the {source}") if key else None,
        sas=None if key else _sas(sas or "", source),
        blob_url=blob_url_beside(url) if unusual else endpoint(parts, "blob"),
    )


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
    if not _SAS.fullmatch(sas):
        raise InvalidOption(
            f"the {source} holds a SAS token with blanks or other characters that cannot be in an"
            " address (value not shown)"
        )
    return sas
