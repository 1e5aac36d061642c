"""A server that answers with the bytes it was given, whatever they are."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Sequence
from types import TracebackType

SOON = 10.0


def answer(status: str, *headers: str, body: bytes = b"") -> bytes:
    """The bytes of an answer that says how long its body is."""
    lines = [f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body)}", "Connection: close"]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


class Scripted:
    """Takes one request per connection, and sends it the next answer."""

    def __init__(self, answers: Sequence[bytes]) -> None:
        self.answers = list(answers)
        self.heads: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/acc"
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Scripted:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.answers.clear()
        with contextlib.suppress(OSError):  # the thread may wait for somebody
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        self._thread.join(SOON)
        self._listener.close()

    @property
    def targets(self) -> list[str]:
        """What the requests asked for."""
        return [head.split(b" ")[1].decode() for head in self.heads]

    def _serve(self) -> None:
        while self.answers:
            connection, _ = self._listener.accept()
            with connection, contextlib.suppress(OSError):  # it may be broken off
                self.serve_one(connection)

    def serve_one(self, connection: socket.socket) -> None:
        """Read one request, and send the next answer."""
        received = b""
        while b"\r\n\r\n" not in received and (more := connection.recv(65_536)):
            received += more
        if received and self.answers:
            self.heads.append(received)
            connection.sendall(self.answers.pop(0))
