"""Decides from a log's listing whether to write, publish or skip a transaction. Pure functions."""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from . import names
from .names import ObjectKind, RecordName, Transaction
from .record import RecordHead, holds
from .refusals import batch_not_known, gap_below, recorded_by_another


class Step(enum.Enum):
    """Next step for a transaction."""

    WRITE = "no record stands in its way: put its messages, and record them"
    SHOW = "it is recorded, and the newest: show what its record holds"
    OVER = "a higher number is recorded: put nothing"


class PassedOver(enum.Enum):
    """Reason why a transaction is skipped that is older than the newest transaction."""

    STREAM = (
        "they were written before, and the checkpoint was rolled back. (A copied checkpoint has"
        " different rows, and needs a 'transactionLog' of its own)"
    )
    WRITTEN = "this txnVersion was written before. For other rows, take a number above the newest"
    UNKNOWN = "it is not known whether this txnVersion was ever written"


START_EVERY = 50
"""Number of batches after which a long run writes another start object."""

STARTS_KEPT = 2 * START_EVERY
"""Number of batches after which a start object is removed."""


@dataclass(frozen=True)
class Listing:
    """Contents of a log at one moment, by the names of its objects.

    where: place of the log, for messages. listed: the objects. recorded: for each key, the recorded
    numbers, ascending. starts: for each key and run, the newest number when the run began. lost:
    for each key, the highest number that has a mark, if this number and all higher numbers have no
    record.
    """

    where: str
    listed: Sequence[RecordName]
    recorded: Mapping[str, Sequence[int]]
    starts: Mapping[tuple[str, str], int]
    lost: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, where: str, listed: Iterable[str]) -> Listing:
        """Create the listing from names."""
        objects = names.all_parsed(listed)
        recorded = names.records_in(objects)
        lost: dict[str, int] = {}
        for each in objects:
            newest = max(recorded.get(each.key, (-1,))[-1], lost.get(each.key, -1))
            if each.kind is ObjectKind.MARK and each.number > newest:
                lost[each.key] = each.number
        return cls(where, objects, recorded, names.starts_in(objects), lost)

    def for_tasks(self) -> Listing:
        """Return this listing without the values that tasks do not need."""
        newest = {key: numbers[-1:] for key, numbers in self.recorded.items()}
        return replace(self, listed=(), recorded=newest)

    @property
    def newest(self) -> dict[str, int]:
        """Highest recorded number of each key."""
        return {key: numbers[-1] for key, numbers in self.recorded.items()}

    def marked(self, head: RecordHead) -> int:
        """Return the number of messages of this record that need no publishing any more."""
        return names.marked_in(self.listed, head.transaction, head.nonce, head.rows)

    def is_finished(self, head: RecordHead) -> bool:
        """Return True if the record has its final mark: no message is left to publish."""
        return self.marked(head) == head.rows

    def below(self, transaction: Transaction) -> list[Transaction]:
        """Return the recorded transactions of the same key with lower numbers, highest first."""
        key, number = transaction
        return [
            Transaction(key, each) for each in reversed(self.recorded.get(key, ())) if each < number
        ]

    def not_written(self, head: RecordHead) -> list[Transaction]:
        """Return the recorded transactions with lower numbers, if this record does not name them as
        written.

        If this record names a number as written, but the number's record is unfinished, the record
        comes from a put that took effect late.
        """
        return [
            each for each in self.below(head.transaction) if not holds(head.written, each.number)
        ]

    def outlived_by(self, head: RecordHead, finished: Collection[int]) -> list[str]:
        """Return the names of objects that are not needed after this record is published. Heads
        come first.

        finished: further lower numbers whose records are finished, besides the numbers that this
        record names as written. Objects of other numbers are kept. Parts without a record are also
        kept, because a put of their record may still take effect.
        """
        key, number = head.transaction
        over = []
        for found in self.listed:
            if found.key != key or found.number > number:
                continue
            if found.kind is ObjectKind.START:
                is_over = found.number < number - STARTS_KEPT
            elif found.number < number:
                is_over = found.number in finished or holds(head.written, found.number)
            else:  # objects of an attempt that did not put the record
                is_over = found.kind is not ObjectKind.RECORD and found.tag != head.nonce
            if is_over:
                over.append((found.kind is not ObjectKind.RECORD, found.name))
        return [name for _, name in sorted(over)]

    def newest_of(self, key: str) -> int:
        """Return the highest number of this key, or -1 if the key has no number."""
        return max(self.recorded.get(key, ()), default=-1)

    @property
    def newest_transactions(self) -> list[Transaction]:
        """Return, for each key, the transaction with the highest number."""
        return [Transaction(*each) for each in sorted(self.newest.items())]

    def start(self, transaction: Transaction, run: str) -> int | None:
        """Return the number that was the newest when this run began; None if the run has no
        transaction yet."""
        return self.starts.get((transaction.key, run))

    def needs_start(self, transaction: Transaction, run: str) -> bool:
        """Return True if the run has no start object, or if its start object is removed soon."""
        number = transaction.number
        return bool(run) and (self.start(transaction, run) is None or number % START_EVERY == 0)

    def has_higher(self, transaction: Transaction) -> bool:
        """Return True if a higher number is recorded. In this case, this transaction is never
        published."""
        return self.newest_of(transaction.key) > transaction.number

    def step(self, transaction: Transaction, *, is_strict: bool) -> Step:
        """Return the next step for this transaction.

        is_strict: failOnDataLoss. Changes nothing. Raises TransactionUnknown if the log does not
        know the previous batch.
        """
        newest = self.newest_of(transaction.key)
        number = transaction.number
        if number > newest:
            if is_strict and (gap := self.gap(transaction)):
                raise gap_below(gap)
            return Step.WRITE
        return Step.SHOW if number == newest else Step.OVER

    def check_stranger(self, transaction: Transaction, run: str, writer: str) -> None:
        """Raise TransactionConflict if a record proves that another run writes at the same time.

        writer: the run that wrote the record. An earlier run of the query may have recorded the
        first transaction of this run. An earlier run can have recorded a later transaction only if
        the checkpoint was rolled back while the earlier run was still running. Such a record looks
        like the record of a second query, so this run stops. The next run accepts the record as its
        first transaction.
        """
        number = transaction.number
        start = self.start(transaction, run)
        if start is not None and number > start and writer != run:
            raise recorded_by_another(self.where, number, start)

    def check_written(self, transaction: Transaction, newest: RecordHead) -> None:
        """Raise TransactionUnknown for an older batch that the newest record does not name as
        written.

        Applies only to streams. This run did not send the batch, and it is unknown whether an
        earlier run did.
        """
        number = transaction.number
        if transaction.is_batch_of_stream and not holds(newest.written, number):
            raise batch_not_known(self.where, number, newest.transaction.number)

    def gap(self, transaction: Transaction) -> str:
        """Return the reason why the log does not know the previous batch; "" if the log knows this
        batch.

        Batch writes may skip numbers. A mark is written after its record. So a mark without a
        record means that the record was deleted. The log then cannot show any more that the
        record's messages were sent.
        """
        newest = self.newest_of(transaction.key)
        if transaction.number <= (lost := self.lost.get(transaction.key, -1)):
            return (
                f"number {lost} was recorded in the transaction log {self.where}, as its mark says,"
                " and its record is missing: was an older copy of the folder restored, or did a"
                " lifecycle rule delete the record?"
            )
        if not transaction.is_batch_of_stream or transaction.number <= newest + 1:
            return ""
        knows = (
            "knows nothing of this query. Was the folder emptied, or is 'transactionLog' new for"
            " this checkpoint?"
            if newest < 0
            else f"has batch {newest} as its newest. Were later batches written without the log, or"
            " was an older copy of the folder restored?"
        )
        at = f"this query is at batch {transaction.number}"
        return f"{at}, and the transaction log {self.where} {knows}"
