"""Sends what rows ask for, several requests at once, and returns when every one is answered.

Rows are checked ahead of sending, so that bad input stops a task before anything of it is sent (as
far as a bounded look ahead reaches). Ring: edge.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass

from .config import SinkConfig
from .errors import AzQueueError, Outcome, ServiceError, StaleReceipt
from .options import OnStaleReceipt, Operation
from .outgoing import Enqueue, Request
from .performing import Performer
from .transport import Transport
from .workers import Workers

log = logging.getLogger(__name__)

LOOK_AHEAD_BYTES = 32 * 2**20
"""How many bytes of a task are checked, and held, before its first message is sent."""

_NAMED_AT_MOST = 5


@dataclass(frozen=True, slots=True)
class Sent:
    """What became of a task's rows: done, and refused for a stale receipt (and left at that)."""

    done: int = 0
    stale: int = 0


class Sender:
    """Sends the rows of one task; good for one `send`."""

    def __init__(self, config: SinkConfig) -> None:
        self._config = config
        self._transport = Transport(config.account, config.send_parallelism)
        self._performer = Performer(config, self._transport)
        self._workers = Workers(config.send_parallelism, "send")
        self._under_way: dict[Future[Outcome], Request] = {}
        self._bytes_under_way = 0
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
                future = self._workers.submit(self._performer.perform, request)
                self._under_way[future] = request
                self._bytes_under_way += request.size
            while self._under_way:
                self._settle()
        except AzQueueError as error:
            self._break_off()
            raise self._with_count(error) from error
        finally:  # Spark's worker process lives on for other tasks
            self._break_off()
            self._workers.close()
            self._transport.close()
            self._performer.close()
        if self._stale:
            self._tell_of_stale()
        return Sent(self._done, len(self._stale))

    @property
    def _full(self) -> bool:
        return len(self._under_way) >= 2 * self._config.send_parallelism or (
            self._bytes_under_way > LOOK_AHEAD_BYTES
        )

    def _settle(self) -> None:
        done, _ = wait(self._under_way, return_when=FIRST_COMPLETED)
        for future in done:
            request = self._under_way.pop(future)
            self._bytes_under_way -= request.size
            error = future.exception()
            if isinstance(error, ServiceError):
                raise _of_row(error, request.row) from error
            if error:
                raise error
            self._answered(request, future.result())

    def _answered(self, request: Request, outcome: Outcome) -> None:
        if outcome is Outcome.OK:
            self._done += 1
            return
        self._stale.append(request)
        if self._config.on_stale_receipt is OnStaleReceipt.FAIL:
            raise _stale(request, outcome)

    def _break_off(self) -> None:
        """Begin nothing more, and wait for what has begun."""
        for future in self._under_way:
            future.cancel()
        done, _ = wait(self._under_way)
        self._under_way.clear()
        for future in done:
            if not future.cancelled() and future.exception() is None:
                self._done += future.result() is Outcome.OK

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
