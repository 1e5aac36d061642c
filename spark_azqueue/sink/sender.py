"""Sends requests in parallel, and returns when all requests are answered.

Rows are checked some time before they are sent. So a bad row near the start fails the task before
any row is sent.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Any

from spark_azqueue.errors import AzQueueError, Outcome, QueueNotFound, ServiceError, StaleReceipt
from spark_azqueue.metrics.latency import Latencies
from spark_azqueue.options.sink_config import SinkConfig
from spark_azqueue.service.messages import QueueRef
from spark_azqueue.service.queues.client import InFlight, QueueClient
from spark_azqueue.service.queues.flow import MOST_WAITING, FairQueue
from spark_azqueue.service.retry import CONTROL, SEND
from spark_azqueue.service.workers import Workers

from .large_bodies import LargeBodies, MissingQueues
from .requests import RowRequest
from .row_errors import instead_of
from .tally import Sent, TaskCounts, Traffic, TrafficCounter, of_row, outcome_of
from .transaction.record import Hidden
from .transaction.show import delete_hidden

log = logging.getLogger(__name__)

BUFFER_BYTES = 32 * 2**20
"""Before the first message is sent, this many bytes of a task's rows are checked and kept in
memory."""

_LAST_ANSWERS_S = 5.0
"""Longest wait, in seconds, of a failed task for the answers to its running requests."""

_GLANCE_S = 0.005
"""Longest wait, in seconds, for one kind of request (calls, blobs) while requests of the other kind
are running."""


class Sender:
    """Sends the rows of one task. Call `send` once."""

    def __init__(self, config: SinkConfig, client: QueueClient | None = None) -> None:
        """Keep the parameters; send nothing before `send`. The method `send` also closes the
        client.

        client: client of the account's queues; None to create a client.
        """
        self._config = config
        self._client = client or QueueClient(config.account)
        self._missing = MissingQueues(self._client, allowed=config.create_queue)
        self._traffic = TrafficCounter()
        self._retry = SEND.noting(self._traffic.repeated)
        self._large = LargeBodies(config, self._client, self._missing, self._retry)
        self._workers = Workers(config.fixed_parallelism, "send")
        self._flight: InFlight[RowRequest, Any] = self._client.in_flight()
        # Requests with large bodies that are in progress.
        self._storing: dict[Future[Outcome | Hidden], RowRequest] = {}
        self._waiting: FairQueue[QueueRef, RowRequest] = FairQueue()  # wait because of the limits
        self._bytes_under_way = 0
        self._begun_again: set[int] = set()  # rows to send again, after their queue was created
        self._tally = TaskCounts(config.operation, config.on_stale_receipt)
        self._is_transaction = config.transaction is not None
        self._allowed: set[QueueRef] = set()  # queues for which the right to publish was checked
        self.hidden: list[Hidden] = []
        """Messages that the task has prepared, with transactionLog."""

    @property
    def traffic(self) -> Traffic:
        """Current traffic counts of the task."""
        return self._traffic.total()

    @property
    def latencies(self) -> Latencies:
        """Latencies of the requests of the task that were answered."""
        return self._client.latencies()

    def send(self, requests: Iterable[RowRequest]) -> Sent:
        """Send all requests, and wait for all answers. Returns the counts.

        Raises InvalidRow, ServiceError or (with onStaleReceipt=fail) StaleReceipt. The error's text
        has the number of acknowledged rows. Any other error is raised unchanged. With
        transactionLog, the prepared messages are deleted before an error is raised.
        """
        try:
            for request in _ahead(requests):
                while self._full:
                    self._collect()
                self._tally.begun()
                self._begin(request)
            while self._under_way:
                self._collect()
            return self._tally.total()
        except AzQueueError as error:
            self._break_off()
            raise self._tally.with_count(error, self._taken_back()) from error
        except BaseException:
            self._break_off()
            if taken_back := self._taken_back():
                log.warning("the task failed. %s", taken_back)
            raise
        finally:  # Spark reuses the worker process
            self._workers.close()
            self._flight.close()
            self._client.close()
            self._large.close()

    @property
    def _under_way(self) -> int:
        return len(self._flight) + len(self._storing) + len(self._waiting)

    @property
    def _full(self) -> bool:
        if self._bytes_under_way > BUFFER_BYTES:
            return True
        if self._config.parallelism is not None:
            return self._under_way >= self._config.parallelism
        return (
            len(self._waiting) >= MOST_WAITING
            or len(self._storing) >= self._config.fixed_parallelism
        )

    def _begin(self, request: RowRequest) -> None:
        if self._is_transaction and request.queue not in self._allowed:
            self._check_rights(request.queue)
        self._bytes_under_way += request.size
        if request.large is not None:
            self._storing[self._workers.submit(self._large.perform, request)] = request
        elif self._config.parallelism is not None:
            self._flight.begin(request, request, self._retry)
        elif request.queue in self._waiting or not self._try_begin(request):
            self._waiting.add(request.queue, request)

    def _check_rights(self, queue: QueueRef) -> None:
        """Raise AccessDenied if the credential may not update messages of this queue.

        Some roles can only put messages, which is not enough to publish.
        """
        with contextlib.suppress(
            QueueNotFound
        ):  # the first put creates the queue, or fails with a better error
            CONTROL(self._client.queue(queue).check)
        self._allowed.add(queue)

    def _try_begin(self, request: RowRequest) -> bool:
        return self._flight.try_begin(request, request, self._retry)

    def _collect(self) -> None:
        """Count the available results. If a request is running, wait for a result first. Raises the
        first error.

        If a row gets no result, `TaskCounts.total` raises an error at the end.
        """
        self._waiting.begin(self._try_begin)
        results = self._results()
        while not results and self._under_way:
            self._waiting.begin(self._try_begin)
            results = self._results()
        errors = []
        for request, result in results:
            self._bytes_under_way -= request.size
            try:
                self._answered(request, result)
            except Exception as error:  # noqa: BLE001 (raised below, after the other results are counted)
                errors.append(error)
        if errors:
            raise errors[0]

    def _results(self) -> list[tuple[RowRequest, Any]]:
        """Return the results that are available.

        Waits for a result; if requests of both kinds are running, waits only briefly.
        """
        results: list[tuple[RowRequest, Any]] = []
        if len(self._flight) or self._waiting:
            results += self._flight.ended(_GLANCE_S if self._storing else None)
        if self._storing:
            others = len(self._flight) or self._waiting
            done, _ = wait(self._storing, _GLANCE_S if others else None, FIRST_COMPLETED)
            for future in done:
                results.append((self._storing.pop(future), future.exception() or future.result()))
        return results

    def _answered(self, request: RowRequest, result: Any) -> None:
        if (
            isinstance(result, QueueNotFound)
            and request.row not in self._begun_again
            and self._missing.create_for(request)
        ):
            self._begun_again.add(request.row)
            self._begin(request)
            return
        if isinstance(result, ServiceError):
            self._traffic.failed(result)
            instead = instead_of(request, result, self._config)
            if instead is None:
                raise of_row(result, request) from result
            self._begin(instead)
            return
        if isinstance(result, BaseException):  # for example from a credential, or a cancellation
            raise result
        self._done(request, result)

    def _done(self, request: RowRequest, result: Any) -> None:
        outcome = outcome_of(result)
        if outcome is Outcome.OK:
            self._traffic.taken(request)
            if isinstance(result, Hidden):
                self.hidden.append(result)
        self._tally.answered(request, outcome)

    def _taken_back(self) -> str:
        """Delete the task's prepared messages, with transactionLog.

        Returns a text with the counts; "" without transactionLog. Never raises an Exception.
        """
        if not self._is_transaction:
            return ""
        leases = (each.lease for each in self.hidden)
        deleted, _, left = delete_hidden(self._client, leases, self._config.parallelism)
        left += self._traffic.unanswered
        return f"Messages that were put hidden: {deleted} deleted, {left} left to expire."

    @property
    def abandoned(self) -> int:
        """Number of messages that may have been put, although no answer confirmed the put."""
        return self._traffic.unanswered

    def _break_off(self) -> None:
        """Wait for the running requests, so that the error can contain the number of acknowledged
        rows."""
        for future in self._storing:
            future.cancel()
        wait(self._storing)
        deadline = time.monotonic() + _LAST_ANSWERS_S
        results: list[tuple[RowRequest, Any]] = []
        while len(self._flight) and (left := deadline - time.monotonic()) > 0:
            results += self._flight.ended(left)
        self._traffic.unanswered_more(len(self._flight))
        for future, request in self._storing.items():
            if not future.cancelled():
                results.append((request, future.exception() or future.result()))
        self._storing.clear()
        for request, result in results:
            if isinstance(result, ServiceError):
                self._traffic.failed(result)
            elif not isinstance(result, BaseException):
                with contextlib.suppress(StaleReceipt):  # another error is being raised already
                    self._done(request, result)


def _ahead(requests: Iterable[RowRequest]) -> Iterator[RowRequest]:
    """Yield the same requests, but read up to BUFFER_BYTES in advance.

    A row is checked when its request is read.
    """
    held: deque[RowRequest] = deque()
    size = 0
    for request in requests:
        held.append(request)
        size += request.size
        while size > BUFFER_BYTES:
            size -= held[0].size
            yield held.popleft()
    yield from held
