"""A server that gives out recorded answers, byte for byte, whatever it is asked."""

from __future__ import annotations

import socket
import threading
from collections import deque
from types import TracebackType

from cassettes import Recorded
from misbehaving import Server

_NO_BODY = (204, 304)


class Feeding:
    """Call `next` with the answers to the requests that follow. asked: how many came.

    url: as of an account. left: answers that nobody asked for yet.
    """

    def __init__(self) -> None:
        self.left: deque[Recorded] = deque()
        self.asked = 0
        self._server = Server(self._answer)
        self.url = f"{self._server.url}/storagename"

    def next(self, *answers: Recorded) -> None:
        """Give out these, in this order, and nothing that is left of earlier ones."""
        self.left.clear()
        self.left.extend(answers)

    def __enter__(self) -> Feeding:
        self._server.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.__exit__(kind, error, traceback)

    def _answer(self, connection: socket.socket, stopped: threading.Event) -> bool:
        self.asked += 1
        if not self.left:
            return False
        answer = self.left.popleft()
        connection.sendall(answer.answer())
        framed = {"content-length", "transfer-encoding"} & set(answer.fields)
        return bool(framed) or answer.status in _NO_BODY or answer.method == "HEAD"
