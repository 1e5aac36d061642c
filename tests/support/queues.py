"""One queue, with a method for each call: what the package itself does by calls alone."""

from __future__ import annotations

from spark_azqueue.errors import Outcome
from spark_azqueue.service.account import Account
from spark_azqueue.service.messages import Lease, QueueRef
from spark_azqueue.service.queues.calls import Count, Delete, Dequeue, Page, Update
from spark_azqueue.service.queues.client import Queue, QueueClient


class OneQueue(Queue):
    """Every method makes one attempt and raises ServiceError if it fails."""

    def __init__(self, account: Account, ref: QueueRef) -> None:
        super().__init__(QueueClient(account), ref)

    def dequeue(self, count: int, visibility_s: int) -> Page:
        return self._now(Dequeue(self.ref, count, visibility_s))

    def count(self) -> int:
        return self._now(Count(self.ref))

    def delete(self, lease: Lease) -> Outcome:
        return self._now(Delete(lease))

    def update(
        self, lease: Lease, visibility_s: int, text: str | None = None
    ) -> tuple[Outcome, Lease | None]:
        return self._now(Update(lease, visibility_s, text))
