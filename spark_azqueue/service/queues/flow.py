"""Runs many calls concurrently, within the limits of their queues, and yields the results."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Container, Generator, Iterable, Iterator
from contextlib import closing
from typing import Generic, TypeVar

from spark_azqueue.errors import AccessDenied, QueueNotFound

from ..messages import QueueRef
from ..retry import CONTROL, RetryPolicy
from ..wire.calls import Call
from ..wire.transport import InFlight
from .client import QueueClient

Key = TypeVar("Key")
Item = TypeVar("Item")


class FairQueue(Generic[Key, Item]):
    """A queue of items by key. Keys take turns, and the items of one key keep their order.

    Not thread-safe.
    """

    def __init__(self) -> None:
        # No key has an empty entry. The first key is the key whose turn it is.
        self._lanes: dict[Key, deque[Item]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, key: Key) -> bool:
        return key in self._lanes

    def add(self, key: Key, item: Item) -> None:
        """Add an item as the last of its key."""
        self._count += 1
        self._lanes.setdefault(key, deque()).append(item)

    def put_back(self, key: Key, item: Item) -> None:
        """Put an item back as the first of its key."""
        self._count += 1
        self._lanes.setdefault(key, deque()).appendleft(item)

    def next(self, without: Container[Key] = ()) -> tuple[Key, Item] | None:
        """Remove and return the next item whose key is not in `without`; None if there is no such
        item.
        """
        for key in self._lanes:
            if key not in without:
                break
        else:
            return None
        lane = self._lanes.pop(key)
        item = lane.popleft()
        self._count -= 1
        if lane:
            self._lanes[key] = lane
        return key, item

    def begin(self, begin: Callable[[Item], bool]) -> None:
        """Call `begin` for each item, and remove the item if `begin` returns True.

        If `begin` returns False, no further item of this key is tried.
        """
        full: set[Key] = set()
        while found := self.next(full):
            key, item = found
            if not begin(item):
                self.put_back(key, item)
                full.add(key)

    def take(self, which: Callable[[Item], bool] = lambda item: True) -> list[Item]:
        """Remove and return all items for which `which` is true."""
        taken: list[Item] = []
        for key, lane in list(self._lanes.items()):
            left: deque[Item] = deque()
            for item in lane:
                (taken if which(item) else left).append(item)
            if left:
                self._lanes[key] = left
            else:
                del self._lanes[key]
        self._count -= len(taken)
        return taken


T = TypeVar("T")
Tag = TypeVar("Tag")

MOST_WAITING = 32
"""Maximum number of calls that wait because of their queues' limits, while calls to other queues
begin.
"""


def results_of(
    client: QueueClient,
    calls: Iterable[tuple[Tag, Call[T]]],
    retry: RetryPolicy,
    *,
    most: int | None = None,
    within_s: float | None = None,
    without: Container[QueueRef] = (),
    then: Callable[[Tag, T | Exception], Iterable[tuple[Tag, Call[T]]]] = lambda tag, result: (),
) -> Generator[tuple[Tag, T | Exception], None, None]:
    """Make calls. Yield the tag of each call with the call's result or error, in the order in which
    the calls end.

    The calls begin approximately in the given order. most: maximum number of concurrent calls; None
    for only the limits of the queues. within_s: seconds after which no call begins and the
    generator ends. without: queues whose calls are left out; the caller may add queues while the
    generator runs. then: gets the tag and the result of a call, and returns further calls to make.
    If the generator is closed early, calls in flight may or may not take effect.
    """
    deadline = None if within_s is None else time.monotonic() + within_s
    waiting: FairQueue[QueueRef, tuple[Tag, Call[T]]] = FairQueue()
    flight: InFlight[Tag, T] = client.in_flight()

    def begin(tagged: tuple[Tag, Call[T]]) -> bool:
        tag, call = tagged
        if call.queue in without:
            return True
        if most is not None:
            if len(flight) >= most:
                return False
            flight.begin(tag, call, retry)
            return True
        return flight.try_begin(tag, call, retry)

    def ended() -> list[tuple[Tag, T | Exception]]:
        waiting.begin(begin)
        left_s = None if deadline is None else max(0.0, deadline - time.monotonic())
        results = flight.ended(left_s)
        for tag, result in results:
            for following in then(tag, result):
                waiting.add(following[1].queue, following)
        return results

    def is_over() -> bool:
        return deadline is not None and time.monotonic() >= deadline

    try:
        for tag, call in calls:
            while len(waiting) >= MOST_WAITING and not is_over():
                yield from ended()
            if is_over():
                return
            if call.queue in waiting or not begin((tag, call)):
                waiting.add(call.queue, (tag, call))
        while (len(flight) or len(waiting)) and not is_over():
            yield from ended()
    finally:
        flight.close()


def attempt_all(
    client: QueueClient,
    calls: Iterable[tuple[Tag, Call[T]]],
    retry: RetryPolicy,
    failed: Callable[[Exception], None],
    *,
    most: int | None = None,
    within_s: float | None = None,
) -> Iterator[tuple[Tag, T]]:
    """Make calls that may fail without harm. Yield their results. Never yields or raises an error.

    failed: called once, with the first error. If access to a queue is denied, the remaining calls
    to this queue are dropped, because they would fail in the same way.
    """
    denied: set[QueueRef] = set()
    has_failed = False
    with_queue = (((tag, call.queue), call) for tag, call in calls)

    def tell(error: Exception) -> None:
        nonlocal has_failed
        if not has_failed:
            has_failed = True
            failed(error)

    try:
        with closing(
            results_of(client, with_queue, retry, most=most, within_s=within_s, without=denied)
        ) as results:
            for (tag, queue), result in results:
                if not isinstance(result, Exception):
                    yield tag, result
                    continue
                if isinstance(result, AccessDenied):
                    denied.add(queue)
                tell(result)
    except Exception as error:  # noqa: BLE001 (nothing depends on it)
        tell(error)


def answers_of(
    client: QueueClient,
    calls: Iterable[tuple[QueueRef, Call[T]]],
    vanished: Callable[[QueueRef], bool],
) -> Iterator[tuple[QueueRef, T]]:
    """Make one call to each queue. Yield the results in the order in which they arrive. Raises the
    first error.

    vanished: called for a queue that does not exist; returns True to leave out the queue, or False
    to raise the error.
    """
    with closing(results_of(client, calls, CONTROL)) as results:
        for queue, result in results:
            if isinstance(result, QueueNotFound) and vanished(queue):
                continue
            if isinstance(result, Exception):
                raise result
            yield queue, result
