"""What the driver tells the tasks of a transaction before they run. Spark pickles it."""

from __future__ import annotations

from dataclasses import dataclass

from . import names
from .listing import Listing, Step
from .names import Transaction
from .task import Writer


@dataclass(frozen=True, slots=True)
class Plan:
    """What tasks are told: the listing before they run, and which writer they belong to.

    key: of a batch write; "" for a stream, whose tasks know their query. log: the id of the log.
    """

    listing: Listing
    key: str
    number: int
    is_strict: bool
    log: str

    def transaction(self, query: str, batch: int) -> Transaction:
        """The transaction of a task. query, batch: of its stream, if it belongs to one."""
        if self.key:
            return Transaction(self.key, self.number)
        return Transaction(names.stream_key(query), batch)

    def is_recorded(self, writer: Writer) -> bool:
        """True if a task of this writer puts nothing, since its transaction is recorded.

        Raises TransactionConflict, TransactionUnknown: see `Listing.step`.
        """
        transaction = self.transaction(writer.query, writer.batch)
        step = self.listing.step(transaction, writer.run, is_strict=self.is_strict)
        return step is not Step.WRITE
