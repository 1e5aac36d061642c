"""Errors of a transaction and its log. The parameter `what` is a description of the transaction."""

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
    """Error for a log that does not know the previous batch. gap: a sentence about the gap."""
    return TransactionUnknown(
        f"{gap} Nothing was sent. If the last batch was completely written, or may be"
        " duplicated, set failOnDataLoss=false for one start; otherwise name or restore the"
        " right folder"
    )


def recorded_by_another(where: str, number: int, start: int) -> TransactionConflict:
    """Error for a batch that another run recorded after this run began.

    start: the newest batch when this run began.
    """
    return TransactionConflict(
        f"batch {number} of this query is in the transaction log {where} already, and"
        f" this run did not write it. When the run began, batch {start} was the newest: so"
        " another process writes with the same id. This run's messages for the batch are not"
        " visible. If the other process is an earlier run of this query, stop it and start the"
        " query again; if it is a query with a copied checkpoint, that query needs a"
        " 'transactionLog' of its own"
    )


def overtaken(where: str, number: int) -> TransactionConflict:
    """Error for a transaction that cannot be published, because another process has recorded a
    higher number."""
    return TransactionConflict(
        f"a higher number than {number} was recorded in {where} while"
        " this transaction was written, so this process shows no more of its messages: another"
        " process of this query, or of this txnAppId, has continued. Is the same job started"
        " twice? A repeated df.write says whether its number was written"
    )


def record_gone(where: str, transaction: Transaction) -> TransactionConflict:
    """Error for a record that is missing, although it existed when the tasks began.

    The tasks put nothing, because the record existed.
    """
    return TransactionConflict(
        f"{transaction} was recorded in {where} when the tasks began, so they put"
        " nothing, and the record is gone: was it discarded? Start again"
    )


def emptied(where: str) -> TransactionUnknown:
    """Error for a log that was replaced or emptied during the write."""
    return TransactionUnknown(
        f"the transaction log {where} was emptied or replaced while this transaction"
        " was written: what the log knew is gone, so nothing is shown. Restore the folder, or"
        " name another one"
    )


def batch_not_known(where: str, number: int, newest: int) -> TransactionUnknown:
    """Error for a batch of a stream that is older than the newest record and that the newest record
    does not name as written."""
    return TransactionUnknown(
        f"the query is at batch {number}, and the transaction log {where} has a record of the"
        f" later batch {newest}, which does not say that batch {number} was ever written. Nothing"
        " was sent. Does another program write into the folder? Restore the folder, or name"
        " another one. If the checkpoint was rolled back, and the batch was completely written,"
        f" set failOnDataLoss=false until the query has passed batch {newest}"
    )


def version_not_known(
    where: str, app_id: str | None, number: int, newest: int
) -> TransactionUnknown:
    """Error for a txnVersion that is lower than the newest, if it is unknown whether it was
    completely written."""
    return TransactionUnknown(
        f"txnVersion {number} of txnAppId {json.dumps(app_id)} is not known to be written:"
        f" in {where}, {newest} is the newest, and numbers must increase. Nothing was sent. To"
        f" write these rows, use a number above {newest}. If a write with this number was started"
        " before, first check which of its messages are visible or still hidden (python -m"
        " spark_azqueue finish). To skip these rows, set failOnDataLoss=false for one start",
        condition=Condition.TRANSACTION_NOT_WRITTEN,
    )


def foreign_queues(where: str, what: str, names: Collection[str]) -> LogConflict:
    """Error for a record with messages of queues that the options do not name."""
    return LogConflict(
        f"{what} in the transaction log {where} has messages of the queues"
        f" {names}, which the options 'queue' and 'rowErrorQueue' do not name: none of its"
        " messages is shown. If the options were changed, set them back for one start, or run"
        " python -m spark_azqueue finish with --queue; if not, find out who else writes to the log",
        condition=Condition.TRANSACTION_OTHER_QUEUE,
    )


def too_little_time(what: str, left_s: int, rows: int, needed_s: int) -> TransactionExpired:
    """Error for a transaction with messages that may expire before all its messages are
    published."""
    return TransactionExpired(
        f"{what}: its first message expires in {left_s:,} s, and showing all"
        f" {rows:,} messages may take {needed_s:,} s, so nothing was recorded and nothing is"
        " visible. Raise 'timeToLive' (at most 7 days), or write smaller batches"
    )


def expired_unseen(what: str, expired: int, rows: int, queues: str) -> TransactionExpired:
    """Error for messages that expired before it was known that they are visible.

    queues: names of the queues, with the number of expired messages.
    """
    return TransactionExpired(
        f"{what}: up to {expired:,} of {rows:,} messages expired before they"
        f" were known to be visible, in {queues}: too much time passed between the"
        " put and the start that showed them. Raise 'timeToLive' (at most 7 days). To continue"
        " without them, set failOnDataLoss=false for one start"
    )
