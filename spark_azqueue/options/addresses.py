"""Addresses and connection strings of storage accounts. No error shows a secret."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from functools import partial
from urllib.parse import urlsplit

from spark_azqueue.conditions import Condition
from spark_azqueue.errors import InvalidOption
from spark_azqueue.service.account import Account
from spark_azqueue.service.sas_provider import is_bound_to_a_user

invalid_account = partial(InvalidOption, condition=Condition.INVALID_ACCOUNT)

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


def from_connection_string(text: str, source: str, service: str = "queue") -> Account:
    """The account in a connection string; `url` is that of this service ("queue" or "blob").

    source: where the text comes from, for errors. Raises InvalidOption.
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
    # If the queues are not at the usual address (an emulator, say), neither are the blobs.
    unusual = "queueendpoint" in parts and "blobendpoint" not in parts
    return Account(
        name or account_name(url),
        url,
        key=account_key(key, f"AccountKey of the {source}") if key else None,
        sas=None if key else sas_token(sas or "", source),
        blob_url=blob_url_beside(url) if unusual else endpoint(parts, "blob"),
    )


def account_key(text: str, source: str) -> str:
    """Return an account key. Raises InvalidOption for other texts. source: names it in errors."""
    try:
        base64.b64decode(text, validate=True)
    except ValueError:
        if _lacks_padding(text):
            raise invalid_account(
                f"the {source} is an account key without the '=' at its end (value not shown): copy"
                " it whole, as the portal shows it"
            ) from None
        raise invalid_account(
            f"the {source} is not an account key: those are base64 (value not shown)"
        ) from None
    return text


def _lacks_padding(text: str) -> bool:
    """True for base64 whose last characters "=" are missing, or all but one."""
    try:
        base64.b64decode(text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4), validate=True)
    except ValueError:
        return False
    return True


def sas_token(text: str, source: str) -> str:
    """Return a SAS without "?". Raises InvalidOption for other texts. source: as above."""
    sas = text.lstrip("?").strip()
    if "sig=" not in sas:
        raise invalid_account(f"the {source} holds no SAS token (no 'sig=' in it; value not shown)")
    if not _SAS.fullmatch(sas):
        raise invalid_account(
            f"the {source} holds a SAS token with blanks or other characters that cannot be in an"
            " address (value not shown)"
        )
    return sas


_URL = re.compile(
    r"https?://(?P<host>\[[0-9A-F:.]+\]|[A-Z0-9._-]+)(:(?P<port>[0-9]{1,5}))?"
    r"(?P<path>(/[A-Z0-9._~-]+)*)",
    re.IGNORECASE | re.ASCII,
)


_SERVICE = re.compile(r"\.(blob|dfs|file|queue|table|web)\.core\.")


_HARMLESS = re.compile(r"[A-Za-z0-9.:/_\[\]-]{1,200}")


def checked_url(url: str, source: str, service: str = "queue") -> str:
    """Return an account's URL for this service. Raises InvalidOption.

    Without a trailing slash, and with its scheme in lower case.

    source: names the option in errors. service: "queue" or "blob".
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
            raise invalid_account(
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
