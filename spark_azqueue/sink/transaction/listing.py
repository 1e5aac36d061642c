"""Decides from a log's listing whether a transaction is written, published or passed over. Pure."""

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
    """Knowledge about a transaction below the newest one."""

    STREAM = (
        "they were written before, and the checkpoint was rolled back. (A copied checkpoint has"
        " different rows, and needs a 'transactionLog' of its own)"
    )
    WRITTEN = "this txnVersion was written before. For other rows, take a number above the newest"
    UNKNOWN = "it is not known whether this txnVersion was ever written"


START_EVERY = 50
"""Batches after which a long run writes a new start."""

STARTS_KEPT = 2 * START_EVERY
"""Starts of runs are removed after this many batches."""


@dataclass(frozen=True)
class Listing:
    """Contents of a log at one moment, by the names of its objects.

    where: the log, for texts. listed: the objects. recorded: the numbers of each key, ascending.
    starts: of each key and run. lost: by key, the highest number that has a mark, if its record and
    all higher records are missing.
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
        """Return this listing without the parts that tasks do not need."""
        newest = {key: numbers[-1:] for key, numbers in self.recorded.items()}
        return replace(self, listed=(), recorded=newest)

    @property
    def newest(self) -> dict[str, int]:
        """Highest number of each key."""
        return {key: numbers[-1] for key, numbers in self.recorded.items()}

    def marked(self, head: RecordHead) -> int:
        """Return how many messages of this record need no publishing any more."""
        return names.marked_in(self.listed, head.transaction, head.nonce, head.rows)

    def is_finished(self, head: RecordHead) -> bool:
        """Return True if no message of this record is left to publish: the record has its final
        mark."""
        return self.marked(head) == head.rows

    def below(self, transaction: Transaction) -> list[Transaction]:
        """Return the recorded transactions of the key with a lower number, the highest first."""
        key, number = transaction
        return [
            Transaction(key, each) for each in reversed(self.recorded.get(key, ())) if each < number
        ]

    def not_written(self, head: RecordHead) -> list[Transaction]:
        """Return the recorded transactions below this record that it does not name as written.

        An unfinished record whose number is written is a repetition that appeared late.
        """
        return [
            each for each in self.below(head.transaction) if not holds(head.written, each.number)
        ]

    def outlived_by(self, head: RecordHead, finished: Collection[int]) -> list[str]:
        """Return the names of objects that are not needed once this record is published: heads
        first.

        finished: lower numbers whose records are finished, beside the numbers that the record names
        as written. Objects of all other numbers stay, even parts without a record: their record may
        still appear.
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
            else:  # objects of an attempt that lost
                is_over = found.kind is not ObjectKind.RECORD and found.tag != head.nonce
            if is_over:
                over.append((found.kind is not ObjectKind.RECORD, found.name))
        return [name for _, name in sorted(over)]

    def newest_of(self, key: str) -> int:
        """Return the highest number of this key, -1 without any."""
        return max(self.recorded.get(key, ()), default=-1)

    @property
    def newest_transactions(self) -> list[Transaction]:
        """For each key, the transaction with the highest number."""
        return [Transaction(*each) for each in sorted(self.newest.items())]

    def start(self, transaction: Transaction, run: str) -> int | None:
        """Return the newest number when this run began, None if this is its first transaction."""
        return self.starts.get((transaction.key, run))

    def needs_start(self, transaction: Transaction, run: str) -> bool:
        """Return True if the run has no start, or only one that is soon removed."""
        number = transaction.number
        return bool(run) and (self.start(transaction, run) is None or number % START_EVERY == 0)

    def has_higher(self, transaction: Transaction) -> bool:
        """Return True if a higher number is recorded: then this transaction is never published."""
        return self.newest_of(transaction.key) > transaction.number

    def step(self, transaction: Transaction, *, is_strict: bool) -> Step:
        """Return the next step for this transaction.

        is_strict: failOnDataLoss. Raises TransactionUnknown, before any change, if the log does not
        know the batch before.
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

        writer: the run that wrote the record. A process before this run may have recorded this
        run's first transaction. A process before this run may record a later transaction only if
        the checkpoint was rolled back while the process still ran. Such a record looks like the
        record of a second query, so this run stops; the next run accepts the record as its first.
        """
        number = transaction.number
        start = self.start(transaction, run)
        if start is not None and number > start and writer != run:
            raise recorded_by_another(self.where, number, start)

    def check_written(self, transaction: Transaction, newest: RecordHead) -> None:
        """Raise TransactionUnknown for a lower batch that the newest record does not name as
        written.

        Only for a stream. The batch was not sent by this run, and may be nowhere.
        """
        number = transaction.number
        if transaction.is_batch_of_stream and not holds(newest.written, number):
            raise batch_not_known(self.where, number, newest.transaction.number)

    def gap(self, transaction: Transaction) -> str:
        """Return why the log does not know the batch before this one; "" if it does.

        Batch writes may skip numbers. A mark is written after its record: a mark without a record
        means that the record was deleted, and with it the evidence that its messages were sent.
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
