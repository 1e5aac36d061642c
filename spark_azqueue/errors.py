"""Everything that can go wrong, and what an answer of the service means.

    AzQueueError
    ├── InvalidOption        an option is unknown, malformed, missing or clashes with another
    ├── InvalidSchema        the columns asked for, or handed to the sink, do not fit
    ├── InvalidRow           one row cannot be sent as it is
    ├── UndecodableBody      a message's text is not what `messageEncoding` says
    │   └── LostBlob         largeBody=blob: the blob that holds a message's body is not there
    ├── CheckpointMismatch   the checkpoint is from elsewhere, from a newer release, or damaged
    └── ServiceError         the queue service said no, or nothing (has status, code, outcome)
        ├── QueueNotFound
        ├── AccessDenied
        ├── StaleReceipt         onStaleReceipt=fail: a row's pop receipt is not valid any more
        └── ServiceUnavailable   busy or unreachable, and still so after the retries

Every message says what happened, with which value (never a secret), and what to do next.
"""

from __future__ import annotations

import enum
import functools
import logging
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

log = logging.getLogger(__name__)


class Outcome(enum.Enum):
    """What one answer means for the message it was about."""

    OK = "done"
    GONE = "the message does not exist, or somebody else holds it now"
    LOST = "the pop receipt is not valid any more"
    PROBABLY = "refused, but an earlier attempt without an answer has probably done it"
    RETRY = "busy or unreachable: worth another try"
    FATAL = "no retry will help"

    @property
    def refused(self) -> bool:
        """True where the service says that this receipt is dead (it says so in two ways)."""
        return self in (Outcome.GONE, Outcome.LOST)


class AzQueueError(Exception):
    """Base of all errors raised by spark_azqueue."""


class InvalidOption(AzQueueError, ValueError):  # noqa: N818
    """An option is unknown, malformed, missing, or clashes with another. Nothing was sent."""


class InvalidSchema(AzQueueError, ValueError):  # noqa: N818
    """The requested or supplied columns do not fit. Nothing was sent."""


class InvalidRow(AzQueueError, ValueError):  # noqa: N818
    """A row cannot be sent as it is: no body, too large, a character the service refuses…"""


class UndecodableBody(AzQueueError, ValueError):  # noqa: N818
    """The text of a message does not decode as `messageEncoding` and `bodyType` say."""


class LostBlob(UndecodableBody):
    """A message refers to a blob that does not exist (any more)."""


class CheckpointMismatch(AzQueueError):  # noqa: N818
    """An offset in the checkpoint is of another account, of a newer release, or damaged."""


class ServiceError(AzQueueError):
    """The service refused a request or could not be reached.

    status: HTTP status, or None if no answer came (or none that can be read).
    code: the service's error code, or "".
    retry_after: seconds the service asks to wait. date: the answer's Date header.
    sent: False if not a byte of the request was sent.
    unanswered: an attempt before this one may have taken effect (see `may_have_taken_effect`), and
    no answer said that it did. So a receipt that is refused now may have been good.
    """

    unanswered: bool = False

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        code: str = "",
        outcome: Outcome = Outcome.FATAL,
        retry_after: float | None = None,
        date: str | None = None,
        sent: bool = True,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.outcome = outcome
        self.retry_after = retry_after
        self.date = date
        self.sent = sent

    @property
    def may_have_taken_effect(self) -> bool:
        """True if this attempt, or one before it, may have taken effect although it failed."""
        return self.unanswered or may_have_taken_effect(self.status, sent=self.sent)


class QueueNotFound(ServiceError):  # noqa: N818
    """The queue does not exist (or is being deleted)."""


class AccessDenied(ServiceError):  # noqa: N818
    """The credential is not accepted, or may not do this."""


class StaleReceipt(ServiceError):  # noqa: N818
    """The pop receipt of a row to update or delete is not valid any more (onStaleReceipt=fail)."""


class ServiceUnavailable(ServiceError):  # noqa: N818
    """The service was busy or unreachable, and still was when the retries were used up."""


# The time ran out, something failed inside, or a gateway got no good answer. 429 and 503 are not
# among them: the service turned the request away before it did anything.
_EFFECT_UNKNOWN = frozenset({408, 500, 502, 504})


def may_have_taken_effect(status: int | None, *, sent: bool = True) -> bool:
    """Say whether a request that did not succeed may have taken effect. The only place that does.

    status: HTTP status, None if no answer came; 2xx for an answer that could not be read.
    sent: False if not a byte of the request was sent.
    """
    if status is None:
        return sent
    return 200 <= status < 300 or status in _EFFECT_UNKNOWN


def told_plainly(method: F) -> F:
    """Let our own errors leave `method` without the frames below it; those go to the debug log.

    Spark prints the whole traceback into its own error. Ours say in words what happened and what
    to do, and should not have to be looked for.
    """

    @functools.wraps(method)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        try:
            return method(*args, **kwargs)
        except AzQueueError as error:
            log.debug("in %s", method.__qualname__, exc_info=True)
            raise error.with_traceback(None) from None

    return wrapped  # type: ignore[return-value]
