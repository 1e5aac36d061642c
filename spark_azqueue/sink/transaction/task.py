"""A task of a transaction: what the driver tells it, whose it is, and what it hands back.

Spark pickles the plan to the tasks, and what they prepared to the driver. Values.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from spark_azqueue.errors import AzQueueError

from . import names
from .chunks import chunks_of
from .hidden import Hidden, Prepared
from .listing import Listing, PassedOver, Step
from .names import Transaction

_RUN = re.compile(r"[0-9a-f]{32}")


class Writer(NamedTuple):
    """The stream of a task: query, run and batch; "", "" and -1 for a batch write.

    run: 32 hexadecimal digits, "" if it cannot be known.
    """

    query: str = ""
    run: str = ""
    batch: int = -1

    def passed_over(self, rows: int, log: str) -> Prepared:
        """For a task that put nothing, since its transaction is recorded.

        rows: so many it was given. log: see `Prepared`.
        """
        return Prepared(uuid.uuid4().hex, *self, rows, skipped=True, log=log)

    def prepared(self, rows: int, hidden: Sequence[Hidden], abandoned: int, log: str) -> Prepared:
        """For a task that put these messages. Raises AzQueueError if one has no receipt.

        rows: so many were acknowledged. abandoned, log: see `Prepared`.
        """
        if len(hidden) != rows:
            raise AzQueueError(
                f"{rows} rows of this task were acknowledged, and {len(hidden)} receipts are known:"
                " the task fails, and nothing of it is visible. Please report this with its log"
            )
        expires = min((each.expires for each in hidden), default=0)
        chunks = chunks_of(hidden)
        put = Prepared(uuid.uuid4().hex, *self, rows, chunks=chunks, expires=expires, log=log)
        return replace(put, abandoned=abandoned)


def writer_of(value_of: Callable[[str], str | None]) -> Writer:
    """Read the properties of a task's job: they name the query, its run and its batch."""
    query, batch = value_of("sql.streaming.queryId"), value_of("streaming.sql.batchId")
    if not query or batch is None:
        return Writer()
    run = (value_of("spark.jobGroup.id") or "").replace("-", "").lower()
    return Writer(query, run if _RUN.fullmatch(run) else "", int(batch))


@dataclass(frozen=True, slots=True)
class WritePlan:
    """What the driver gives to each task: the listing from before, and which writer it belongs to.

    key: of a batch write; "" for a stream, whose tasks know their query. log: the id of the log.
    is_written: this number of a batch write is below the newest, and known to be written in whole.
    """

    listing: Listing
    key: str
    number: int
    is_strict: bool
    log: str
    is_written: bool = False

    @property
    def passed_over(self) -> PassedOver:
        """What it means if this write is passed over."""
        if not self.key:
            return PassedOver.STREAM
        return PassedOver.WRITTEN if self.is_written else PassedOver.UNKNOWN

    def transaction(self, query: str, batch: int) -> Transaction:
        """The transaction of a task. query, batch: of its stream, if it belongs to one."""
        if self.key:
            return Transaction(self.key, self.number)
        return Transaction(names.stream_key(query), batch)

    def is_recorded(self, writer: Writer) -> bool:
        """True if a task of this writer puts nothing, since its transaction is recorded.

        Raises TransactionUnknown: see `Listing.step`.
        """
        transaction = self.transaction(writer.query, writer.batch)
        step = self.listing.step(transaction, is_strict=self.is_strict)
        return step is not Step.WRITE
