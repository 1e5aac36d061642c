"""Addresses of the containers that a caller trusts.

Every path to a blob is made from these values, never from the text of an event.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import urlsplit

_ACCOUNT = re.compile(r"[a-z0-9]{3,24}")
_CONTAINER = re.compile(r"(?=.{3,63}\Z)(?:\$(?:web|root|logs)|[a-z0-9]+(?:-[a-z0-9]+)*)")
_HOST = re.compile(r"[0-9a-f:.]+|[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?")
_STORAGE = re.compile(r"([a-z0-9-]+)((?:\.[a-z0-9]+)?)\.(?:blob|dfs)\.([a-z0-9.-]+)")


class TrustedPlace(NamedTuple):
    """A trusted container. Each address ends with a slash, so that the path of a blob can be
    appended.

    pattern: regular expression for the URLs of the container's blobs; group 1 is the path. https:
    URL of the container, which begins with http:// for an endpoint without TLS. abfss, wasbs:
    addresses with these schemes, or None if the host is not one of Azure's.
    """

    account: str
    container: str
    pattern: str
    https: str
    abfss: str | None
    wasbs: str | None


def places(trusted: str | Iterable[str]) -> tuple[TrustedPlace, ...]:
    """Return the containers that these texts name: `account/container`, or the URL of a container.

    Raises ValueError for any other text, and if no text is given.
    """
    texts = (trusted,) if isinstance(trusted, str) else tuple(trusted)
    if not texts:
        raise ValueError(
            "trusted is empty, so no event would give a path: name the containers that the events"
            " are about, as in trusted=['shopdata/landing']"
        )
    return tuple(map(_place, texts))


def _place(text: object) -> TrustedPlace:
    if not isinstance(text, str):
        raise _refused(text)
    account, _, container = text.partition("/")
    if _ACCOUNT.fullmatch(account) and _CONTAINER.fullmatch(container):
        return _of_azure("https", account, account, "core.windows.net", container)
    return _of_url(text)


def _of_url(text: str) -> TrustedPlace:
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise _refused(text) from None
    *above, container = parts.path.strip("/").split("/")
    login_or_more = "@" in parts.netloc or parts.query or parts.fragment
    if parts.scheme not in ("http", "https") or login_or_more or not _HOST.fullmatch(host):
        raise _refused(text)
    if not _CONTAINER.fullmatch(container) or not all(map(_ACCOUNT.fullmatch, above)):
        raise _refused(text)
    storage = _STORAGE.fullmatch(host)
    if storage and not above and port in (None, 443):
        account, zone, suffix = storage.groups()
        return _of_azure(parts.scheme, account, account + zone, suffix, container)
    if len(above) > 1:
        raise _refused(text)
    root = f"{parts.scheme}://{parts.netloc.lower()}" + "".join(f"/{name}" for name in above)
    account = above[0] if above else host.split(".")[0]
    return TrustedPlace(
        account, container, _pattern(_quoted(root), container), _root(root, container), None, None
    )


def _of_azure(scheme: str, account: str, front: str, suffix: str, container: str) -> TrustedPlace:
    hosts = rf"https?://{_quoted(front)}\.(?:blob|dfs)\.{_quoted(suffix)}(?::443)?"
    return TrustedPlace(
        account,
        container,
        _pattern(hosts, container),
        _root(f"{scheme}://{front}.blob.{suffix}", container),
        f"abfss://{container}@{front}.dfs.{suffix}/",
        f"wasbs://{container}@{front}.blob.{suffix}/",
    )


def _root(endpoint: str, container: str) -> str:
    return f"{endpoint}/" if container == "$root" else f"{endpoint}/{container}/"


def _pattern(root: str, container: str) -> str:
    # The case of schemes and hosts does not matter; the case of paths does. The root container's
    # name is optional.
    named = r"(?:\$root/)?" if container == "$root" else f"{_quoted(container)}/"
    return rf"(?s)\A(?i:{root})/{named}(.+)\z"


def _quoted(text: str) -> str:
    """Return a pattern that matches this text literally, in Java and in Python."""
    return re.sub(r"([^0-9A-Za-z/:-])", r"\\\1", text)


def _refused(text: object) -> ValueError:
    shown = repr(text) if isinstance(text, str) and re.fullmatch(r"[\w$./:-]{0,200}", text) else ""
    return ValueError(
        f"trusted: {shown or 'a text (not shown)'} names no container; expected"
        " '<account>/<container>' such as 'shopdata/landing', or the URL of a container such as"
        " 'https://shopdata.blob.core.chinacloudapi.cn/landing' or"
        " 'http://127.0.0.1:10000/devstoreaccount1/landing'"
    )
