"""Decides from a log's listing whether a transaction is written, shown or passed over. Pure."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from spark_azqueue.errors import TransactionConflict, TransactionUnknown

from . import names
from .names import STREAMS, ObjectKind, Parsed, Transaction


class Step(enum.Enum):
    """What to do with a transaction."""

    WRITE = "no record stands in its way: put its messages, and record them"
    SHOW = "it is recorded, and the newest: show what its record holds"
    OVER = "a higher number is recorded, so it was done long ago"


START_EVERY = 50
"""A long run writes a new start each time it has done so many batches."""

STARTS_KEPT = 2 * START_EVERY
"""Starts of runs that lie so many batches back are removed."""


@dataclass(frozen=True)
class Listing:
    """What a log held at one moment, by the names of its objects.

    where: the log, for texts. listed: the objects. newest: the highest number of each key. starts:
    of each key and run.
    """

    where: str
    listed: Sequence[Parsed]
    newest: Mapping[str, int]
    starts: Mapping[tuple[str, str], int]

    @classmethod
    def of(cls, where: str, listed: Iterable[str]) -> Listing:
        """Read a listing of names."""
        objects = names.all_parsed(listed)
        newest = {key: numbers[-1] for key, numbers in names.records_in(objects).items()}
        return cls(where, objects, newest, names.starts_in(objects))

    def for_tasks(self) -> Listing:
        """The same without the objects, which tasks do not need."""
        return replace(self, listed=())

    def marked(self, transaction: Transaction, nonce: str) -> int:
        """How many messages of this record need no showing any more."""
        return names.marked_in(self.listed, transaction, nonce)

    def outlived_by(self, transaction: Transaction, nonce: str) -> list[str]:
        """Names of the objects that nobody needs once this record is shown: heads first."""
        key, number = transaction
        over = []
        for found in self.listed:
            if found.key != key or found.number > number:
                continue
            if found.kind is ObjectKind.RECORD:
                is_over = found.number < number
            elif found.kind is ObjectKind.START:
                is_over = found.number < number - STARTS_KEPT
            else:  # of an older record, or of an attempt that came second
                is_over = found.number < number or found.tag != nonce
            if is_over:
                over.append((found.kind is not ObjectKind.RECORD, found.name))
        return [name for _, name in sorted(over)]

    @property
    def newest_transactions(self) -> list[Transaction]:
        """Of each key, the one with the highest number."""
        return [Transaction(key, number) for key, number in sorted(self.newest.items())]

    def start(self, transaction: Transaction, run: str) -> int | None:
        """The newest number when this run began, None if this is its first transaction."""
        return self.starts.get((transaction.key, run))

    def needs_start(self, transaction: Transaction, run: str) -> bool:
        """True if the run has left no start, or none that will stay for long."""
        number = transaction.number
        return bool(run) and (self.start(transaction, run) is None or number % START_EVERY == 0)

    def has_higher(self, transaction: Transaction) -> bool:
        """True if a higher number is recorded: this one is never shown any more."""
        return self.newest.get(transaction.key, -1) > transaction.number

    def step(self, transaction: Transaction, run: str, *, is_strict: bool) -> Step:
        """What to do with this transaction.

        run: "" for a batch write. is_strict: failOnDataLoss. Raises TransactionConflict if another
        process writes these transactions, and TransactionUnknown if the log does not know the batch
        before; nothing was done then.
        """
        newest = self.newest.get(transaction.key)
        number = transaction.number
        if newest is None or number > newest:
            if is_strict and (gap := self.gap(transaction)):
                raise TransactionUnknown(
                    f"{gap} Nothing was sent. If the last batch was written in whole, or may be"
                    " there twice, set failOnDataLoss=false for one start; else name or restore the"
                    " right folder"
                )
            return Step.WRITE
        self.check_stranger(transaction, run)
        return Step.SHOW if number == newest else Step.OVER

    def check_stranger(self, transaction: Transaction, run: str) -> None:
        """Raise TransactionConflict if a record that this run did not write proves another writer.

        A process before this run may have recorded the run's first transaction. A later one it may
        record only if the checkpoint was rolled back, and it still ran: that cannot be told from
        another query, and the next run takes the record for its own first.
        """
        number = transaction.number
        start = self.start(transaction, run)
        if start is not None and number > start:
            raise TransactionConflict(
                f"batch {number} of this query is in the transaction log {self.where} already, and"
                f" this run did not write it. When the run began, batch {start} was the newest: so"
                " another process writes with the same id. What this run put for the batch is not"
                " visible. If it is an earlier process of this query, end it and start the query"
                " again; if it is a query with a copied checkpoint, that needs a 'transactionLog'"
                " of its own"
            )

    def gap(self, transaction: Transaction) -> str:
        """What is wrong if the log does not know the batch before this one; "" if it does.

        Numbers of batch writes may leave some out.
        """
        newest = self.newest.get(transaction.key)
        before = -1 if newest is None else newest
        if not transaction.key.startswith(STREAMS) or transaction.number <= before + 1:
            return ""
        knows = (
            "knows nothing of this query. Was the folder emptied, or is 'transactionLog' new for"
            " this checkpoint?"
            if newest is None
            else f"has batch {newest} as its newest. Were later ones written without it, or was an"
            " older copy of the folder restored?"
        )
        at = f"this query is at batch {transaction.number}"
        return f"{at}, and the transaction log {self.where} {knows}"
