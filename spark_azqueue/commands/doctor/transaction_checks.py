"""Checks a transaction log: its owner, and prepared messages that are not published yet."""

from __future__ import annotations

from collections.abc import Iterator

from spark_azqueue.errors import AzQueueError
from spark_azqueue.journal.store import LogStore
from spark_azqueue.options.transaction import TransactionConfig
from spark_azqueue.service.account import Account
from spark_azqueue.sink.transaction.inspect import FoundTransaction, TransactionLog, records

from .finding import Finding, advice_on, moment_of

_WRITERS_AT_MOST = 20
"""Maximum number of writers of a log with findings of their own."""


def examine_transactions(
    account: Account, settings: TransactionConfig, store: LogStore | None = None
) -> Iterator[Finding]:
    """Check the log of these options. store: replaces the store that the options name.

    Changes nothing. Never raises: an error becomes a finding.
    """
    log = TransactionLog.of(settings, account, store)
    subject = f"transaction log {log.where}"
    try:
        if not log.identify():
            advice = "if a query has used it before, restore it"
            yield Finding(None, f"{subject} is new: the first write begins it", advice)
            return
        yield Finding(True, f"{subject} belongs to account '{account.name}'")
        for number, each in enumerate(records(log), 1):
            if number <= _WRITERS_AT_MOST or not each.is_finished:
                yield _record(subject, log, each)
    except AzQueueError as error:
        yield Finding(False, f"{subject} cannot be used", advice_on(error))
    finally:
        log.close()


def _record(subject: str, log: TransactionLog, each: FoundTransaction) -> Finding:
    head = each.record.head
    if each.is_finished:
        seconds = log.last_show(head).get("seconds")
        took = "" if seconds is None else f" in {seconds:.1f} s"
        hidden = f"; up to {head.abandoned:,} abandoned" if head.abandoned else ""
        return Finding(
            True, f"{subject}: {each.about} is shown, {head.rows:,} messages{took}{hidden}"
        )
    text = (
        f"{subject}: {each.about}, recorded {moment_of(head.recorded)}, is not known to be shown:"
        f" {head.rows - each.done:,} of {head.rows:,} messages. They expire from"
        f" {moment_of(head.expires)} on"
    )
    if each.is_newest:
        advice = (
            "A write that runs shows them now. Otherwise start its query again, or repeat the write"
            " with the same number, or run python -m spark_azqueue finish"
        )
    else:
        advice = (
            "A higher number is recorded, so they are not shown any more: see what is visible of"
            " it. python -m spark_azqueue finish --discard deletes what is hidden"
        )
    return Finding(None, text, advice)
