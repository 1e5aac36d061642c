"""A local HTTP/1.1 server. The server parses requests and sends answers, one at a time on each
connection."""

from __future__ import annotations

import asyncio
import functools
import re
import struct
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from socket import SO_LINGER, SOL_SOCKET
from typing import NamedTuple, cast
from urllib.parse import unquote

MAX_BODY = 1_048_576
"""Maximum size of a body in bytes. A text of 64 KiB is smaller, even if every character is
escaped."""

_MAX_HEAD = 65_536
_DIGITS_AT_MOST = 20
_UNFIT_FOR_A_HEAD = re.compile(r"[\0\r\n]")


class HttpRequest(NamedTuple):
    """One request. `path` and `query` are still percent-encoded."""

    method: str
    path: str
    query: str
    headers: list[tuple[str, str]]
    """Names in their original case."""
    fields: dict[str, str]
    """The same headers, by lower-case name.

    Values of a repeated header are joined with commas.
    """
    body: bytes
    too_large: bool = False
    """True if the body is too long. Such a body is not read, and the connection is closed after the
    answer.
    """


class HttpAnswer(NamedTuple):
    """The answer to a request. `data`: bytes to send, or None to end the connection."""

    data: bytes | None
    delay: float = 0.0
    """Seconds to delay the answer. Only this connection waits."""
    reset: bool = False
    """If `data` is None: True to end the connection with a TCP reset."""


def parameters(query: str) -> list[tuple[str, str]]:
    """Return the decoded names and values of a query, in order."""
    found = []
    for piece in query.split("&"):
        if piece:
            name, _, value = piece.partition("=")
            found.append((_decoded(name), _decoded(value)))
    return found


def _decoded(text: str) -> str:
    # Most texts need no decoding. The other texts, such as the parts of a SAS, occur in every
    # request, so the results are cached.
    return _unquoted(text) if "%" in text or "+" in text else text


@functools.lru_cache(maxsize=1024)
def _unquoted(text: str) -> str:
    return unquote(text.replace("+", " "))


Respond = Callable[[HttpRequest], HttpAnswer]


def render(
    status: int,
    reason: str,
    headers: Iterable[tuple[str, str]],
    body: bytes = b"",
    *,
    chunked: bool = False,
    head_only: bool = False,
) -> bytes:
    """Render a response. head_only: True for the answer to HEAD, which has no body."""
    lines = [f"HTTP/1.1 {status} {reason}"]
    lines += [f"{name}: {value}" for name, value in headers]
    lines.append("Transfer-Encoding: chunked" if chunked else f"Content-Length: {len(body)}")
    head = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
    if head_only:
        return head
    if chunked:
        return b"%b%x\r\n%b\r\n0\r\n\r\n" % (head, len(body), body)
    return head + body


class HttpConnection(asyncio.Protocol):
    """The server's side of one connection. All its methods run in the event loop's thread.

    A connection calls `respond` once per request, in order. The next request of a connection waits
    until the previous answer is sent.
    """

    def __init__(
        self, respond: Respond, connections: set[HttpConnection], body_at_most: int = MAX_BODY
    ) -> None:
        self._respond = respond
        self._body_at_most = body_at_most
        self._connections = connections
        self._buffer = bytearray()
        self._head: HttpRequest | None = None
        self._body_length = 0
        self._held: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Add this connection to the open connections."""
        self._transport = cast(asyncio.Transport, transport)
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove this connection from the open connections. A delayed answer is not sent."""
        self._connections.discard(self)
        if self._held is not None:
            self._held.cancel()

    def abort(self) -> None:
        """End the connection now."""
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """Accept bytes, and answer each complete request."""
        self._buffer += data
        self._advance()

    def _advance(self) -> None:
        while self._held is None and not self._transport.is_closing():
            try:
                request = self._next_request()
            except _Unreadable as problem:
                self._transport.write(
                    render(problem.status, str(problem), [("Connection", "close")])
                )
                self._transport.close()
                return
            if request is None:
                return
            answer = self._respond(request)
            if answer.delay > 0:
                self._held = asyncio.get_running_loop().call_later(
                    answer.delay, self._release, request, answer
                )
            else:
                self._send(request, answer)

    def _release(self, request: HttpRequest, answer: HttpAnswer) -> None:
        self._held = None
        self._send(request, answer)
        self._advance()

    def _send(self, request: HttpRequest, answer: HttpAnswer) -> None:
        if answer.data is not None:
            self._transport.write(answer.data)
            if request.too_large or request.fields.get("connection", "").lower() == "close":
                self._transport.close()
            return
        if answer.reset:
            # A linger time of 0 turns the close into a reset.
            self._transport.get_extra_info("socket").setsockopt(
                SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0)
            )
        self._transport.abort()

    def _next_request(self) -> HttpRequest | None:
        """Remove one request from the buffer, or return None if it is not complete."""
        if self._head is None:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                if len(self._buffer) > _MAX_HEAD:
                    raise _Unreadable(431, "Request Header Fields Too Large")
                return None
            self._head = _parse_head(self._buffer[:end].decode("latin-1"))
            self._body_length = _body_length(self._head)
            del self._buffer[: end + 4]
            if self._body_length > self._body_at_most:
                return self._head._replace(too_large=True)
            if self._head.fields.get("expect", "").lower() == "100-continue":
                self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if len(self._buffer) < self._body_length:
            return None
        request = self._head._replace(body=bytes(self._buffer[: self._body_length]))
        del self._buffer[: self._body_length]
        self._head = None
        return request


class HttpServer:
    """An HTTP server on 127.0.0.1 in a daemon thread. `respond` is called in this thread.

    body_at_most: maximum size of a body in bytes.
    """

    def __init__(self, respond: Respond, body_at_most: int = MAX_BODY) -> None:
        self._respond = respond
        self._body_at_most = body_at_most
        self._connections: set[HttpConnection] = set()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop
        self._stopping: asyncio.Event

    @property
    def running(self) -> bool:
        """True between `start` and `stop`."""
        return self._thread is not None

    @property
    def connections(self) -> int:
        """Number of open connections."""
        return len(self._connections)

    def start(self, port: int) -> int:
        """Listen on `port` (0: any free port), and return the port. Raises OSError if the port is
        in use.
        """
        started: Future[int] = Future()
        thread = threading.Thread(
            target=lambda: asyncio.run(self._serve(port, started)),
            name="fake-queue-service",
            daemon=True,
        )
        thread.start()
        actual = started.result()
        self._thread = thread
        return actual

    def stop(self) -> None:
        """Stop listening and abort every connection. Does nothing if the server is not running."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)
            thread.join()

    async def _serve(self, port: int, started: Future[int]) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        try:
            server = await self._loop.create_server(
                lambda: HttpConnection(self._respond, self._connections, self._body_at_most),
                "127.0.0.1",
                port,
                backlog=1024,
            )
        except OSError as problem:
            started.set_exception(problem)
            return
        started.set_result(server.sockets[0].getsockname()[1])
        await self._stopping.wait()
        # A task sets up each new connection. If the server is closed before the task runs, the task
        # fails and leaks the socket. So first stop accepting connections, then abort the accepted
        # connections, and close the server last.
        for listener in server.sockets:
            self._loop.remove_reader(listener)
        for _ in range(10):  # an aborted connection is closed in the next round of the event loop
            accepting = asyncio.all_tasks() - {asyncio.current_task()}
            await asyncio.gather(*accepting, return_exceptions=True)
            for connection in tuple(self._connections):
                connection.abort()
            await asyncio.sleep(0)
        server.close()
        await server.wait_closed()


class _Unreadable(Exception):  # noqa: N818 - not a failure, the answer to one
    """Raised for bytes that are not a request. The connection is closed after the answer."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def _parse_head(head: str) -> HttpRequest:
    first, *lines = head.split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or words[2] != "HTTP/1.1":
        raise _Unreadable(400, "Bad Request")
    headers = []
    fields: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or _UNFIT_FOR_A_HEAD.search(line):
            raise _Unreadable(400, "Bad Request")
        value = value.strip()
        headers.append((name, value))
        key = name.lower()
        fields[key] = f"{fields[key]},{value}" if key in fields else value
    path, _, query = words[1].partition("?")
    return HttpRequest(words[0], path, query, headers, fields, b"")


def _body_length(head: HttpRequest) -> int:
    length = head.fields.get("content-length")
    if "transfer-encoding" in head.fields or (length is None and head.method in ("PUT", "POST")):
        # The service requires the length of every body in advance.
        raise _Unreadable(411, "Length Required")
    if length is None:
        return 0
    if not (length.isascii() and length.isdigit()):
        raise _Unreadable(400, "Bad Request")
    # Python refuses to convert a text of more than 4,300 digits.
    return int(length) if len(length) <= _DIGITS_AT_MOST else 10**_DIGITS_AT_MOST
