"""Decides from a log's listing whether a transaction is written, shown or passed over. Pure."""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from . import names
from .names import ObjectKind, RecordName, Transaction
from .record import RecordHead, holds
from .refusals import batch_not_known, gap_below, recorded_by_another


class Step(enum.Enum):
    """What to do with a transaction."""

    WRITE = "no record stands in its way: put its messages, and record them"
    SHOW = "it is recorded, and the newest: show what its record holds"
    OVER = "a higher number is recorded: put nothing"


class PassedOver(enum.Enum):
    """What is known of a transaction below the newest one."""

    STREAM = (
        "they were written long ago, as after a rollback. (With a copied checkpoint they are other"
        " rows: it needs a 'transactionLog' of its own)"
    )
    WRITTEN = "this txnVersion was written before. For other rows, take a number above the newest"
    UNKNOWN = "it is not known whether this txnVersion was ever written"


START_EVERY = 50
"""A long run writes a new start each time it has done this many batches."""

STARTS_KEPT = 2 * START_EVERY
"""Starts of runs that lie this many batches back are removed."""


@dataclass(frozen=True)
class Listing:
    """What a log held at one moment, by the names of its objects.

    where: the log, for texts. listed: the objects. recorded: the numbers of each key, ascending.
    starts: of each key and run. lost: of keys, the highest number that has a mark, if its record
    and all above are gone.
    """

    where: str
    listed: Sequence[RecordName]
    recorded: Mapping[str, Sequence[int]]
    starts: Mapping[tuple[str, str], int]
    lost: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, where: str, listed: Iterable[str]) -> Listing:
        """Read a listing of names."""
        objects = names.all_parsed(listed)
        recorded = names.records_in(objects)
        lost: dict[str, int] = {}
        for each in objects:
            newest = max(recorded.get(each.key, (-1,))[-1], lost.get(each.key, -1))
            if each.kind is ObjectKind.MARK and each.number > newest:
                lost[each.key] = each.number
        return cls(where, objects, recorded, names.starts_in(objects), lost)

    def for_tasks(self) -> Listing:
        """This listing without what tasks do not need."""
        newest = {key: numbers[-1:] for key, numbers in self.recorded.items()}
        return replace(self, listed=(), recorded=newest)

    @property
    def newest(self) -> dict[str, int]:
        """The highest number of each key."""
        return {key: numbers[-1] for key, numbers in self.recorded.items()}

    def marked(self, head: RecordHead) -> int:
        """How many messages of this record need no showing any more."""
        return names.marked_in(self.listed, head.transaction, head.nonce, head.rows)

    def is_finished(self, head: RecordHead) -> bool:
        """True if nothing of this record is left to show: it has its final mark."""
        return self.marked(head) == head.rows

    def below(self, transaction: Transaction) -> list[Transaction]:
        """The recorded ones of the same key with a lower number, the highest first."""
        key, number = transaction
        return [
            Transaction(key, each) for each in reversed(self.recorded.get(key, ())) if each < number
        ]

    def not_written(self, head: RecordHead) -> list[Transaction]:
        """The recorded ones below this record that it does not know to be written in whole.

        An unfinished record of a number that is written is a repetition that appeared late.
        """
        return [
            each for each in self.below(head.transaction) if not holds(head.written, each.number)
        ]

    def outlived_by(self, head: RecordHead, finished: Collection[int]) -> list[str]:
        """Names of the objects that are not needed once this record is published: heads first.

        finished: numbers below whose records are, beside those that it knows to be written. What is
        there of others stays, parts without a record, too: it may land late.
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
            else:  # of an attempt that came second
                is_over = found.kind is not ObjectKind.RECORD and found.tag != head.nonce
            if is_over:
                over.append((found.kind is not ObjectKind.RECORD, found.name))
        return [name for _, name in sorted(over)]

    def newest_of(self, key: str) -> int:
        """The highest number of this key, -1 without any."""
        return max(self.recorded.get(key, ()), default=-1)

    @property
    def newest_transactions(self) -> list[Transaction]:
        """Of each key, the one with the highest number."""
        return [Transaction(*each) for each in sorted(self.newest.items())]

    def start(self, transaction: Transaction, run: str) -> int | None:
        """The newest number when this run began, None if this is its first transaction."""
        return self.starts.get((transaction.key, run))

    def needs_start(self, transaction: Transaction, run: str) -> bool:
        """True if the run has left no start, or none that will stay for long."""
        number = transaction.number
        return bool(run) and (self.start(transaction, run) is None or number % START_EVERY == 0)

    def has_higher(self, transaction: Transaction) -> bool:
        """True if a higher number is recorded: this one is never shown any more."""
        return self.newest_of(transaction.key) > transaction.number

    def step(self, transaction: Transaction, *, is_strict: bool) -> Step:
        """What to do with this transaction.

        is_strict: failOnDataLoss. Raises TransactionUnknown if the log does not know the batch
        before; nothing was done then.
        """
        newest = self.newest_of(transaction.key)
        number = transaction.number
        if number > newest:
            if is_strict and (gap := self.gap(transaction)):
                raise gap_below(gap)
            return Step.WRITE
        return Step.SHOW if number == newest else Step.OVER

    def check_stranger(self, transaction: Transaction, run: str, writer: str) -> None:
        """Raise TransactionConflict if a record proves that another run writes beside this one.

        writer: the run that wrote the record. A process before this run may have recorded the run's
        first transaction. A later one it may record only if the checkpoint was rolled back, and it
        still ran: that looks like another query, and the next run takes the record for its
        own first.
        """
        number = transaction.number
        start = self.start(transaction, run)
        if start is not None and number > start and writer != run:
            raise recorded_by_another(self.where, number, start)

    def check_written(self, transaction: Transaction, newest: RecordHead) -> None:
        """Raise TransactionUnknown for a batch of a stream below the newest record, if that does
        not know it to be written: nothing was sent, and it may be nowhere."""
        number = transaction.number
        if transaction.is_batch_of_stream and not holds(newest.written, number):
            raise batch_not_known(self.where, number, newest.transaction.number)

    def gap(self, transaction: Transaction) -> str:
        """What is wrong if the log does not know the batch before this one; "" if it does.

        Numbers of batch writes may leave some out. A mark is written behind a record: without that
        one, what says that the messages are there was deleted.
        """
        newest = self.newest_of(transaction.key)
        if transaction.number <= (lost := self.lost.get(transaction.key, -1)):
            return (
                f"number {lost} was recorded in the transaction log {self.where}, as its mark says,"
                " and its record is gone: was an older copy of the folder restored, or did a"
                " lifecycle rule delete it?"
            )
        if not transaction.is_batch_of_stream or transaction.number <= newest + 1:
            return ""
        knows = (
            "knows nothing of this query. Was the folder emptied, or is 'transactionLog' new for"
            " this checkpoint?"
            if newest < 0
            else f"has batch {newest} as its newest. Were later ones written without it, or was an"
            " older copy of the folder restored?"
        )
        at = f"this query is at batch {transaction.number}"
        return f"{at}, and the transaction log {self.where} {knows}"
