"""Calls that check a permission. They change nothing.

The service must refuse them. Its error code shows whether the credential has the permission.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import ClassVar

from spark_azqueue.errors import ServiceError
from spark_azqueue.service import fields

from ..answers import CONTRIBUTOR
from ..incoming import Answer
from ..messages import Lease, QueueRef
from .calls import Call, Request, Update


@dataclass(frozen=True, slots=True)
class ProbeUpdate(Call[datetime]):
    """Check the permission to update: try to update a message that cannot exist.

    The service refuses it as unknown (404 or 400) if we may update, and as forbidden (403) if not.
    Returns the service's time.
    """

    queue: QueueRef
    kind: ClassVar[str] = "update"
    doing: ClassVar[str] = "read from"
    needs: ClassVar[str] = CONTRIBUTOR
    by_receipt: ClassVar[bool] = True

    def request(self, now: float) -> Request:
        return Update(nobody(self.queue), 0).request(now)

    def result(self, answer: Answer) -> datetime:
        return moment_of(answer.headers.get("date"))

    def refused(self, error: ServiceError) -> datetime:
        return moment_of(error.date)


def nobody(queue: QueueRef) -> Lease:
    """The lease of a message that cannot exist, for probes of permissions."""
    return Lease(queue, "00000000-0000-0000-0000-000000000000", "AgAAAAMAAAAAAAAAAAAAAAAAAAA=")


def moment_of(http_date: str | None) -> datetime:
    """The service's time, or this machine's if the answer has none."""
    at = fields.moment(http_date or "")
    now = datetime.now(timezone.utc)
    return now if at is None else datetime.fromtimestamp(at, timezone.utc)
