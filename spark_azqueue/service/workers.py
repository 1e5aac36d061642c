"""A pool of daemon threads, which never keep the process alive after Spark has finished.

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
    """Interface that runs calls: the pool below, or in tests a pool that runs them immediately."""

    def submit(self, call: Callable[..., T], *arguments: Any) -> Future[T]:
        """Run call(*arguments); the future holds its result or exception."""


class MakeWorkers(Protocol):
    """Factory of a pool of threads (tests use one that runs calls immediately)."""

    def __call__(self, count: int, name: str) -> Submits:
        """Make a pool of up to `count` threads."""


class Workers:
    """Up to `count` threads, started as needed. The threads run calls in order of arrival."""

    def __init__(self, count: int, name: str) -> None:
        self._count = count
        self._name = name
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._threads = 0
        self._lock = threading.Lock()

    def submit(self, call: Callable[..., T], *arguments: Any) -> Future[T]:
        """Run call(*arguments) in a thread; the future holds its result or exception.

        Raises RuntimeError if no thread can be started; the call then does not run.
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
                if future.cancel():  # no thread has begun the call, so none will
                    raise
        return future

    def close(self) -> None:
        """End the threads when the submitted calls are done. Submit no call after this."""
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
                return  # the existing threads will run it
            self._threads += 1

    def _loop(self) -> None:
        while (work := self._work.get()) is not None:
            work()
            del work  # otherwise, all that it refers to would stay alive while this thread waits
            self._idle.release()


def freeze_loaded_modules() -> None:
    """Exclude all objects that exist now from garbage collections. Takes effect once per process.

    Spark's worker collects garbage after each task. With Spark's and Arrow's modules loaded, each
    collection took 30 ms, most of the cost of a small task. Later objects are collected as before.
    """
    if not gc.get_freeze_count():
        gc.freeze()


def collect_seldom() -> None:
    """In the source's own process, collect garbage after 20,000 new objects, not after 700.

    A batch is some 100,000 objects without cycles that live for seconds. Checking them repeatedly
    took a tenth of the process's time.
    """
    freeze_loaded_modules()
    gc.set_threshold(20_000, 20, 20)
