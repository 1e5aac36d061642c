"""Sends what rows ask for, several requests at once, and returns when every one is answered.

Rows are checked ahead of sending, so that bad input stops a task before anything of it is sent (as
far as a bounded look ahead reaches). Ring: edge.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from typing import Any, TypeGuard

from .azure_queue import AzureQueues, InFlight
from .config import SinkConfig
from .control import create_queue
from .errors import AzQueueError, Outcome, QueueNotFound, ServiceError, StaleReceipt
from .options import OnStaleReceipt, Operation
from .outgoing import Enqueue, Request
from .performing import LargeBodies, call_of, outcome_of
from .retry import SEND
from .workers import Workers

log = logging.getLogger(__name__)

LOOK_AHEAD_BYTES = 32 * 2**20
"""How many bytes of a task are checked, and held, before its first message is sent."""

_NAMED_AT_MOST = 5

_LAST_ANSWERS_S = 5.0
"""How long a task that failed waits for the answers still under way."""

_GLANCE_S = 0.005
"""How long to wait for the one kind of request while the other is under way, too."""


@dataclass(frozen=True, slots=True)
class Sent:
    """What became of a task's rows: done, and refused for a stale receipt (and left at that)."""

    done: int = 0
    stale: int = 0


class Sender:
    """Sends the rows of one task; good for one `send`."""

    def __init__(self, config: SinkConfig) -> None:
        self._config = config
        self._service = AzureQueues(config.account)
        self._large = LargeBodies(config, self._service)
        self._workers = Workers(config.send_parallelism, "send")
        self._flight: InFlight[Request, Any] = self._service.in_flight()
        self._storing: dict[Future[Outcome], Request] = {}  # large bodies under way
        self._bytes_under_way = 0
        self._created: set[str] = set()
        self._begun_again: set[int] = set()  # rows whose queue had to be created first
        self._done = 0
        self._stale: list[Request] = []

    def send(self, requests: Iterable[Request]) -> Sent:
        """Perform all requests; return what became of them, each one answered by the service.

        Raises InvalidRow, ServiceError or (with onStaleReceipt=fail) StaleReceipt, saying how many
        rows were acknowledged all the same.
        """
        try:
            for request in _ahead(requests):
                while self._full:
                    self._settle()
                self._begin(request)
                self._bytes_under_way += request.size
            while self._under_way:
                self._settle()
        except AzQueueError as error:
            self._break_off()
            raise self._with_count(error) from error
        finally:  # Spark's worker process lives on for other tasks
            self._break_off()
            self._workers.close()
            self._flight.close()
            self._service.close()
            self._large.close()
        if self._stale:
            self._tell_of_stale()
        return Sent(self._done, len(self._stale))

    @property
    def _under_way(self) -> int:
        return len(self._flight) + len(self._storing)

    @property
    def _full(self) -> bool:
        return self._under_way >= self._config.send_parallelism or (
            self._bytes_under_way > LOOK_AHEAD_BYTES
        )

    def _begin(self, request: Request) -> None:
        call = call_of(request)
        if call:
            self._flight.begin(request, call, SEND)
        else:
            self._storing[self._workers.submit(self._large.perform, request)] = request

    def _settle(self) -> None:
        """Take the results that came, at least one; raise the first error among them."""
        results = self._results()
        while not results:
            results = self._results()
        errors = []
        for request, result in results:
            self._bytes_under_way -= request.size
            try:
                self._answered(request, result)
            except Exception as error:  # noqa: BLE001 (raised below, when the others are counted)
                errors.append(error)
        if errors:
            raise errors[0]

    def _results(self) -> list[tuple[Request, Any]]:
        """What has ended by now; waits for it, as long as it need not look elsewhere."""
        results: list[tuple[Request, Any]] = []
        if len(self._flight):
            results += self._flight.ended(_GLANCE_S if self._storing else None)
        if self._storing:
            done, _ = wait(self._storing, _GLANCE_S if len(self._flight) else None, FIRST_COMPLETED)
            for future in done:
                request = self._storing.pop(future)
                results.append((request, future.exception() or future.result()))
        return results

    def _answered(self, request: Request, result: Any) -> None:
        if isinstance(result, QueueNotFound) and self._may_create(request):
            if request.queue not in self._created:
                create_queue(self._config.account, request.queue)
                self._created.add(request.queue)
            self._begun_again.add(request.row)
            self._begin(request)
            self._bytes_under_way += request.size
            return
        if isinstance(result, ServiceError):
            raise _of_row(result, request.row) from result
        if isinstance(result, Exception):
            raise result
        outcome = outcome_of(result)
        if outcome is Outcome.OK:
            self._done += 1
            return
        self._stale.append(request)
        if self._config.on_stale_receipt is OnStaleReceipt.FAIL:
            raise _stale(request, outcome)

    def _may_create(self, request: Request) -> TypeGuard[Enqueue]:
        return (
            self._config.create_queue
            and isinstance(request, Enqueue)
            and request.row not in self._begun_again
        )

    def _break_off(self) -> None:
        """Begin nothing more, and wait for what has begun, to tell how much was acknowledged."""
        for future in self._storing:
            future.cancel()
        wait(self._storing)
        deadline = time.monotonic() + _LAST_ANSWERS_S
        while len(self._flight) and (left := deadline - time.monotonic()) > 0:
            for _, result in self._flight.ended(left):
                if not isinstance(result, Exception):
                    self._done += outcome_of(result) is Outcome.OK
        for future in self._storing:
            if not future.cancelled() and future.exception() is None:
                self._done += future.result() is Outcome.OK
        self._storing.clear()

    def _with_count(self, error: AzQueueError) -> AzQueueError:
        again = ""
        if self._done:
            again = " (a retry of the task sends them again)"
            if self._config.operation is not Operation.ENQUEUE:
                again = " (for a retry of the task their receipts are stale)"
        text = str(error).rstrip(".")
        error.args = (f"{text}. Rows of this task that were acknowledged: {self._done}{again}.",)
        return error

    def _tell_of_stale(self) -> None:
        log.warning(
            "%d of %d rows of this task had a stale receipt and changed nothing, for example"
            " message %s: %s",
            len(self._stale),
            self._done + len(self._stale),
            ", ".join(_id(request) for request in self._stale[:_NAMED_AT_MOST]),
            _WHY_STALE,
        )


_WHY_STALE = (
    "it was deleted, updated, renewed or dequeued again since. A batch that takes longer than half"
    " of visibilityTimeout is renewed, which voids its receipts: set a longer one"
)


def _stale(request: Request, outcome: Outcome) -> StaleReceipt:
    return StaleReceipt(
        f"row {request.row} of this task has a stale receipt, for message {_id(request)}:"
        f" {_WHY_STALE}. With onStaleReceipt=ignore such rows are counted and left out",
        outcome=outcome,
    )


def _id(request: Request) -> str:
    return "" if isinstance(request, Enqueue) else request.lease.message_id


def _ahead(requests: Iterable[Request]) -> Iterator[Request]:
    """The same requests, but read (and so checked) up to LOOK_AHEAD_BYTES ahead."""
    held: deque[Request] = deque()
    size = 0
    for request in requests:
        held.append(request)
        size += request.size
        while size > LOOK_AHEAD_BYTES:
            size -= held[0].size
            yield held.popleft()
    yield from held


def _of_row(error: ServiceError, row: int) -> ServiceError:
    return type(error)(
        f"row {row} of this task was not accepted: {error}",
        status=error.status,
        code=error.code,
        outcome=error.outcome,
    )
