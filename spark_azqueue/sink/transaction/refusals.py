"""What a transaction and its log refuse: the sentences. `what`: the transaction, in words."""

from __future__ import annotations

import json
from collections.abc import Collection

from spark_azqueue.errors import (
    LogConflict,
    TransactionConflict,
    TransactionExpired,
    TransactionUnknown,
)
from spark_azqueue.errors.conditions import Condition

from .names import Transaction


def gap_below(gap: str) -> TransactionUnknown:
    """The log does not know the batch before. gap: what it knows, a sentence."""
    return TransactionUnknown(
        f"{gap} Nothing was sent. If the last batch was written in whole, or may be"
        " there twice, set failOnDataLoss=false for one start; else name or restore the"
        " right folder"
    )


def recorded_by_another(where: str, number: int, start: int) -> TransactionConflict:
    """Another run recorded this batch, beside a run that began when `start` was the newest."""
    return TransactionConflict(
        f"batch {number} of this query is in the transaction log {where} already, and"
        f" this run did not write it. When the run began, batch {start} was the newest: so"
        " another process writes with the same id. What this run put for the batch is not"
        " visible. If it is an earlier process of this query, end it and start the query"
        " again; if it is a query with a copied checkpoint, that needs a 'transactionLog'"
        " of its own"
    )


def overtaken(where: str, number: int) -> TransactionConflict:
    """A higher number was recorded while this one was written."""
    return TransactionConflict(
        f"a higher number than {number} was recorded in {where} while"
        " this transaction was written, so this process shows no more of it: another"
        " process of this query, or of this txnAppId, has gone on. Is the same job started"
        " twice? A repeated df.write says whether its number was written"
    )


def record_gone(where: str, transaction: Transaction) -> TransactionConflict:
    """The tasks put nothing since there was a record, and there is none any more."""
    return TransactionConflict(
        f"{transaction} was recorded in {where} when the tasks began, so they put"
        " nothing, and its record is gone: was it discarded? Start again"
    )


def emptied(where: str) -> TransactionUnknown:
    """The log is not the one that was there when the write began."""
    return TransactionUnknown(
        f"the transaction log {where} was emptied or replaced while this transaction"
        " was written: what the log knew is gone, so nothing is shown. Restore the folder, or"
        " name another one"
    )


def batch_not_known(where: str, number: int, newest: int) -> TransactionUnknown:
    """A batch of a stream lies below the newest record, which does not say that it was written."""
    return TransactionUnknown(
        f"batch {newest} of this query is recorded in the transaction"
        f" log {where}, and that record does not say that batch {number}, at which the"
        " query is, was ever written. Nothing was sent. Does somebody else write into the"
        " folder? Restore it, or name another one. If the checkpoint was rolled back, and"
        " the batch was written in whole, set failOnDataLoss=false until the query is"
        " behind that record"
    )


def version_not_known(
    where: str, app_id: str | None, number: int, newest: int
) -> TransactionUnknown:
    """A txnVersion lies below the newest one, and is not known to be written in whole."""
    return TransactionUnknown(
        f"txnVersion {number} of txnAppId {json.dumps(app_id)} is not known to be written:"
        f" in {where}, {newest} is the newest, and numbers have to grow. Nothing was sent. To write"
        " these rows, take a number above that. If this number was begun before, see first what is"
        " visible or still hidden of it (python -m spark_azqueue finish). To pass them over, set"
        " failOnDataLoss=false for one start",
        condition=Condition.TRANSACTION_NOT_WRITTEN,
    )


def foreign_queues(where: str, what: str, names: Collection[str]) -> LogConflict:
    """A record has messages of queues that the options do not name."""
    return LogConflict(
        f"{what} in the transaction log {where} has messages of the queues"
        f" {names}, which the options 'queue' and 'rowErrorQueue' do not name: nothing of"
        " it is shown. If the options were changed, set them back for one start, or run"
        " python -m spark_azqueue finish with --queue; if not, see who else writes there",
        condition=Condition.TRANSACTION_OTHER_QUEUE,
    )


def too_little_time(what: str, left_s: int, rows: int, needed_s: int) -> TransactionExpired:
    """Messages may expire before all of them are shown."""
    return TransactionExpired(
        f"{what}: its first message expires in {left_s:,} s, and to show all"
        f" {rows:,} may take {needed_s:,} s, so nothing was recorded and nothing is"
        " visible. Raise 'timeToLive' (7 days at most), or write smaller batches"
    )


def expired_unseen(what: str, expired: int, rows: int, queues: str) -> TransactionExpired:
    """Messages expired before they were known to be visible. queues: where, and how many."""
    return TransactionExpired(
        f"{what}: up to {expired:,} of {rows:,} messages expired before they"
        f" were known to be visible, in {queues}: it took too long from the"
        " put to a start that showed them. Raise 'timeToLive' (7 days at most). To go on without"
        " them, set failOnDataLoss=false for one start"
    )
