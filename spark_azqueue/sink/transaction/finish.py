"""Messages that the newest records of a log still hide: lists, shows or deletes them.

For people. A query that starts again shows its newest record by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass

from spark_azqueue.options.sink_config import SinkConfig
from spark_azqueue.service.messages import Lease
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.service.retry import CONTROL

from .log import Record, TransactionLog, about
from .show import DeleteCounts, Shown, clock_at, delete, show


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest record of a writer. done: so many of its messages need no showing."""

    record: Record
    done: int

    @property
    def is_finished(self) -> bool:
        """True if nothing of it is left to show."""
        return self.done >= self.record.head.rows

    @property
    def about(self) -> str:
        """The transaction in words."""
        return about(self.record.head)


def newest_records(wal: TransactionLog) -> Iterator[Newest]:
    """The newest record of each writer of this log.

    Raises ServiceError, and LogDamaged for one that is not as it was written.
    """
    listing = wal.listing("")
    for transaction in listing.newest_transactions:
        if record := wal.read(transaction):
            yield Newest(record, listing.marked(transaction, record.head.nonce))


def finish(config: SinkConfig, wal: TransactionLog, client: QueueClient, each: Newest) -> Shown:
    """Show what is left of a record, as a start of its query would.

    Returns at once if a higher number was recorded meanwhile. Raises what `show` does.
    """
    head = each.record.head
    first = next(wal.hidden(each.record, each.done))[0].lease.queue
    if wal.listing(head.transaction.key).has_higher(head.transaction):
        return Shown()
    return show(
        client,
        wal,
        each.record,
        clock_at(client, first, CONTROL),
        done=each.done,
        is_ours=False,
        is_strict=config.transaction is None or config.transaction.fail_on_data_loss,
        most=config.send_parallelism,
    )


def discard(
    config: SinkConfig, wal: TransactionLog, client: QueueClient, each: Newest
) -> DeleteCounts:
    """Delete what a record still hides. The transaction then counts as done.

    Deletes come before the mark, so that nothing of it can be shown after it. Raises ServiceError,
    LogDamaged. If some are left, the record stays as it was: run it again.
    """

    def leases() -> Iterator[Lease]:
        for chunk in wal.hidden(each.record, each.done):
            yield from (hidden.lease for hidden in chunk)

    found = delete(client, leases(), config.send_parallelism)
    if not found.left:
        notes = asdict(Shown(before=found.gone)) | {"discarded": found.deleted}
        wal.mark(each.record.head, each.record.head.rows, notes)
    return found
