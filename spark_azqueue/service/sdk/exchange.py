"""One HTTP request at a time over libcurl, within a deadline and a size limit.

For what the SDK sends (see `sdk/http.py`): blobs and the control plane. Calls to messages use
`queues/http.py`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import pycurl

from ..incoming import Incoming
from ..network import UNTRUSTED, new_handle, wait_for_sockets

ANSWER_AT_MOST = 256 * 1024
"""The most bytes of an answer whose size the request did not set: metadata, an error document."""
_SILENCE_S = 30
"""The request fails if no byte moves in either direction for this long."""


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
