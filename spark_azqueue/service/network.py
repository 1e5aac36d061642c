"""How this package reaches a server: whom it trusts, by which proxy, with which libcurl settings.

Ring: edge.
"""

from __future__ import annotations

import os

import certifi
import pycurl

from .proxies import proxy_for

_CONNECT_TIMEOUT_MS = 10_000

UNTRUSTED = (pycurl.E_PEER_FAILED_VERIFICATION, pycurl.E_SSL_CACERT_BADFILE)
"""Errors of libcurl that say that the server's certificate is not trusted."""


def new_handle(url: str) -> pycurl.Curl:
    """A libcurl handle for requests to the server of this URL.

    Raises ServiceError if the proxy that the environment names is no address.
    """
    curl = pycurl.Curl()
    curl.setopt(pycurl.NOSIGNAL, 1)  # libcurl must not use signals in a program with threads
    curl.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_1_1)
    curl.setopt(pycurl.CONNECTTIMEOUT_MS, _CONNECT_TIMEOUT_MS)
    curl.setopt(pycurl.TCP_KEEPALIVE, 1)
    curl.setopt(pycurl.PATH_AS_IS, 1)
    curl.setopt(pycurl.FOLLOWLOCATION, 0)
    curl.setopt(pycurl.CAINFO, trusted_authorities())
    curl.setopt(pycurl.SSLVERSION, pycurl.SSLVERSION_TLSv1_2)
    curl.setopt(pycurl.HEADEROPT, pycurl.HEADER_SEPARATE)  # none of our headers for the proxy
    proxy = proxy_for(url)
    curl.setopt(pycurl.PROXY, proxy.address)
    if proxy.user is not None:
        curl.setopt(pycurl.PROXYUSERNAME, proxy.user)
        curl.setopt(pycurl.PROXYPASSWORD, proxy.password)
    return curl


def trusted_authorities() -> str:
    """File of the authorities to trust: what the environment names, else what the SDK trusts."""
    names = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")
    return next(filter(None, map(os.environ.get, names)), None) or certifi.where()
