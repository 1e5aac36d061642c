"""The local HTTP server and its thread."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future

from .wire import MAX_BODY, HttpConnection, Respond


class HttpServer:
    """An HTTP server on 127.0.0.1 in a daemon thread; `respond` is called in that thread.

    body_at_most: the most bytes of a body that are read.
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
        """How many connections are open."""
        return len(self._connections)

    def start(self, port: int) -> int:
        """Listen on `port` (0: any free one); return the port. Raises OSError if it is in use."""
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
        """Stop listening and abort every connection. Does nothing if it is not running."""
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
        # A connection that was just accepted is set up by its own task. That task fails if the
        # server is closed by then, and leaks the socket. So stop accepting, then abort the accepted
        # connections, and only then close the server.
        for listener in server.sockets:
            self._loop.remove_reader(listener)
        for _ in range(10):  # an aborted connection is closed one round of the loop later
            accepting = asyncio.all_tasks() - {asyncio.current_task()}
            await asyncio.gather(*accepting, return_exceptions=True)
            for connection in tuple(self._connections):
                connection.abort()
            await asyncio.sleep(0)
        server.close()
        await server.wait_closed()
