"""A pool of daemon threads: they never keep a process alive that Spark has done with.

(`concurrent.futures.ThreadPoolExecutor` joins its threads at exit.) Ring: edge.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Submits(Protocol):
    """What runs calls: the pool below, or one in tests that runs them at once."""

    def submit(self, call: Callable[..., T], *arguments: Any) -> Future[T]:
        """Run call(*arguments); its result or exception is in the future."""
        ...


class Workers:
    """Up to `count` threads, started as work comes, that run calls in order of arrival."""

    def __init__(self, count: int, name: str) -> None:
        self._count = count
        self._name = name
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._threads = 0
        self._lock = threading.Lock()

    def submit(self, call: Callable[..., T], *arguments: Any) -> Future[T]:
        """Run call(*arguments) in a thread; its result or exception is in the future."""
        future: Future[T] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = call(*arguments)
            except BaseException as error:  # noqa: BLE001 (it is not lost: the future has it)
                future.set_exception(error)
            else:
                future.set_result(result)

        self._work.put(run)
        if not self._idle.acquire(blocking=False):
            self._start_one_more()
        return future

    def close(self) -> None:
        """Let the threads end when what was submitted is done. Submit nothing after that."""
        with self._lock:
            for _ in range(self._threads):
                self._work.put(None)

    def _start_one_more(self) -> None:
        with self._lock:
            if self._threads >= self._count:
                return
            self._threads += 1
            name = f"azqueue-{self._name}-{self._threads}"
            threading.Thread(target=self._loop, name=name, daemon=True).start()

    def _loop(self) -> None:
        while (work := self._work.get()) is not None:
            work()
            self._idle.release()


class Lanes:
    """Many small calls, run by at most `count` workers, each of which takes one after another.

    A worker stays at it until none is left: a call costs no thread and no future of its own.
    """

    def __init__(self, workers: Submits, count: int) -> None:
        self._workers = workers
        self._count = count
        self._open = 0
        self._due: deque[Callable[[], None]] = deque()
        self._left = 0
        self._changed = threading.Condition()

    def add(self, calls: Sequence[Callable[[], None]]) -> None:
        """Run these soon, in this order. They are not to raise."""
        with self._changed:
            self._due.extend(calls)
            self._left += len(calls)
            more = min(self._count - self._open, len(calls))
            self._open += more
        for _ in range(more):
            self._workers.submit(self._run)

    def wait(self, timeout_s: float) -> list[Callable[[], None]]:
        """Wait until all have run; when the time is up, take out and return those not begun."""
        with self._changed:
            if self._changed.wait_for(lambda: not self._left, timeout_s):
                return []
        return self.take_out(lambda call: True)

    def take_out(self, which: Callable[[Callable[[], None]], bool]) -> list[Callable[[], None]]:
        """Those not begun yet that are meant: they will not be run."""
        with self._changed:
            taken = [call for call in self._due if which(call)]
            if taken:
                self._due = deque(call for call in self._due if not which(call))
                self._left -= len(taken)
        return taken

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._due:
                    self._open -= 1
                    return
                call = self._due.popleft()
            try:
                call()
            finally:
                with self._changed:
                    self._left -= 1
                    if not self._left:
                        self._changed.notify_all()
