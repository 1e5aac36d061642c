"""The errors of this package, and the possible outcomes of a request by pop receipt.

    AzQueueError
    ├── InvalidOption        an option is unknown, malformed, missing or clashes with another
    ├── InvalidSchema        the columns are not the expected columns
    ├── InvalidRow           one row cannot be sent
    ├── UndecodableBody      a message's text does not decode with `messageEncoding`
    │   └── LostBlob         largeBody=blob: the blob that holds a message's body does not exist
    ├── CheckpointMismatch   the checkpoint is for another account, from a newer release, or damaged
    ├── LogConflict          another query uses the folder of the write-ahead log
    │   └── LateSegment      a write of an earlier process appeared late: the next start resumes
    ├── LogDamaged           an object of the write-ahead log was changed
    │   └── LostSegment      a segment of the write-ahead log does not exist
    ├── TransactionConflict  another process writes the same transactions
    ├── TransactionUnknown   the transaction log has no record of an earlier batch or number
    ├── TransactionExpired   messages of a transaction expire before they are visible
    ├── TooManyPoison        too many messages fail: the sink may be the cause
    ├── FunctionFailed       try_apply: the function fails, but not because of single rows
    ├── RowsLost             split_apply: the stored rows are not the rows of the batch
    ├── NotDrained           an availableNow run ended while messages were still invisible
    ├── LoadConflict         another reader of the same load() is running
    └── ServiceError         the service refused or did not answer (has status, code, outcome)
        ├── QueueNotFound
        ├── AccessDenied
        ├── StaleReceipt         onStaleReceipt=fail: a row's pop receipt is no longer valid
        ├── LogUnavailable       the folder of the write-ahead log cannot be used
        └── ServiceUnavailable   busy or unreachable, even after the retries

Every error's text begins with the id of the condition (`conditions.py`). The text says what
happened, with which value (never a secret), and what to do next.
"""

from __future__ import annotations

import enum
import functools
import inspect
import logging
import os
import re
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from spark_azqueue.errors.conditions import Condition

F = TypeVar("F", bound=Callable[..., Any])

log = logging.getLogger(__name__)


class Outcome(enum.Enum):
    """What happened to the message that a request named."""

    OK = "done"
    GONE = "the message does not exist, or another consumer holds it"
    LOST = "the pop receipt is not valid any more"
    PROBABLY = "refused, but an earlier attempt without an answer has probably done it"
    RETRY = "busy or unreachable: worth another try"
    FATAL = "no retry will help"

    @property
    def refused(self) -> bool:
        """True if the service refused the pop receipt (outcomes GONE and LOST)."""
        return self in (Outcome.GONE, Outcome.LOST)


_ID = re.compile(r"\[AZQUEUE_\w+\] ")


class AzQueueError(Exception):
    """Base of all errors raised by spark_azqueue.

    condition: a condition that is more specific than the class's own condition; None for the
    class's own condition, which has the name of the class, such as QUEUE_NOT_FOUND for
    QueueNotFound. `str` shows the condition's id only once, even if the message quotes another
    error.
    """

    condition = Condition.INTERNAL_ERROR

    def __init_subclass__(cls) -> None:
        name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__).upper()
        cls.condition = Condition.__members__.get(name, cls.condition)

    def __init__(self, message: str = "", *, condition: Condition | None = None) -> None:
        super().__init__(message)
        if condition is not None:
            self.condition = condition

    def __str__(self) -> str:
        return f"[{self.condition.id}] {self.sentence}"

    @property
    def sentence(self) -> str:
        """The message without the ids of conditions."""
        return _ID.sub("", super().__str__())


class InvalidOption(AzQueueError, ValueError):  # noqa: N818
    """An option is unknown, malformed, missing, or clashes with another. Nothing was sent."""


class InvalidSchema(AzQueueError, ValueError):  # noqa: N818
    """The columns of the rows, or the requested columns, are not the expected ones. Nothing was
    sent.
    """


class InvalidRow(AzQueueError, ValueError):  # noqa: N818
    """A row cannot be sent, for example because the body is missing, is too large, or has a
    character that the service refuses.
    """


class UndecodableBody(AzQueueError, ValueError):  # noqa: N818
    """The text of a message does not decode with `messageEncoding` and `bodyType`."""


class LostBlob(UndecodableBody):
    """A message refers to a blob that does not exist, or whose size differs from the size in the
    message.
    """


class CheckpointMismatch(AzQueueError):  # noqa: N818
    """An offset in the checkpoint is for another account, from a newer release, or damaged."""


class LogConflict(AzQueueError):  # noqa: N818
    """Another query or account uses the folder of the write-ahead log. Nothing is lost."""


class LateSegment(LogConflict):
    """A write of an earlier process appeared late in the log. Nothing is lost; start again."""


class LogDamaged(AzQueueError):  # noqa: N818
    """An object of the write-ahead log was changed. The source does not overwrite it."""


class LostSegment(LogDamaged):
    """A needed segment of the write-ahead log does not exist."""


class TooManyPoison(AzQueueError):  # noqa: N818
    """Too many messages make their batch fail. The cause may be the data, the code, or an
    unavailable target.
    """


class TransactionConflict(AzQueueError):  # noqa: N818
    """Another process writes the same transactions. Each transaction has only one valid record.

    The other process is another query or job, or an earlier process of this query.
    """


class TransactionUnknown(AzQueueError):  # noqa: N818
    """The transaction log has no record of the previous batch or, for an older number, of this
    number.

    Nothing was sent.
    """


class TransactionExpired(AzQueueError):  # noqa: N818
    """Messages of a transaction have expired, or would expire, before they become visible."""


class FunctionFailed(AzQueueError):  # noqa: N818
    """The function of `try_apply` fails, but not because of single rows. See the parameter `limit`
    of `try_apply`.
    """


class RowsLost(AzQueueError):  # noqa: N818
    """The rows that `split_apply` stored are not the rows of the batch. Nothing was written."""


class NotDrained(AzQueueError):  # noqa: N818
    """An availableNow run would have to wait very long for invisible messages. Nothing is lost."""


class LoadConflict(AzQueueError):  # noqa: N818
    """Another reader of the same load() is running. This reader has not read any messages."""


class ServiceError(AzQueueError):
    """The service refused a request or could not be reached.

    status: HTTP status, or None without a readable answer. code: the service's error code, or "".
    retry_after: number of seconds that the service asks the client to wait. date: the answer's Date
    header. sent: False if no byte of the request was sent. request_id: the service's
    `x-ms-request-id`; without an answer, the client's `x-ms-client-request-id`; "" if there is
    none. Azure's support and StorageQueueLogs find the request by this id. unanswered: True if an
    earlier attempt got no answer, and may have taken effect (see `may_have_taken_effect`). In this
    case, a refused receipt may have been valid when the earlier attempt was sent.
    """

    unanswered: bool = False

    def __init__(
        self,
        message: str,
        *,
        condition: Condition | None = None,
        status: int | None = None,
        code: str = "",
        outcome: Outcome = Outcome.FATAL,
        retry_after: float | None = None,
        date: str | None = None,
        sent: bool = True,
        request_id: str = "",
    ) -> None:
        super().__init__(message, condition=condition)
        self.request_id = request_id
        self.status = status
        self.code = code
        self.outcome = outcome
        self.retry_after = retry_after
        self.date = date
        self.sent = sent

    @property
    def may_have_taken_effect(self) -> bool:
        """True if this attempt or an earlier attempt may have taken effect, although each
        failed."""
        return self.unanswered or may_have_taken_effect(self.status, sent=self.sent)


class QueueNotFound(ServiceError):  # noqa: N818
    """The queue does not exist (or is being deleted)."""


class AccessDenied(ServiceError):  # noqa: N818
    """The credential is not accepted, or lacks the permission."""


class StaleReceipt(ServiceError):  # noqa: N818
    """The pop receipt of a row to update or delete is no longer valid (onStaleReceipt=fail)."""


class LogUnavailable(ServiceError):  # noqa: N818
    """The folder of the write-ahead log, or a file in it, cannot be read or written.

    If `sent` is False, the file does not exist and will not appear.
    """


class ServiceUnavailable(ServiceError):  # noqa: N818
    """The service was busy or unreachable, even after the last retry."""


# Statuses for a timeout, an internal error, and a gateway that got no good answer. 429 and 503 are
# not included, because the service sends them before it carries out a request.
_EFFECT_UNKNOWN = frozenset({408, 500, 502, 504})


def may_have_taken_effect(status: int | None, *, sent: bool = True) -> bool:
    """Return True if a failed request may have taken effect. Only this function decides this.

    status: HTTP status; None if there was no answer, 2xx if the answer was not readable. sent:
    False if no byte of the request was sent.
    """
    if status is None:
        return sent
    return 200 <= status < 300 or status in _EFFECT_UNKNOWN


def short_tracebacks(method: F) -> F:
    """Decorate `method`, so that errors of this package are raised without the package's inner
    stack frames.

    method: a function or a generator function. Spark copies the whole traceback into its own error,
    and users would hardly find the text of this package's error there. So the traceback is written
    only to the debug log.
    """

    def plain(error: AzQueueError) -> AzQueueError:
        log.debug("in %s", method.__qualname__, exc_info=True)
        _hide_sparks_frames()
        return error.with_traceback(None)

    @functools.wraps(method)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        try:
            return method(*args, **kwargs)
        except AzQueueError as error:
            raise plain(error) from None

    @functools.wraps(method)
    def generated(*args: Any, **kwargs: Any) -> Any:
        try:
            return (yield from method(*args, **kwargs))
        except AzQueueError as error:
            raise plain(error) from None

    return generated if inspect.isgeneratorfunction(method) else wrapped  # type: ignore[return-value]


def _hide_sparks_frames() -> None:
    """Make Spark print only the error, without the stack frames of Spark's own worker.

    Spark reads the environment variable that this function sets when it writes the error, just
    before the worker exits. Outside of Spark's workers, this function does nothing.
    """
    main = sys.modules["__main__"].__spec__
    if main is not None and main.name.startswith("pyspark."):
        os.environ.setdefault("SPARK_HIDE_TRACEBACK", "1")
