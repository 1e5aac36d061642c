"""HTTP over libcurl: many requests under way at once, driven by the thread that waits for them.

Knows nothing of queues, accounts or retries. libcurl keeps connections open, notices which have
gone stale, and sends a request anew where one did before any answer came. Ring: edge.
"""

from __future__ import annotations

import os
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar
from urllib.parse import urlsplit

import certifi
import pycurl

from .version import __version__

Tag = TypeVar("Tag")

_CONNECT_TIMEOUT_MS = 10_000
_TIMEOUT_MS = 40_000
_LONGEST_WAIT_S = 1.0
"""libcurl does not return for a signal: after so long Python may look whether one came."""
_NAP_S = 0.001


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back. `sent_at`: monotonic time at which the request left.

    repeated: libcurl sent the request on a kept connection that turned out dead, and then on a new
    one; or it saw that before, which cannot be told apart.
    """

    status: int
    header_lines: tuple[bytes, ...]
    body: bytes
    sent_at: float
    repeated: bool = False

    @property
    def headers(self) -> Mapping[str, str]:
        """By lower-case name; parsed when asked for, since most answers' are not."""
        fields = (line.decode("latin-1").partition(":") for line in self.header_lines)
        return {name.strip().lower(): value.strip() for name, colon, value in fields if colon}


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """None came. `untrusted`: because the server's certificate is not trusted.

    sent: False if not a byte of the request was sent, over no connection at all.
    """

    reason: str
    untrusted: bool
    sent: bool = True


class Wire(Generic[Tag]):
    """Requests under way to one server. For one thread at a time."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._multi = pycurl.CurlMulti()
        self._idle: list[_Request] = []
        self._busy: dict[pycurl.Curl, tuple[_Request, Tag]] = {}
        self._connections = 0  # kept by libcurl, as far as is known here

    def __len__(self) -> int:
        return len(self._busy)

    def begin(
        self, tag: Tag, method: str, url: str, headers: Mapping[str, str], body: bytes | None
    ) -> None:
        """Send a request. `tag` comes back with its answer."""
        request = self._idle.pop() if self._idle else _Request(self._url)
        request.prepare(method, url, headers, body, connected=len(self._busy) < self._connections)
        self._multi.add_handle(request.curl)
        self._busy[request.curl] = request, tag

    def ended(self, timeout_s: float) -> list[tuple[Tag, Answer | NoAnswer]]:
        """What was answered (or was not); waits up to `timeout_s`, or a second, for the first."""
        self._multi.perform()
        results = self._results()
        if results or not self._busy:
            return results
        try:
            if not self._multi.select(min(timeout_s, _LONGEST_WAIT_S)):
                time.sleep(_NAP_S)  # libcurl may have nothing to wait for, but a time
        except pycurl.error:  # a signal interrupted it; or there are too many files for `select`
            time.sleep(_NAP_S)
            return []
        self._multi.perform()
        return self._results()

    def _results(self) -> list[tuple[Tag, Answer | NoAnswer]]:
        results: list[tuple[Tag, Answer | NoAnswer]] = []
        more = True
        while more:
            more, answered, failed = self._multi.info_read()
            for curl in answered:
                request, tag = self._free(curl)
                results.append((tag, request.answer()))
                self._connections = max(self._connections, len(self._busy) + 1)
            for curl, number, reason in failed:
                sent = curl.getinfo(pycurl.REQUEST_SIZE) > 0
                results.append((self._free(curl)[1], NoAnswer(reason, number in _UNTRUSTED, sent)))
        return results

    def _free(self, curl: pycurl.Curl) -> tuple[_Request, Tag]:
        self._multi.remove_handle(curl)
        request, tag = self._busy.pop(curl)
        self._idle.append(request)
        return request, tag

    def abandon(self) -> None:
        """Break off what is under way; whether the server acts on it is not known."""
        self._connections = max(0, self._connections - len(self._busy))
        for curl in list(self._busy):
            self._free(curl)

    def close(self) -> None:
        """Close all connections."""
        self.abandon()
        for request in self._idle:
            request.curl.close()
        self._idle.clear()
        self._multi.close()


class _Request:
    """A libcurl handle, used again and again: what stays the same is set once."""

    def __init__(self, url: str) -> None:
        self.curl = curl = pycurl.Curl()
        self._header_lines: list[bytes] = []
        self._body: list[bytes] = []
        self._method = ""
        self._headers: Mapping[str, str] = {}
        self._sent_at = 0.0
        self._connected = False
        curl.setopt(pycurl.NOSIGNAL, 1)  # signals are no business of a thread's
        curl.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_1_1)
        curl.setopt(pycurl.USERAGENT, f"spark-azqueue/{__version__}")
        curl.setopt(pycurl.CONNECTTIMEOUT_MS, _CONNECT_TIMEOUT_MS)
        curl.setopt(pycurl.TIMEOUT_MS, _TIMEOUT_MS)
        curl.setopt(pycurl.TCP_KEEPALIVE, 1)
        curl.setopt(pycurl.HEADERFUNCTION, self._header_lines.append)
        curl.setopt(pycurl.WRITEFUNCTION, self._body.append)
        curl.setopt(pycurl.PROXY, proxy_for(url))
        curl.setopt(pycurl.CAINFO, trusted_authorities())
        curl.setopt(pycurl.SSLVERSION, pycurl.SSLVERSION_TLSv1_2)

    def prepare(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | None,
        *,
        connected: bool,
    ) -> None:
        curl = self.curl
        self._connected = connected
        if method != self._method:
            self._method = method
            curl.setopt(pycurl.HTTPGET, 1)
            if method in ("POST", "PUT"):
                curl.setopt(pycurl.POST, 1)
            curl.setopt(pycurl.CUSTOMREQUEST, method)
        if method in ("POST", "PUT"):
            curl.setopt(pycurl.POSTFIELDS, body or b"")
        if headers != self._headers:
            self._headers = headers
            lines = [f"{name}: {value}" for name, value in headers.items()]
            curl.setopt(pycurl.HTTPHEADER, [*lines, "Expect:"])  # "Expect:" = no 100-continue
        self._header_lines.clear()
        self._body.clear()
        curl.setopt(pycurl.URL, url)
        self._sent_at = time.monotonic()

    def answer(self) -> Answer:
        status = self.curl.getinfo(pycurl.RESPONSE_CODE)
        repeated = self._connected and self.curl.getinfo(pycurl.NUM_CONNECTS) > 0
        body = b"".join(self._body)
        return Answer(status, tuple(self._header_lines), body, self._sent_at, repeated)


_UNTRUSTED = (pycurl.E_PEER_FAILED_VERIFICATION, pycurl.E_SSL_CACERT_BADFILE)


def trusted_authorities() -> str:
    """File of the authorities to trust: what the environment names, else what the SDK trusts."""
    names = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")
    return next(filter(None, map(os.environ.get, names)), None) or certifi.where()


def proxy_for(url: str) -> str:
    """The proxy that the environment names for this address, "" for none."""
    parts = urlsplit(url)
    proxy = urllib.request.getproxies().get(parts.scheme)
    return "" if not proxy or urllib.request.proxy_bypass(parts.hostname or "") else proxy
