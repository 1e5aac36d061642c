"""A service of which some queues are at their limit."""

from __future__ import annotations

from typing import Any

from doubles import OneByOne, OneByOneFlight

from spark_azqueue.service.messages import QueueRef
from spark_azqueue.service.retry import RetryPolicy
from spark_azqueue.service.wire.calls import Call


class Limited(OneByOne):
    """`full`: queues that admit nothing now. They are cleared when nothing else is under way.

    `begun`: the calls in their order.
    """

    def __init__(self, queue: Any, *full: QueueRef) -> None:
        super().__init__(queue)
        self.full = set(full)
        self.begun: list[Call[Any]] = []
        self.most_under_way = 0
        self.refused = 0

    def in_flight(self) -> _Limited:
        return _Limited(self)


class _Limited(OneByOneFlight):
    def __init__(self, service: Limited) -> None:
        super().__init__(service.queue)
        self._service = service

    def begin(
        self,
        tag: Any,
        call: Call[Any],
        retry: RetryPolicy | None = None,
        within_s: float | None = None,
    ) -> None:
        self._service.begun.append(call)
        super().begin(tag, call, retry, within_s)
        self._service.most_under_way = max(self._service.most_under_way, len(self))

    def try_begin(self, tag: Any, call: Call[Any], retry: RetryPolicy | None = None) -> bool:
        if call.queue in self._service.full:
            self._service.refused += 1
            return False
        self.begin(tag, call, retry)
        return True

    def ended(self, timeout_s: float | None = None) -> list[tuple[Any, Any]]:
        results = super().ended(timeout_s)
        if not results:
            self._service.full.clear()
        return results
