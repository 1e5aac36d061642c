"""Counts the rows of a task by the results of calls, and makes errors and warnings about rows.

The task fails if a row was sent and has no answer.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass

from spark_azqueue.errors import (
    AzQueueError,
    Outcome,
    ServiceError,
    StaleReceipt,
    may_have_taken_effect,
)
from spark_azqueue.options.choices import OnStaleReceipt, Operation
from spark_azqueue.service.answers import THROTTLED
from spark_azqueue.service.encoding import utf8_size

from .requests import DeleteRow, EnqueueRow, RowRequest
from .transaction.record import Hidden

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Traffic:
    """Traffic of one task, or the sum over several tasks.

    bytes: stored size of the bodies that the service accepted. retries: number of requests that
    were sent again. throttled: number of requests that were sent again after an answer 503 or 429.
    """

    bytes: int = 0
    retries: int = 0
    throttled: int = 0

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(
            self.bytes + other.bytes,
            self.retries + other.retries,
            self.throttled + other.throttled,
        )


class TrafficCounter:
    """Counts the traffic of one task."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bytes = self._retries = self._throttled = self._unanswered = 0

    def repeated(self, error: ServiceError) -> None:
        """Count a request that is sent again after this error. Thread-safe."""
        with self._lock:
            self._retries += 1
            self._throttled += error.status in THROTTLED
        self.failed(error)

    def failed(self, error: ServiceError) -> None:
        """Count a failed try, whether the request is sent again or not. Thread-safe."""
        if may_have_taken_effect(error.status, sent=error.sent):
            self.unanswered_more(1)

    def unanswered_more(self, count: int) -> None:
        """Count requests whose answers the task does not wait for any more. Thread-safe."""
        with self._lock:
            self._unanswered += count

    @property
    def unanswered(self) -> int:
        """Number of requests that may have taken effect, although they got no answer."""
        return self._unanswered

    def taken(self, request: RowRequest) -> None:
        """Count the body of a row that the service accepted. Only one thread may call this
        method."""
        self._bytes += _stored_bytes(request)

    def total(self) -> Traffic:
        """Return the current counts."""
        return Traffic(self._bytes, self._retries, self._throttled)


def _stored_bytes(request: RowRequest) -> int:
    if request.large is not None:
        return len(request.large.data)
    if isinstance(request, DeleteRow) or request.text is None:
        return 0
    return utf8_size(request.text)


_NAMED_AT_MOST = 5


def outcome_of(result: object) -> Outcome:
    """Return the outcome in a call's result.

    The outcome is OK, or GONE or LOST for a stale receipt.

    Raises TypeError for any other result, so that an unknown result never counts as done.
    """
    if result is None or isinstance(result, Hidden):  # result of a put
        return Outcome.OK
    outcome = result[0] if isinstance(result, tuple) else result
    if isinstance(outcome, Outcome) and (outcome is Outcome.OK or outcome.refused):
        return outcome
    raise TypeError(f"a request gave {outcome!r}, which says neither done nor refused")


@dataclass(frozen=True, slots=True)
class Sent:
    """Number of a task's rows by outcome.

    done: acknowledged rows. stale: rows that were refused because of a stale receipt. set_aside:
    rows that were put into the queue of row errors (onRowError=queue).
    """

    done: int = 0
    stale: int = 0
    set_aside: int = 0


class TaskCounts:
    """Counts the rows of one task."""

    def __init__(self, operation: Operation, on_stale_receipt: OnStaleReceipt) -> None:
        self._operation = operation
        self._on_stale_receipt = on_stale_receipt
        self._begun = 0
        self._done = 0
        self._stale = 0
        self._stale_ids: list[str] = []  # ids of the first stale messages
        self._aside = 0
        self._first_aside: EnqueueRow | None = None

    def begun(self) -> None:
        """Count a row that is sent for the first time. Must not be called when a row is sent
        again."""
        self._begun += 1

    def answered(self, request: RowRequest, outcome: Outcome) -> None:
        """Count the answer for a row. outcome: OK, or GONE or LOST for a refused receipt.

        Raises StaleReceipt for a refused receipt with onStaleReceipt=fail.
        """
        if outcome is Outcome.OK:
            if isinstance(request, EnqueueRow) and request.reason:
                self._aside += 1
                self._first_aside = self._first_aside or request
            else:
                self._done += 1
            return
        self._stale += 1
        if len(self._stale_ids) < _NAMED_AT_MOST:
            self._stale_ids.append(_id(request))
        if self._on_stale_receipt is OnStaleReceipt.FAIL:
            raise _stale(request, outcome)

    def total(self) -> Sent:
        """Return the counts. Raises AzQueueError if a row got no answer."""
        answered = self._done + self._stale + self._aside
        if answered != self._begun:
            raise AzQueueError(
                f"{self._begun} rows of this task were sent, and {answered} answers were counted:"
                " spark-azqueue lost count, so the task fails and Spark decides whether to run it"
                " again. Please report this with the task's log"
            )
        if self._stale:
            self._tell_of_stale()
        if self._first_aside:
            log.warning(
                "%d of %d rows of this task cannot be sent and were dead-lettered in '%s', the"
                " first because: %s",
                self._aside,
                self._begun,
                self._first_aside.queue.name,
                self._first_aside.reason,
            )
        return Sent(self._done, self._stale, self._aside)

    def with_count(self, error: AzQueueError, taken_back: str = "") -> AzQueueError:
        """Add the number of acknowledged rows to the text of an error, and return the same error.

        taken_back: text that says how many messages of these rows were deleted again, with
        transactionLog.
        """
        again = ""
        if self._done and not taken_back:
            again = " (a retry of the task sends them again)"
            if self._operation is not Operation.ENQUEUE:
                again = " (for a retry of the task their receipts are stale)"
        text = str(error).rstrip(".")
        count = f"Rows of this task that were acknowledged: {self._done}{again}."
        error.args = (f"{text}. {count} {taken_back}".rstrip(),)
        return error

    def _tell_of_stale(self) -> None:
        log.warning(
            "%d of %d rows of this task had a stale receipt and changed nothing, for example"
            " message %s: %s",
            self._stale,
            self._begun,
            ", ".join(self._stale_ids),
            _WHY_STALE,
        )


_WHY_STALE = (
    "it was deleted, updated, renewed or dequeued again since. A batch that takes longer than half"
    " of visibilityTimeout is renewed, which voids its receipts: set a longer one"
)


def of_row(error: ServiceError, request: RowRequest) -> ServiceError:
    """Return a copy of the error that names the row.

    If the row was sent to the queue of row errors, the copy also contains the reason for this.
    """
    why = request.reason if isinstance(request, EnqueueRow) else ""
    aside = f". It was to be dead-lettered because: {why}" if why else ""
    return type(error)(
        f"row {request.row} of this task was not accepted: {error}{aside}",
        condition=error.condition,
        status=error.status,
        code=error.code,
        outcome=error.outcome,
    )


def _stale(request: RowRequest, outcome: Outcome) -> StaleReceipt:
    return StaleReceipt(
        f"row {request.row} of this task has a stale receipt, for message {_id(request)}:"
        f" {_WHY_STALE}. With onStaleReceipt=ignore such rows are counted and left out",
        outcome=outcome,
    )


def _id(request: RowRequest) -> str:
    return "" if isinstance(request, EnqueueRow) else request.lease.message_id
