"""Addresses of a storage account's services, and what a connection string says.

Texts in, texts out, checked. Ring: core (standard library only).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from .errors import InvalidOption


def checked_url(url: str, source: str, service: str = "queue") -> str:
    """An account's URL for this service, without a slash at its end. Raises InvalidOption."""
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
    if not legal or (f".{service}.core." in (parts.hostname or "") and parts.path):
        what = "a queue" if service == "queue" else "a container"
        raise InvalidOption(
            f"the {source} is {url!r}; expected https://<account>.{service}.core.windows.net,"
            f" without {what}"
        )
    return url


def account_name(url: str) -> str:
    """Azurite and IP addresses carry the account in the path, the service in the host name."""
    parts = urlsplit(url)
    if path := parts.path.strip("/"):
        return path.split("/")[0]
    return re.sub(r"-secondary$", "", (parts.hostname or "").split(".")[0])


def blob_url_beside(queue_url: str) -> str | None:
    """The blob endpoint of the same account, where its name tells: `.queue.` becomes `.blob.`"""
    host = urlsplit(queue_url).netloc
    if ".queue." not in host:
        return None
    return queue_url.replace(host, host.replace(".queue.", ".blob.", 1), 1)


def connection_string_parts(text: str, source: str) -> dict[str, str]:
    """Fields by lower-case name. Raises InvalidOption, never with the text."""
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
    """The endpoint that a connection string names, or means by the account's name, or None."""
    if url := parts.get(f"{service}endpoint", "").rstrip("/"):
        return url
    if not (name := parts.get("accountname")):
        return None
    protocol = parts.get("defaultendpointsprotocol", "https")
    suffix = parts.get("endpointsuffix", "core.windows.net")
    return f"{protocol}://{name}.{service}.{suffix}"
