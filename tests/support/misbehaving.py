"""Servers on this machine that answer as no service should."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from types import TracebackType


class Server:
    """Calls `answer(connection, stopped)` for each request, until that returns False.

    requests: what was asked, head and body as they came, in order of arrival.
    """

    def __init__(self, answer: Callable[[socket.socket, threading.Event], bool]) -> None:
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self.stopped = threading.Event()
        self.requests: list[bytes] = []
        self.connections = 0
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Server:
        self._threads[0].start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.stopped.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            for connection in self._open:
                with contextlib.suppress(OSError):  # closed already
                    connection.shutdown(socket.SHUT_RDWR)
            thread.join(10)
        for connection in self._open:
            connection.close()
        self._listener.close()

    def _accept(self) -> None:
        while not self.stopped.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._open.append(connection)
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            more = True
            while more and (request := self.read(connection)):
                self.requests.append(request)
                more = self._answer(connection, self.stopped)
            connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # the other side went away

    @staticmethod
    def read(connection: socket.socket) -> bytes:
        """Read one request. Returns b"" if there is none."""
        request = b""
        while b"\r\n\r\n" not in request:
            if not (some := connection.recv(65_536)):
                return b""
            request += some
        head, _, body = request.partition(b"\r\n\r\n")
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
        missing = int(fields.get(b"content-length", b"0")) - len(body)
        parts = [request]
        while missing > 0 and (some := connection.recv(2**20)):
            parts.append(some)
            missing -= len(some)
        return b"".join(parts)


def says(
    status: int, body: bytes = b"", **headers: str
) -> Callable[[socket.socket, threading.Event], bool]:
    """An answer like any other. Names of headers: `_` stands for `-`."""
    fields = {"Content-Length": str(len(body)), **headers}
    lines = [
        f"HTTP/1.1 {status} Reason",
        *(f"{k.replace('_', '-')}: {v}" for k, v in fields.items()),
    ]
    whole = "\r\n".join(lines).encode() + b"\r\n\r\n" + body

    def answer(connection: socket.socket, stopped: threading.Event) -> bool:
        connection.sendall(whole)
        return True

    return answer


def hangs_up(connection: socket.socket, stopped: threading.Event) -> bool:
    """No answer: the connection is closed."""
    return False


def in_turn(
    *answers: Callable[[socket.socket, threading.Event], bool],
) -> Callable[[socket.socket, threading.Event], bool]:
    """One answer after another; the last one again and again."""
    left = list(answers)

    def answer(connection: socket.socket, stopped: threading.Event) -> bool:
        return (left.pop(0) if len(left) > 1 else left[0])(connection, stopped)

    return answer


def endless(head: str, piece: bytes) -> Callable[[socket.socket, threading.Event], bool]:
    """Pieces without end after this head, as fast as they are taken."""

    def answer(connection: socket.socket, stopped: threading.Event) -> bool:
        connection.sendall(head.encode())
        while not stopped.is_set():
            connection.sendall(piece)
        return False

    return answer


def dribbling(head: str, piece: bytes = b"x") -> Callable[[socket.socket, threading.Event], bool]:
    """The same, but for a short pause after each byte."""

    def answer(connection: socket.socket, stopped: threading.Event) -> bool:
        connection.sendall(head.encode())
        while not stopped.wait(0.02):
            for byte in piece:
                connection.sendall(bytes([byte]))
                stopped.wait(0.02)
        return False

    return answer


class Slow:
    """Stands for the module `time`: each request to the server takes so many seconds, no less."""

    def __init__(self, server: Server, seconds: float) -> None:
        self._server = server
        self._seconds = seconds

    def monotonic(self) -> float:
        return len(self._server.requests) * self._seconds
