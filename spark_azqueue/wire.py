"""HTTP over libcurl: many requests under way at once, driven by the thread that waits for them.

Knows nothing of queues, accounts or retries. libcurl keeps connections open, notices which have
gone stale, and sends a request anew where one did before any answer came. Ring: edge.
"""

from __future__ import annotations

import os
import re
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar
from urllib.parse import unquote_to_bytes, urlsplit

import certifi
import pycurl

from .errors import ServiceError
from .version import __version__

Tag = TypeVar("Tag")

_CONNECT_TIMEOUT_MS = 10_000
_TIMEOUT_MS = 40_000
_LONGEST_WAIT_S = 1.0
"""libcurl does not return for a signal: after so long Python may look whether one came."""
_NAP_S = 0.001

MOST_BODY_BYTES = 16 * 2**20
"""No answer of the service is larger: 32 messages of 64 KiB, each byte of which XML may write as
six (`&quot;`), are 12 MiB; their ids, receipts and times take less than 1 KiB a message."""

MOST_HEADER_BYTES = 64 * 2**10
"""Of one answer, with everything that comes before it (a proxy's headers, 1xx)."""


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

    too_large: one came that was broken off because no answer of the service is so large.
    """

    reason: str
    untrusted: bool
    too_large: bool = False


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
                request, tag = self._free(curl)
                results.append((tag, request.failure(number, reason)))
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
        self._incoming = incoming = _Incoming()
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
        curl.setopt(pycurl.PATH_AS_IS, 1)
        curl.setopt(pycurl.HEADERFUNCTION, incoming.header)
        curl.setopt(pycurl.WRITEFUNCTION, incoming.write)
        proxy = proxy_for(url)
        curl.setopt(pycurl.PROXY, proxy.address)
        if proxy.user is not None:
            curl.setopt(pycurl.PROXYUSERNAME, proxy.user)
            curl.setopt(pycurl.PROXYPASSWORD, proxy.password)
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
        self._incoming.clear()
        curl.setopt(pycurl.URL, url)
        self._sent_at = time.monotonic()

    def answer(self) -> Answer:
        status = self.curl.getinfo(pycurl.RESPONSE_CODE)
        repeated = self._connected and self.curl.getinfo(pycurl.NUM_CONNECTS) > 0
        incoming = self._incoming
        lines, body = tuple(incoming.header_lines), bytes(incoming.body)
        incoming.clear()
        return Answer(status, lines, body, self._sent_at, repeated)

    def failure(self, number: int, reason: str) -> NoAnswer:
        too_large = self._incoming.too_large
        self._incoming.clear()
        return NoAnswer(too_large or reason, number in _UNTRUSTED, bool(too_large))


class _Incoming:
    """An answer as it arrives: its own header lines, and its body. Both are bounded.

    libcurl hands over all headers that come: those of a proxy's answer to CONNECT and of 1xx, which
    come first, and those after the body. Only the last ones before the body are the answer's.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.header_lines: list[bytes] = []
        self.body = bytearray()
        self.too_large = ""
        self._header_bytes = 0
        self._complete = False

    def header(self, line: bytes) -> int:
        """Take a line; any other number than its length makes libcurl break off."""
        self._header_bytes += len(line)
        if self._header_bytes > MOST_HEADER_BYTES:
            self.too_large = f"the answer's headers are larger than {MOST_HEADER_BYTES:,} bytes"
            return -1
        if line.startswith(b"HTTP/") and not self.body:
            self.header_lines.clear()
            self._complete = False
        elif not line.strip():
            self._complete = True
        elif not self._complete:
            self.header_lines.append(line)
        return len(line)

    def write(self, data: bytes) -> int:
        """Take a part of the body; any other number than its length makes libcurl break off."""
        if len(self.body) + len(data) > MOST_BODY_BYTES:
            self.too_large = f"the answer is larger than {MOST_BODY_BYTES:,} bytes"
            return -1
        self.body += data
        return len(data)


_UNTRUSTED = (pycurl.E_PEER_FAILED_VERIFICATION, pycurl.E_SSL_CACERT_BADFILE)


def trusted_authorities() -> str:
    """File of the authorities to trust: what the environment names, else what the SDK trusts."""
    names = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")
    return next(filter(None, map(os.environ.get, names)), None) or certifi.where()


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
