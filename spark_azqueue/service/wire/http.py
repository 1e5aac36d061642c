"""HTTP over libcurl: many concurrent requests, which progress while a thread waits for them.

This module has no code for queues or retries. libcurl keeps connections open, and detects broken
connections. If a connection breaks before any part of an answer arrives, libcurl sends the request
again on a new connection.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter, deque
from collections.abc import Mapping
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

import pycurl

from spark_azqueue.errors import ServiceError
from spark_azqueue.metrics.latency import Histogram, Recorder
from spark_azqueue.version import __version__

from ..account import Account
from ..credentials import Plane, authority_for
from ..incoming import HEADERS_TOO_LARGE, MOST_HEADER_BYTES, Answer, Incoming, NoAnswer
from ..network import UNTRUSTED, new_handle, wait_for_sockets
from .calls import SMALL_BYTES
from .concurrency import Limits


class Session:
    """Connections, credential and counters for one account.

    Thread-safe; do not share between processes.
    """

    def __init__(
        self, account: Account, limits: Limits | None = None, plane: Plane = Plane.QUEUES
    ) -> None:
        """limits: limits on requests; None for limits that all clients of the account in this
        process share.

        plane: the service whose endpoint is the account's `url`.
        """
        self.account = account
        self.limits = _limits_of(account) if limits is None else limits
        self.authority = authority_for(account, plane)
        self.throttled = 0
        """Number of answers so far with which the service throttled a request (503 or 429)."""
        self._requests: Counter[str] = Counter()
        self._took = Recorder()
        self._wires: deque[Wire[Any]] = deque()

    def wire(self) -> Wire[Any]:
        """Return connections for concurrent calls of one thread: kept connections if there are any,
        else new connections.
        """
        try:
            # take the most recently used connections, so that the others can time out
            return self._wires.pop()
        except IndexError:
            return Wire(self.account.url)

    def keep(self, wire: Wire[Any]) -> None:
        """Keep these connections for later calls."""
        self._wires.append(wire)

    def note_throttled(self) -> None:
        """Count an answer with which the service throttled a request."""
        with _lock:  # a lock that is held only briefly
            self.throttled += 1

    def note_request(self, kind: str) -> None:
        """Count a request that is sent. Retries count as well, because the service bills every
        request."""
        with _lock:
            self._requests[kind] += 1

    def requests(self) -> dict[str, int]:
        """Return the number of requests sent so far, by kind."""
        with _lock:
            return dict(self._requests)

    def note_took(self, kind: str, seconds: float, error: str) -> None:
        """Record the duration of a request. error: HTTP status, or another cause of a failure; ""
        for a success.
        """
        with _lock:
            self._took.observe(f"{kind} {error}" if error else kind, (seconds,))

    def latencies(self) -> dict[str, Histogram]:
        """Return the durations of requests so far, by kind. Failed requests have a kind for each
        error.
        """
        with _lock:
            return self._took.latencies()

    def close(self) -> None:
        """Close the connections. A later call opens new connections."""
        while self._wires:
            self._wires.pop().close()


_limits: dict[str, Limits] = {}  # by the account's URL
_lock = threading.Lock()


def _limits_of(account: Account) -> Limits:
    """Return this process's limits for the account. The process keeps the limits, so that a task of
    a sink begins with the limits that earlier tasks learned.
    """
    with _lock:
        return _limits.setdefault(account.url, Limits())


Tag = TypeVar("Tag")

MOST_BODY_BYTES = 16 * 2**20
"""Maximum size of an answer's body, in bytes.

An answer has up to 32 messages of 64 KiB, which take at most 12 MiB, because XML may write one byte
as six bytes (`&quot;`). The id, receipt and times of a message take less than 2 KiB.
"""

_TIMEOUT_MS = 40_000
_SILENCE_S = 30
"""A request that may take longer than `_TIMEOUT_MS` fails if no byte is received for this many
seconds.
"""


class Wire(Generic[Tag]):
    """Concurrent requests to one server. Only one thread may use a wire at a time."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._multi: pycurl.CurlMulti | None = None  # made on first use, because the call can fail
        self._idle: list[_Handle] = []
        self._busy: dict[pycurl.Curl, tuple[_Handle, Tag]] = {}
        self._unsent: list[tuple[Tag, Answer | NoAnswer]] = []

    def __len__(self) -> int:
        return len(self._busy) + len(self._unsent)

    def begin(
        self,
        tag: Tag,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | None,
        limit_s: float | None = None,
        most: int | None = None,
    ) -> None:
        """Send a request. `ended` later returns `tag` with the answer, or with NoAnswer after
        `limit_s` seconds.

        most: maximum size of the answer's body, in bytes; None for MOST_BODY_BYTES and a limit of
        40 seconds. Raises ServiceError if the proxy in the environment is not a valid address.
        """
        try:
            if self._multi is None:
                self._multi = pycurl.CurlMulti()
            request = self._idle.pop() if self._idle else _Handle(self._url)
            request.prepare(method, url, headers, body, limit_s, most)
            self._multi.add_handle(request.curl)
        except ServiceError:  # a malformed proxy address: a retry does not help
            raise
        except Exception as error:  # noqa: BLE001 (too many open files, say)
            reason = f"the request could not be sent: {error}"
            self._unsent.append((tag, NoAnswer(reason, untrusted=False, sent=False)))
        else:
            self._busy[request.curl] = request, tag

    def ended(self, timeout_s: float) -> list[tuple[Tag, Answer | NoAnswer]]:
        """Return the results of requests that have ended.

        Waits for the first result up to `timeout_s` seconds, but at most one second.

        Never raises. If libcurl itself fails, each request in flight ends with NoAnswer.
        """
        results, self._unsent = self._unsent, []
        try:
            self._progress(results, 0.0 if results else timeout_s)
        except Exception as error:  # noqa: BLE001
            reason = f"libcurl failed: {error}"
            results += [(tag, NoAnswer(reason, False)) for _, tag in self._busy.values()]
            self._start_afresh()
        return results

    def _progress(self, results: list[tuple[Tag, Answer | NoAnswer]], timeout_s: float) -> None:
        if self._multi is None or not self._busy:
            return
        self._multi.perform()
        self._read(self._multi, results)
        if results or not self._busy:
            return
        wait_for_sockets(self._multi, timeout_s)
        self._multi.perform()
        self._read(self._multi, results)

    def _read(self, multi: pycurl.CurlMulti, results: list[tuple[Tag, Answer | NoAnswer]]) -> None:
        more = True
        while more:
            more, answered, failed = multi.info_read()
            for curl in answered:
                request, tag = self._busy[curl]
                results.append((tag, request.answer()))
                self._free(curl)
            for curl, number, reason in failed:
                request, tag = self._busy[curl]
                results.append((tag, request.failure(number, reason)))
                self._free(curl)

    def _free(self, curl: pycurl.Curl) -> tuple[_Handle, Tag]:
        assert self._multi is not None
        self._multi.remove_handle(curl)
        request, tag = self._busy.pop(curl)
        self._idle.append(request)
        return request, tag

    def _start_afresh(self) -> None:
        """Discard all connections and busy handles after a failure of libcurl."""
        for curl in self._busy:
            with contextlib.suppress(pycurl.error):
                curl.close()
        self._busy.clear()
        if self._multi is not None:
            with contextlib.suppress(pycurl.error):
                self._multi.close()
        self._multi = None

    def abandon(self) -> None:
        """Stop waiting for the requests in flight. The server may or may not carry them out."""
        self._unsent.clear()
        try:
            for curl in list(self._busy):
                self._free(curl)
        except pycurl.error:
            self._start_afresh()

    def close(self) -> None:
        """Close all connections."""
        self.abandon()
        for request in self._idle:
            request.curl.close()
        self._idle.clear()
        self._start_afresh()


class _Handle:
    """A libcurl handle, which is reused for many requests. Options that do not change are set only
    once."""

    def __init__(self, url: str) -> None:
        self.curl = curl = new_handle(url)
        self._incoming = incoming = Incoming(MOST_BODY_BYTES)
        self._method = ""
        self._headers: Mapping[str, str] = {}
        self._sent_at = 0.0
        self._origin_bytes = len("{0.scheme}://{0.netloc}".format(urlsplit(url)))
        self._headers_bytes = 0
        self._twice_bytes = 0  # if this many bytes were sent, the request was sent twice
        self._limit_ms = 0
        curl.setopt(pycurl.USERAGENT, f"spark-azqueue/{__version__}")
        curl.setopt(pycurl.HEADERFUNCTION, incoming.received.extend)
        curl.setopt(pycurl.WRITEFUNCTION, incoming.write)

    def prepare(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | None,
        limit_s: float | None,
        most: int | None,
    ) -> None:
        curl = self.curl
        if method != self._method:
            self._method = method
            curl.setopt(pycurl.HTTPGET, 1)
            if method == "HEAD":
                curl.setopt(pycurl.NOBODY, 1)
            elif method in ("POST", "PUT"):
                curl.setopt(pycurl.POST, 1)
            curl.setopt(pycurl.CUSTOMREQUEST, method)
        if method in ("POST", "PUT"):
            curl.setopt(pycurl.POSTFIELDS, body or b"")
        if headers != self._headers:
            self._headers = headers
            lines = [f"{name}: {value}" for name, value in headers.items()]
            self._headers_bytes = sum(map(len, lines))
            curl.setopt(pycurl.HTTPHEADER, [*lines, "Expect:"])  # "Expect:" = no 100-continue
        limit_ms = _TIMEOUT_MS
        if limit_s is not None:  # 0 would mean no limit
            limit_ms = max(1, int(limit_s * 1_000))
            limit_ms = min(limit_ms, _TIMEOUT_MS) if most is None else limit_ms
        if limit_ms != self._limit_ms:
            self._limit_ms = limit_ms
            curl.setopt(pycurl.TIMEOUT_MS, limit_ms)
            is_long = limit_ms > _TIMEOUT_MS
            curl.setopt(pycurl.LOW_SPEED_LIMIT, int(is_long))
            curl.setopt(pycurl.LOW_SPEED_TIME, _SILENCE_S if is_long else 0)
        # The headers that libcurl adds are not counted, because they are shorter than the other
        # headers.
        head = len(method) + len(url) - self._origin_bytes + self._headers_bytes
        self._twice_bytes = 2 * head + len(body or b"")
        self._incoming.clear()
        self._incoming.bound(*((MOST_BODY_BYTES,) * 2 if most is None else (most, SMALL_BYTES)))
        curl.setopt(pycurl.URL, url)
        self._sent_at = time.monotonic()

    def answer(self) -> Answer | NoAnswer:
        status = self.curl.getinfo(pycurl.RESPONSE_CODE)
        repeated = self._sent_bytes() >= self._twice_bytes
        incoming = self._incoming
        if len(incoming.received) > MOST_HEADER_BYTES:
            return NoAnswer(HEADERS_TOO_LARGE, untrusted=False, too_large=True, repeated=repeated)
        head, body = incoming.head, bytes(incoming.body)
        incoming.body.clear()  # the body may be large, and the handle may stay idle
        return Answer(status, head, body, self._sent_at, repeated, self._took_s())

    def failure(self, number: int, reason: str) -> Answer | NoAnswer:
        if self._incoming.excess and not self._incoming.succeeded:
            # for example a proxy's error page, of which only the status matters
            return self.answer()
        too_large = self._incoming.too_large
        if len(self._incoming.received) > MOST_HEADER_BYTES:
            too_large = HEADERS_TOO_LARGE
        self._incoming.clear()
        sent = self._sent_bytes()
        return NoAnswer(
            *(too_large or reason, number in UNTRUSTED, bool(too_large)),
            sent=sent > 0,
            repeated=sent >= self._twice_bytes,
            took_s=self._took_s(),
        )

    def _took_s(self) -> float:
        return float(self.curl.getinfo(pycurl.TOTAL_TIME))

    def _sent_bytes(self) -> int:
        return int(self.curl.getinfo(pycurl.REQUEST_SIZE))
