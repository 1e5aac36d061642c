"""Puts texts into a queue as one transaction: each exactly once, or none. Needs no Spark."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import chain
from threading import Event

from spark_azqueue.errors import AzQueueError, InvalidOption, TransactionUnknown
from spark_azqueue.errors.conditions import Condition
from spark_azqueue.options.sink_config import SinkConfig
from spark_azqueue.sink.columns import SinkColumns
from spark_azqueue.sink.row_errors import requests
from spark_azqueue.sink.sender import Sender
from spark_azqueue.sink.transaction.commit import Committed, Transactions
from spark_azqueue.sink.transaction.listing import Step
from spark_azqueue.sink.transaction.task import Writer

from .scan import End, ScanCounts
from .sending import Groups, Outgoing
from .transfer import TransferResult

_DIGEST_BYTES = 16


@dataclass
class OnceSending:
    """Writes one transaction with these settings. Call `run` only once.

    stop: event that ends the run. If it is set before all messages are prepared, no message becomes
    visible.
    """

    config: SinkConfig
    tally: ScanCounts
    stop: Event
    said: list[str] = field(default_factory=list, init=False)
    """Sentences for the report."""
    again: str = field(default="", init=False)
    """Text that says what to do if the run did not finish."""
    is_before: bool = field(default=False, init=False)
    """True if an earlier run has recorded this transaction."""
    _texts: hashlib.blake2b = field(init=False)

    def __post_init__(self) -> None:
        self._texts = hashlib.blake2b(digest_size=_DIGEST_BYTES)

    @property
    def version(self) -> int | None:
        """The transaction number of the run."""
        return self.config.transaction.version if self.config.transaction else None

    def run(self, groups: Groups) -> TransferResult:
        """Send the messages, unless the log already has this transaction. An error is returned in
        the result.
        """
        why, error = End.DONE, None
        with closing(Transactions(self.config)) as transactions:
            try:
                self._send(transactions, groups)
            except AzQueueError as raised:
                why, error = End.FAILED, raised
            except KeyboardInterrupt:
                why = End.INTERRUPTED
            self.tally.done += transactions.shown.shown if why is not End.DONE else 0
            self.tally.left_hidden += transactions.left
            if not isinstance(error, (InvalidOption, TransactionUnknown)):
                self.again = "Repeat it with the same --txn-version."
                if transactions.may_be_recorded:
                    self.again += (
                        " The transaction is recorded, or may be: at least as many as are counted"
                        " are visible, and all of them are then."
                    )
        return TransferResult(self.tally, why, error)

    def _send(self, transactions: Transactions, groups: Groups) -> None:
        plan, writer, rows = transactions.plan(), Writer(), self._rows(groups)
        if plan.is_recorded(writer):
            prepared = writer.passed_over(sum(1 for _ in rows), plan.log)
        else:
            first = next(rows, None)
            if first is None:
                self.said.append(
                    f"Nothing was recorded, since there is nothing: --txn-version {self.version} is"
                    " still free."
                )
                return
            sender = Sender(self.config)
            sent = sender.send(requests(chain([first], rows), SinkColumns(body=0), self.config))
            done = sent.done + sent.set_aside
            prepared = writer.prepared(done, sender.hidden, sender.abandoned, plan.log)
        prepared = replace(prepared, texts=self._texts.hexdigest())
        committed = transactions.commit(plan, [prepared])
        self.said.append(f"{committed.in_words()}.")
        self.is_before = committed.step is not Step.WRITE
        if self.is_before:
            self._check_same(committed)
        self.tally.done = 0 if self.is_before else committed.rows

    def _rows(self, groups: Groups) -> Iterator[tuple[str]]:
        """Yield the texts as rows. Raises KeyboardInterrupt when `stop` is set."""
        for group in groups:
            for each in group:
                if self.stop.is_set():
                    raise KeyboardInterrupt
                self._note(each)
                yield (each.text,)
        if self.stop.is_set():  # the groups may have ended because of `stop`
            raise KeyboardInterrupt

    def _note(self, each: Outgoing) -> None:
        """Add the user's lines to the digest of the texts. For a pack, add its rows, not the pack.

        Which rows share a pack depends on the speed of the input, so packs may differ between runs.
        """
        kind, texts = (b"", (each.text,)) if each.rows is None else (b"row ", each.rows)
        for text in texts:
            given = text.encode("utf-8", "surrogatepass")
            self._texts.update(b"%b%d\n%b" % (kind, len(given), given))

    def _check_same(self, committed: Committed) -> None:
        """Raise InvalidOption unless the run that was recorded is known to have sent exactly these
        messages.
        """
        if committed.discarded:
            why = (
                f"with {committed.rows:,} messages, of which `finish --discard` has deleted"
                f" {committed.discarded:,}"
            )
        elif committed.step is Step.OVER:
            why = "or passed over, and a higher one since: whether with these texts is not known"
        elif committed.is_same is None:
            why = "and whether with these texts is not known: its record has no digest of them"
        elif not committed.is_same:
            why = f"with {committed.rows:,} messages, and other texts than these"
        else:
            return
        raise InvalidOption(
            f"--txn-version {self.version} was recorded before, {why}. None of these"
            f" {committed.given:,} was sent by this run. To send them, take a higher number",
            condition=Condition.INVALID_TRANSACTION_OPTION,
        )
