"""onFailure=retract: the receipts of what a task put, by which it can be deleted again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from spark_azqueue.service.messages import MOST_IN_A_BATCH, Lease, QueueRef

RECEIPTS_AT_MOST = MOST_IN_A_BATCH
"""How many receipts a task keeps: as many as the largest micro-batch of a queue has messages.

Each takes about 80 bytes on its way to the driver.
"""


@dataclass(slots=True)
class Receipts:
    """What a task put: message ids and receipts. beyond: messages put, and not among them.

    unknown: requests whose answers were lost. Each may have put one more message.
    """

    by_queue: dict[QueueRef, list[tuple[str, str]]] = field(default_factory=dict)
    beyond: int = 0
    kept: int = 0
    unknown: int = 0

    def add(self, lease: Lease | None) -> None:
        """Keep the receipt of a message that was put. None: the answer had none to be read."""
        if lease is None or self.kept >= RECEIPTS_AT_MOST:
            self.beyond += 1
            return
        self.kept += 1
        named = self.by_queue.setdefault(lease.queue, [])
        named.append((lease.message_id, lease.pop_receipt))

    def leases(self) -> Iterator[Lease]:
        """The messages, each with its receipt."""
        for queue, named in self.by_queue.items():
            for message_id, receipt in named:
                yield Lease(queue, message_id, receipt)
