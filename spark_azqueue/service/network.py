"""Settings for connections to any server: certificate authorities, proxy and libcurl options."""

from __future__ import annotations

import os
import re
import time
import urllib.request
from typing import NamedTuple
from urllib.parse import unquote_to_bytes, urlsplit

import certifi
import pycurl

from spark_azqueue.errors import ServiceError

_CONNECT_TIMEOUT_MS = 10_000
_LONGEST_WAIT_S = 1.0
_NAP_S = 0.001

UNTRUSTED = (pycurl.E_PEER_FAILED_VERIFICATION, pycurl.E_SSL_CACERT_BADFILE)
"""Error codes of libcurl for a server whose certificate is not trusted."""


def new_handle(url: str) -> pycurl.Curl:
    """Make a libcurl handle for requests to the server of this URL.

    Raises ServiceError if the proxy in the environment is not a valid address.
    """
    curl = pycurl.Curl()
    curl.setopt(pycurl.NOSIGNAL, 1)  # libcurl must not use signals in multi-threaded programs
    curl.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_1_1)
    curl.setopt(pycurl.CONNECTTIMEOUT_MS, _CONNECT_TIMEOUT_MS)
    curl.setopt(pycurl.TCP_KEEPALIVE, 1)
    curl.setopt(pycurl.PATH_AS_IS, 1)
    curl.setopt(pycurl.FOLLOWLOCATION, 0)
    curl.setopt(pycurl.CAINFO, trusted_authorities())
    curl.setopt(pycurl.SSLVERSION, pycurl.SSLVERSION_TLSv1_2)
    # the proxy must not get our headers, such as the credential
    curl.setopt(pycurl.HEADEROPT, pycurl.HEADER_SEPARATE)
    proxy = proxy_for(url)
    curl.setopt(pycurl.PROXY, proxy.address)
    if proxy.user is not None:
        curl.setopt(pycurl.PROXYUSERNAME, proxy.user)
        curl.setopt(pycurl.PROXYPASSWORD, proxy.password)
    return curl


def wait_for_sockets(multi: pycurl.CurlMulti, seconds: float) -> None:
    """Wait until a request can continue, but at most `seconds`, and at most one second.

    libcurl ignores signals while it waits, so Python has to check for signals between waits.
    """
    try:
        ready = multi.select(min(seconds, _LONGEST_WAIT_S))
    except pycurl.error:  # a signal interrupted the wait, or there are too many files for `select`
        ready = 0
    if not ready:
        time.sleep(_NAP_S)  # libcurl may be waiting only for a timer


def trusted_authorities() -> str:
    """Return the path of the file with the trusted certificate authorities: a file that the
    environment names, or certifi's.
    """
    names = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")
    return next(filter(None, map(os.environ.get, names)), None) or certifi.where()


class Proxy(NamedTuple):
    """A proxy. `address` is "" if no proxy is used.

    The login is a separate field, because libcurl's errors quote the address.
    """

    address: str
    user: bytes | None = None
    password: bytes = b""


def proxy_for(url: str) -> Proxy:
    """Return the proxy that the environment sets for this URL.

    Raises ServiceError if the proxy in the environment is not a valid address. The error does not
    show the proxy, which may contain a password.
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
