"""onFailure=retract: deletes again what a write that failed had put."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from spark_azqueue.errors import Outcome
from spark_azqueue.service.messages import MOST_IN_A_BATCH, Lease, QueueRef
from spark_azqueue.service.queues.calls import Delete
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.service.queues.flow import attempt_all
from spark_azqueue.service.retry import SETTLE

log = logging.getLogger(__name__)

WITHIN_S = 60.0
"""No delete of a retraction begins later than this."""

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


@dataclass(slots=True)
class Retracted:
    """Messages that were put: deleted again; taken by a consumer since; left in their queues.

    unknown: how many more may be in their queues, or a consumer has: of lost answers to puts, and
    of deletes that were refused after a lost answer.
    """

    deleted: int = 0
    taken: int = 0
    left: int = 0
    unknown: int = 0


def in_words(found: Retracted) -> str:
    """What happened to the messages, in a sentence for an error or the log."""
    more = ""
    if found.unknown:
        more = f" Up to {found.unknown} more may be in the queues: so many requests had no answer."
    return (
        f"Messages that were put: {found.deleted} deleted again, {found.taken} dequeued by a"
        f" consumer before, {found.left} left (onFailure=retract).{more}"
    )


def retract(
    client: QueueClient, receipts: Sequence[Receipts], parallelism: int, within_s: float = WITHIN_S
) -> Retracted:
    """Delete these messages by their receipts, `parallelism` at once. Never raises an Exception.

    A receipt is void once a consumer has dequeued the message, or a program updated it. Messages
    are left if their deletes fail, or do not end within the time; a warning in the log says why.
    """
    found = Retracted(
        left=sum(each.beyond for each in receipts), unknown=sum(each.unknown for each in receipts)
    )
    wanted = [lease for each in receipts for lease in each.leases()]
    calls = ((lease, Delete(lease)) for lease in wanted)
    answers = attempt_all(client, calls, SETTLE, _warn, most=parallelism, within_s=within_s)
    for _, outcome in answers:
        is_deleted = outcome in (Outcome.OK, Outcome.PROBABLY)
        found.deleted += is_deleted
        found.taken += not is_deleted
        found.unknown += outcome is Outcome.PROBABLY  # or a consumer has it since
    found.left += len(wanted) - found.deleted - found.taken
    return found


def _warn(error: Exception) -> None:
    log.warning("a message that a failed write had put could not be deleted again: %s", error)
