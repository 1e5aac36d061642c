"""A pool of daemon threads, which do not keep the process alive after Spark has finished.

(`concurrent.futures.ThreadPoolExecutor` joins its threads at exit.)
"""

from __future__ import annotations

import gc
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Submits(Protocol):
    """Interface of a pool that runs calls. Tests use a pool that runs each call immediately."""

    def submit(self, call: Callable[..., T], *arguments: Any) -> Future[T]:
        """Run call(*arguments). Return a future with the call's result or exception."""


class MakeWorkers(Protocol):
    """Function that makes a pool. (In tests, the pool runs each call immediately.)"""

    def __call__(self, count: int, name: str) -> Submits:
        """Make a pool of up to `count` threads."""


class Workers:
    """Pool of up to `count` threads, started as needed. The threads run calls in the order of
    submission."""

    def __init__(self, count: int, name: str) -> None:
        self._count = count
        self._name = name
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._threads = 0
        self._lock = threading.Lock()

    def submit(self, call: Callable[..., T], *arguments: Any) -> Future[T]:
        """Run call(*arguments) in a thread; the future gets the result or the exception.

        Raises RuntimeError if no thread can be started. In that case, the call does not run.
        """
        future: Future[T] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = call(*arguments)
            except BaseException as error:  # noqa: BLE001 (the future holds it)
                future.set_exception(error)
            else:
                future.set_result(result)

        self._work.put(run)
        if not self._idle.acquire(blocking=False):
            try:
                self._start_one_more()
            except RuntimeError:
                if future.cancel():  # no thread has begun the call, and no thread will
                    raise
        return future

    def close(self) -> None:
        """End the threads when the submitted calls are done. No call may be submitted after
        `close`.
        """
        with self._lock:
            for _ in range(self._threads):
                self._work.put(None)

    def _start_one_more(self) -> None:
        with self._lock:
            if self._threads >= self._count:
                return
            name = f"azqueue-{self._name}-{self._threads + 1}"
            try:
                threading.Thread(target=self._loop, name=name, daemon=True).start()
            except RuntimeError:
                if not self._threads:
                    raise
                return  # the existing threads will run the call
            self._threads += 1

    def _loop(self) -> None:
        while (work := self._work.get()) is not None:
            work()
            # otherwise the call's objects would stay in memory while this thread waits
            del work
            self._idle.release()


def freeze_loaded_modules() -> None:
    """Exclude all existing objects from garbage collection. Only the first call takes effect.

    Spark's worker collects garbage after each task. With the objects of Spark's and Arrow's
    modules, a collection took 30 ms, most of the time of a small task. Objects that are created
    later are collected as usual.
    """
    if not gc.get_freeze_count():
        gc.freeze()


def collect_seldom() -> None:
    """Make Python collect garbage after 20,000 new objects instead of 700, in the source's own
    process.

    A batch has about 100,000 objects, which have no cycles and live for seconds. Checking these
    objects repeatedly took a tenth of the process's time.
    """
    freeze_loaded_modules()
    gc.set_threshold(20_000, 20, 20)
