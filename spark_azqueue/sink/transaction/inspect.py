"""Prepared messages of a transaction log, and the user's actions on them: publish or delete."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass

from spark_azqueue.options.sink_config import SinkConfig
from spark_azqueue.service.messages import Lease
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.service.retry import CONTROL

from .log import TransactionLog as TransactionLog
from .log import TransactionRecord, about
from .show import DeleteCounts, Shown, clock_at, delete_hidden, show


@dataclass(frozen=True, slots=True)
class FoundTransaction:
    """A record, and how far it is published.

    done: number of messages of the record that need no publishing any more. is_finished: the record
    has its final mark. is_newest: False if the writer has recorded a higher number; the record is
    then not published, because it may come from a put that took effect late.
    """

    record: TransactionRecord
    done: int
    is_finished: bool
    is_newest: bool

    @property
    def about(self) -> str:
        """Description of the transaction, for messages."""
        return about(self.record.head)


def records(wal: TransactionLog) -> Iterator[FoundTransaction]:
    """Yield the newest record of each writer of this log, and older records that are not finished.

    Raises ServiceError, and LogDamaged for a damaged record.
    """
    listing = wal.listing("")
    for transaction in listing.newest_transactions:
        newest = wal.record(transaction)
        if newest is None:
            continue
        marked, is_finished = listing.marked(newest.head), listing.is_finished(newest.head)
        yield FoundTransaction(newest, marked, is_finished, is_newest=True)
        for older in map(wal.record, listing.not_written(newest.head)):
            if older and not listing.is_finished(older.head):
                yield FoundTransaction(
                    older, listing.marked(older.head), is_finished=False, is_newest=False
                )


def finish(
    config: SinkConfig, wal: TransactionLog, client: QueueClient, each: FoundTransaction
) -> Shown:
    """Publish the remaining messages of a record, as the next start of the query would.

    Returns at once if a higher number was recorded in the meantime. Raises the errors of `show`.
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
        most=config.parallelism,
    )


def discard(
    config: SinkConfig, wal: TransactionLog, client: QueueClient, each: FoundTransaction
) -> DeleteCounts:
    """Delete the messages of a record that are not published. After that, the transaction counts as
    done.

    All messages are checked before the first delete. The mark is written after the deletes, so that
    no message can be published later. Raises ServiceError, LogDamaged, LogConflict. If a delete
    fails, the mark is not written, and the user must run the command again.
    """
    wal.check(each.record, each.done)

    def leases() -> Iterator[Lease]:
        for chunk in wal.hidden(each.record, each.done):
            yield from (hidden.lease for hidden in chunk)

    found = delete_hidden(client, leases(), config.parallelism)
    if not found.left:
        notes = asdict(Shown(before=found.gone)) | {"discarded": found.deleted}
        wal.mark(each.record.head, each.record.head.rows, notes)
    return found
