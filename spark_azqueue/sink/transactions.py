"""Reads the state of a query's transactions from a transaction log, for the listener's metrics.

listener = AzQueueListener.attach(spark, transactions=transaction_reader(options))
"""

from __future__ import annotations

from collections.abc import Mapping

from spark_azqueue.errors import InvalidOption
from spark_azqueue.errors.conditions import Condition
from spark_azqueue.metrics.report import ReadTransaction, TransactionReport
from spark_azqueue.options.parse import sink_config

from .transaction import names
from .transaction.log import TransactionLog
from .transaction.names import Transaction

_WITHIN_S = 5.0
"""Longest wait of a listener for an answer of the log's store, in seconds."""


def transaction_reader(options: Mapping[str, str]) -> ReadTransaction:
    """Return a function that reads the transaction log of these options.

    options: options of the sink, with `transactionLog` and a credential that may list and read the
    log. The function takes a query's id and returns the query's newest transaction, or None. The
    function runs in the listener's process, changes nothing, and times out after some seconds.

    Raises InvalidOption for options without `transactionLog`, and for bad options. The function
    raises ServiceError if the log cannot be read, LogConflict for a log of another account or kind,
    LogDamaged for a damaged log.
    """
    config = sink_config(dict(options))
    settings = config.transaction
    if settings is None:
        raise InvalidOption(
            "these options name no transaction log to read: give those of the sink, with"
            " 'transactionLog'",
            condition=Condition.INVALID_TRANSACTION_OPTION,
        )
    log = TransactionLog.of(settings, config.account, within_s=_WITHIN_S)

    def read(query_id: str) -> TransactionReport | None:
        if not log.uuid and not log.identify():
            return None  # the first write creates the log
        return _newest(log, names.stream_key(query_id))

    return read


def _newest(log: TransactionLog, key: str) -> TransactionReport | None:
    listing = log.listing(key)
    record = log.record(Transaction(key, listing.newest[key])) if listing.newest else None
    if record is None:
        return None
    head = record.head
    marked = listing.marked(head)
    notes = log.last_show(head) if listing.is_finished(head) else {}
    missing = _count(notes, "vanished")
    seconds = notes.get("seconds")
    return TransactionReport(
        published=max(0, marked - missing - _count(notes, "expired") - _count(notes, "discarded")),
        prepared=max(0, head.rows - marked),
        orphaned=head.abandoned,
        missing=missing,
        publish_seconds=None if seconds is None else float(seconds),
    )


def _count(notes: Mapping[str, float], name: str) -> int:
    return int(notes.get(name, 0))
