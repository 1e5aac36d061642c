"""The SDK's HTTP transport: its own `RequestsTransport` on top of libcurl.

The SDK's default has no deadline (each byte that arrives extends its timeout), decompresses
answers, and reads as much as the server sends. This one keeps the deadline of the call, passes on
the bytes as they came, and stops if more comes than was requested. Proxies and trusted authorities
come from `service/network.py`. It imports what the SDK needs, so import it late (see `clients.py`).
"""

from __future__ import annotations

import io
import math
import re
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import pycurl
import requests
import urllib3
from azure.core.pipeline.transport import RequestsTransport
from requests.adapters import BaseAdapter
from requests.structures import CaseInsensitiveDict

from ..incoming import Incoming, lines_of
from ..network import UNTRUSTED, new_handle, wait_for_sockets
from ..redaction import hide_secrets
from .deadline import BrokenOff, note_sent_twice, seconds_left

ANSWER_AT_MOST = 256 * 1024
"""The most bytes of an answer whose size the request did not set: metadata, an error document."""
_SILENCE_S = 30
"""The request fails if no byte moves in either direction for this long."""
_RANGE = re.compile(r"bytes=(\d+)-(\d+)")
# libcurl has handled these already, or they must not be handled; the length is set again below.
_HIDDEN = ("content-encoding", "transfer-encoding", "content-length")


def transport(url: str, connections: int) -> RequestsTransport:
    """Make the transport for the clients of one account. connections: how many to keep open."""
    session = _Session()
    session.trust_env = False  # ~/.netrc would replace our credential
    session.headers.clear()
    adapter = CurlAdapter(url, connections)
    for scheme in ("http://", "https://"):
        session.mount(scheme, adapter)
    return RequestsTransport(session=session)


class _Session(requests.Session):
    def get_redirect_target(self, resp: requests.Response) -> None:
        """None: redirects are not followed."""
        return


class CurlAdapter(BaseAdapter):
    """Sends requests that `requests` has prepared. Thread-safe."""

    def __init__(self, url: str, connections: int) -> None:
        super().__init__()
        self._url = url
        self._connections = connections
        self._idle: deque[Line] = deque()
        self._closed = False

    def send(
        self, request: requests.PreparedRequest, *_: object, **__: object
    ) -> requests.Response:
        """Send one request, within the deadline of this thread's call. Raises BrokenOff."""
        left_s = seconds_left()
        host = urlsplit(request.url or "").netloc.rpartition("@")[2]
        if left_s <= 0:
            raise BrokenOff(host, "no time was left", sent=False)
        try:
            line = self._idle.pop()  # most recently used first, so that idle ones can time out
        except IndexError:
            line = Line(self._url)
        headers = {name: _text(value) for name, value in request.headers.items()}
        asked = _asked(headers)
        most = ANSWER_AT_MOST if asked is None else asked
        incoming = Incoming(most, most_of_error=ANSWER_AT_MOST)
        method, url = request.method or "GET", request.url or ""
        try:
            failure = line.carry(method, url, headers, _bytes(request.body), incoming, left_s)
        except BaseException:
            line.close()
            raise
        if line.repeated:
            note_sent_twice()
        if failure is None:
            self._keep(line)
            return _response(request, incoming)
        line.close()  # the rest of the answer may still come on it
        if not incoming.excess:
            raise BrokenOff(
                host,
                hide_secrets(failure.reason),
                untrusted=failure.untrusted,
                sent=failure.sent,
            )
        if incoming.succeeded:
            raise BrokenOff(host, f"more than the {incoming.most:,} bytes asked for", excess=True)
        # An error page of a proxy, for example: its status is enough.
        return _response(request, incoming)

    def close(self) -> None:
        """Close the connections."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    def _keep(self, line: Line) -> None:
        if self._closed or len(self._idle) >= self._connections:
            line.close()
        else:
            self._idle.append(line)


def _asked(headers: Mapping[str, str]) -> int | None:
    """How many bytes the request asks for, None if it does not say."""
    found = _RANGE.fullmatch(headers.get("x-ms-range") or headers.get("Range") or "")
    return int(found[2]) - int(found[1]) + 1 if found else None


def _document(body: bytes) -> bytes:
    """An error's body as the SDK can read it; empty if it is not UTF-8 (a proxy's page)."""
    try:
        body.decode("utf-8")
    except UnicodeDecodeError:
        return b""
    return body


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("latin-1")


def _bytes(body: Any) -> bytes:
    if isinstance(body, str):
        return body.encode()
    if hasattr(body, "read"):
        body = body.read()
    return bytes(body or b"")


def _response(request: requests.PreparedRequest, incoming: Incoming) -> requests.Response:
    status_line, *lines = (
        line.decode("latin-1").strip() for line in lines_of(incoming.head) or [b""]
    )
    headers = urllib3.HTTPHeaderDict()
    for name, colon, value in (line.partition(":") for line in lines):
        if colon and name.strip().lower() not in _HIDDEN:
            headers.add(name.strip(), value.strip())
    body = bytes(incoming.body)
    if not incoming.succeeded:
        body = _document(body)
    if request.method != "HEAD":
        headers.add("Content-Length", str(len(body)))
    response = requests.Response()
    response.status_code = incoming.status
    response.reason = status_line.partition(" ")[2].partition(" ")[2]
    response.headers = CaseInsensitiveDict(headers.items())
    response.url = request.url or ""
    response.request = request
    response.raw = urllib3.HTTPResponse(
        io.BytesIO(body),
        headers=headers,
        status=incoming.status,
        reason=response.reason,
        preload_content=False,
        request_method=request.method,
    )
    return response


@dataclass(frozen=True, slots=True)
class Failure:
    """Why no answer came. untrusted: the server's certificate is not trusted.

    sent: False if no byte of the request was sent.
    """

    reason: str
    untrusted: bool
    sent: bool


class Line:
    """A connection to one server, kept for the next request. For one thread at a time."""

    def __init__(self, url: str) -> None:
        self._multi = pycurl.CurlMulti()
        self._curl = curl = new_handle(url)
        curl.setopt(pycurl.LOW_SPEED_LIMIT, 1)
        curl.setopt(pycurl.LOW_SPEED_TIME, _SILENCE_S)
        self._connected = False
        self.repeated = False
        """libcurl may have sent the last request twice: on a kept connection that turned out to be
        closed, and on a new one."""

    def carry(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes,
        incoming: Incoming,
        seconds: float,
    ) -> Failure | None:
        """Send a request and fill `incoming`, within `seconds`. After a Failure, close the line."""
        curl = self._curl
        curl.setopt(pycurl.HTTPGET, 1)
        if method == "HEAD":
            curl.setopt(pycurl.NOBODY, 1)
        elif method in ("POST", "PUT"):
            curl.setopt(pycurl.POST, 1)
            curl.setopt(pycurl.POSTFIELDS, body)
        curl.setopt(pycurl.CUSTOMREQUEST, method)
        curl.setopt(pycurl.HTTPHEADER, _header_lines(headers))
        curl.setopt(pycurl.URL, url)
        curl.setopt(pycurl.TIMEOUT_MS, max(1, int(seconds * 1000)))
        curl.setopt(pycurl.HEADERFUNCTION, incoming.header)
        curl.setopt(pycurl.WRITEFUNCTION, incoming.write)
        self._multi.add_handle(curl)
        try:
            failure = self._ended()
            self.repeated = self._connected and curl.getinfo(pycurl.NUM_CONNECTS) > 0
            self._connected = True
        finally:
            self._multi.remove_handle(curl)
        return failure

    def close(self) -> None:
        """Close the connection."""
        self._curl.close()
        self._multi.close()

    def _ended(self) -> Failure | None:
        while self._multi.perform()[1]:
            wait_for_sockets(self._multi, math.inf)
        _, _, failed = self._multi.info_read()
        if not failed:
            return None
        _, number, reason = failed[0]
        if number == pycurl.E_COULDNT_RESOLVE_PROXY or "nsupported proxy" in reason:
            # libcurl quotes the address, which may hold a password.
            reason = "the proxy that the environment names cannot be used"
        sent = self._curl.getinfo(pycurl.REQUEST_SIZE) > 0
        return Failure(reason, number in UNTRUSTED, sent)


def _header_lines(headers: Mapping[str, str]) -> list[str]:
    lines = [
        f"{name}: {value}" if value else f"{name};"
        for name, value in headers.items()
        if name.lower() != "content-length"  # libcurl adds it
    ]
    given = {name.lower() for name in headers}
    # Headers that libcurl would add itself, and that the signature does not cover.
    return lines + [f"{name}:" for name in ("Content-Type", "Expect") if name.lower() not in given]
