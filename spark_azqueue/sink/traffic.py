"""What a task cost: bytes that were taken, and requests that had to be repeated."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from spark_azqueue.errors import ServiceError, may_have_taken_effect
from spark_azqueue.service.answers import THROTTLED
from spark_azqueue.service.encoding import utf8_size

from .requests import DeleteRow, RowRequest


@dataclass(frozen=True, slots=True)
class Traffic:
    """Of one task, or of several added together.

    bytes: of the bodies that the service took, as they are stored. retries: requests that were
    repeated. throttled: of these, after the service had answered 503 or 429.
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
        """Count an attempt that failed for the last time, or is repeated. Thread-safe."""
        if may_have_taken_effect(error.status, sent=error.sent):
            self.unanswered_more(1)

    def unanswered_more(self, count: int) -> None:
        """Count attempts whose answers nobody waits for any more. Thread-safe."""
        with self._lock:
            self._unanswered += count

    @property
    def unanswered(self) -> int:
        """How many attempts may have taken effect although no answer said so."""
        return self._unanswered

    def taken(self, request: RowRequest) -> None:
        """Count the body of a row that the service took. Call it in one thread only."""
        self._bytes += _stored_bytes(request)

    def total(self) -> Traffic:
        """The traffic so far."""
        return Traffic(self._bytes, self._retries, self._throttled)


def _stored_bytes(request: RowRequest) -> int:
    if request.large is not None:
        return len(request.large.data)
    if isinstance(request, DeleteRow) or request.text is None:
        return 0
    return utf8_size(request.text)
