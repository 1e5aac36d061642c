"""Runs many calls, as many at once as the limits of their queues allow, and gives their results."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from typing import TypeVar

from spark_azqueue.errors import QueueNotFound

from ..lanes import FairQueue
from ..messages import QueueRef
from ..retry import CONTROL, RetryPolicy
from .calls import Call
from .client import QueueClient
from .transport import InFlight

T = TypeVar("T")
Tag = TypeVar("Tag")

MOST_WAITING = 32
"""How many calls may wait for the limits of their queues, while calls to others begin."""


def results_of(
    client: QueueClient,
    calls: Iterable[tuple[Tag, Call[T]]],
    retry: RetryPolicy,
    *,
    most: int | None = None,
    within_s: float | None = None,
) -> Generator[tuple[Tag, T | Exception], None, None]:
    """Yield each call's tag with its result or its error, in the order in which they end.

    The calls begin about in their order. most: how many at once; None: as the limits say. within_s:
    no call begins later than this, and the generator ends. If it is closed early, it is unknown
    whether calls under way took effect.
    """
    deadline = None if within_s is None else time.monotonic() + within_s
    waiting: FairQueue[QueueRef, tuple[Tag, Call[T]]] = FairQueue()
    flight: InFlight[Tag, T] = client.in_flight()

    def begin(tagged: tuple[Tag, Call[T]]) -> bool:
        tag, call = tagged
        if most is not None:
            if len(flight) >= most:
                return False
            flight.begin(tag, call, retry)
            return True
        return flight.try_begin(tag, call, retry)

    def ended() -> list[tuple[Tag, T | Exception]]:
        waiting.begin(begin)
        left_s = None if deadline is None else max(0.0, deadline - time.monotonic())
        return flight.ended(left_s)

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


def answers_of(
    client: QueueClient,
    calls: Iterable[tuple[QueueRef, Call[T]]],
    vanished: Callable[[QueueRef], bool],
) -> Iterator[tuple[QueueRef, T]]:
    """Yield what each queue answers, in the order in which that comes. Raises the first error.

    vanished: told of a queue that does not exist; true if it is left out.
    """
    with closing(results_of(client, calls, CONTROL)) as results:
        for queue, result in results:
            if isinstance(result, QueueNotFound) and vanished(queue):
                continue
            if isinstance(result, Exception):
                raise result
            yield queue, result
