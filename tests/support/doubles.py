"""Stand-ins that several tests use."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any

from spark_azqueue.errors import Outcome, ServiceError
from spark_azqueue.service.messages import Lease, Message, QueueRef, Received
from spark_azqueue.service.queues.calls import (
    Count,
    DatedDelete,
    Delete,
    Dequeue,
    Page,
    Put,
    Release,
    Update,
)
from spark_azqueue.service.retry import RetryPolicy
from spark_azqueue.service.wire.calls import Call


def page_of(queue: QueueRef, numbers: Iterable[int], asked: int) -> Page:
    """The answer to a dequeue of so many: messages with these numbers for ids."""
    received = (
        Received(Message(queue, str(number), "T", 0, 0, 1), Lease(queue, str(number), "r"))
        for number in numbers
    )
    return Page(tuple(received), asked, 0.0)


class OneByOne:
    """A service whose calls are made when they begin, each by a method of its queue."""

    def __init__(self, queue: Callable[[QueueRef], Any]) -> None:
        self.queue = queue

    def in_flight(self) -> OneByOneFlight:
        return OneByOneFlight(self.queue)

    def create(self, ref: QueueRef) -> bool:
        return True

    def close(self) -> None:
        pass


class OneByOneFlight:
    def __init__(self, queue: Callable[[QueueRef], Any]) -> None:
        self._queue = queue
        self._results: list[tuple[Any, Any]] = []

    def __len__(self) -> int:
        return len(self._results)

    def begin(
        self,
        tag: Any,
        call: Call[Any],
        retry: RetryPolicy | None = None,
        within_s: float | None = None,
    ) -> None:
        unanswered = False

        def attempt() -> Any:
            nonlocal unanswered
            try:
                result = self._make(call)
            except ServiceError as error:
                unanswered |= error.status is None  # it may have taken effect
                raise
            refused = isinstance(result, Outcome) and result.refused
            if isinstance(call, Delete) and refused and unanswered:
                return Outcome.PROBABLY
            return result

        try:
            result = retry(attempt) if retry else attempt()
        except Exception as error:  # noqa: BLE001 (it is the result)
            result = error
        self._results.append((tag, result))

    def try_begin(self, tag: Any, call: Call[Any], retry: RetryPolicy | None = None) -> bool:
        self.begin(tag, call, retry)
        return True

    def _make(self, call: Call[Any]) -> Any:
        queue = self._queue(call.queue)
        if isinstance(call, Dequeue):
            return queue.dequeue(call.count, call.visibility_s)
        if isinstance(call, (Delete, DatedDelete)):
            return queue.delete(call.lease)
        if isinstance(call, Release):
            return queue.update(call.lease, 0)[0]
        if isinstance(call, Update):
            return queue.update(call.lease, call.visibility_s)
        if isinstance(call, Count):
            return queue.count()
        assert isinstance(call, Put)
        return queue.put(call.text, call.delay_s, call.ttl_s)

    def ended(self, timeout_s: float | None = None) -> list[tuple[Any, Any]]:
        results, self._results = self._results, []
        return results

    def close(self) -> None:
        self._results.clear()


class AtOnce:
    """Workers that run a call when it is submitted: one thread, one order of events."""

    def __init__(self, count: int, name: str) -> None:
        self._calls = 0

    @property
    def busy(self) -> bool:
        """True while a call runs."""
        return self._calls > 0

    def submit(self, call: Callable[..., Any], *arguments: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self._calls += 1
        try:
            future.set_result(call(*arguments))
        except Exception as error:  # noqa: BLE001 (the future has it)
            future.set_exception(error)
        finally:
            self._calls -= 1
        return future


class NeverRuns:
    """Workers whose process ends before they come to anything."""

    def submit(self, call: Callable[..., Any], *arguments: Any) -> Future[Any]:
        return Future()


class Clock:
    """Seconds that pass only if a test adds them to `now`."""

    now = 100.0

    def __call__(self) -> float:
        return self.now
