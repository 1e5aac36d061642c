"""The proxy that the environment names, taken apart so that no error can show its password.

Ring: edge.
"""

from __future__ import annotations

import re
import urllib.request
from typing import NamedTuple
from urllib.parse import unquote_to_bytes, urlsplit

from .errors import ServiceError


class Proxy(NamedTuple):
    """`address` is "" for none. The login is apart: libcurl's errors quote an address."""

    address: str
    user: bytes | None = None
    password: bytes = b""


def proxy_for(url: str) -> Proxy:
    """The proxy that the environment names for this address.

    Raises ServiceError if what it names is none, never with the text.
    """
    parts = urlsplit(url)
    named = urllib.request.getproxies().get(parts.scheme)
    if not named or urllib.request.proxy_bypass(parts.hostname or ""):
        return Proxy("")
    proxy = _read_proxy(named if "://" in named else f"http://{named}")
    if proxy is None:
        raise ServiceError(
            f"the proxy in the environment variable {parts.scheme}_proxy cannot be used (value not"
            " shown); expected http://<host>:<port> or http://<user>:<password>@<host>:<port>, with"
            " special characters of user and password percent-encoded; nothing was sent"
        )
    return proxy


def _read_proxy(text: str) -> Proxy | None:
    found = _PROXY.fullmatch(text)
    if found is None or "%00" in text:
        return None
    address = found["scheme"] + found["place"]
    if not found["login"]:
        return Proxy(address)
    user, _, password = found["login"].partition(":")
    return Proxy(address, unquote_to_bytes(user), unquote_to_bytes(password))


_PROXY = re.compile(
    r"(?P<scheme>(https?|socks4a?|socks5h?)://)((?P<login>[!-~]*)@)?"
    r"(?P<place>(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?)/?",
    re.IGNORECASE,
)
