"""A task of a transaction: the plan that it gets, its identity, and its result.

Spark pickles the plan for the tasks, and the prepared messages for the driver. This module has pure
values.
"""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from spark_azqueue.errors import AzQueueError
from spark_azqueue.journal.refusals import tell_loss
from spark_azqueue.options.transaction import TransactionConfig
from spark_azqueue.service.messages import Lease

from . import names
from .listing import Listing, PassedOver, Step
from .log import about, chunks_of, unpack_chunk
from .names import Transaction
from .record import CHUNKS_AT_MOST, Hidden, Prepared, Ranges, RecordHead, holds
from .refusals import too_little_time, version_not_known

log = logging.getLogger(__name__)

SHOW_RATE = 200
"""Assumed minimum rate of publishing, in messages per second."""

LEAST_LEFT_S = 60


def agreed(plan: WritePlan, prepared: Sequence[Prepared]) -> tuple[Transaction, str]:
    """Return the transaction and the run. Raises AzQueueError unless these are the same for all
    tasks."""
    named = {(plan.transaction(each.query, each.batch), each.run) for each in prepared}
    if len(named) != 1 or any(
        sum(chunk.rows for chunk in each.chunks) > each.rows for each in prepared
    ):
        raise AzQueueError(
            f"the tasks of one write named {len(named)} transactions, or more messages than rows:"
            " nothing was recorded. Please report this with the log of the driver"
        )
    return named.pop()


def given_rows(prepared: Sequence[Prepared]) -> int:
    """Return the total number of rows of the tasks."""
    return sum(each.rows for each in prepared)


def leases_of(prepared: Sequence[Prepared], account: str) -> Iterator[Lease]:
    """Yield the leases of the tasks' messages."""
    for each in prepared:
        for chunk in each.chunks:
            for hidden in unpack_chunk(chunk, account):
                yield hidden.lease


def check_chunks(chunks: int) -> None:
    """Raise AzQueueError if a record with this number of chunks would be too large to read."""
    if chunks > CHUNKS_AT_MOST:
        raise AzQueueError(
            f"the tasks of one write put messages in {chunks:,} portions, and a transaction has"
            f" at most {CHUNKS_AT_MOST:,}: nothing was recorded, and nothing is visible. Write"
            " fewer partitions (coalesce)"
        )


def check_time(head: RecordHead) -> None:
    """Raise TransactionExpired if messages may expire before all messages are published."""
    left = head.expires - head.recorded
    needed = LEAST_LEFT_S + head.rows // SHOW_RATE
    if left < needed:
        raise too_little_time(about(head), left, head.rows, needed)


def tell_of_other_rows(head: RecordHead, prepared: Sequence[Prepared]) -> None:
    """Log a warning if the repeated write has a different number of rows than the record.

    No warning is logged if the texts are the same, because `send --pack` may have packed them into
    fewer messages.
    """
    if head.given != given_rows(prepared) and not is_same(head, prepared):
        log.warning(
            "%s was recorded with %d rows, and now has %d: the source or the query does not repeat"
            " the same rows. The recorded rows count. A source azqueue needs 'writeAheadLog'",
            *(about(head), head.given, given_rows(prepared)),
        )


def texts_of(prepared: Sequence[Prepared]) -> str:
    """Return the digest of all texts; "" if unknown, for example with several tasks."""
    return prepared[0].texts if len(prepared) == 1 else ""


def is_same(head: RecordHead, prepared: Sequence[Prepared]) -> bool | None:
    """Return True if the record has the same texts as these tasks; None if unknown."""
    known = head.texts, texts_of(prepared)
    if all(known):
        return known[0] == known[1]
    return None if head.given == given_rows(prepared) else False


def is_known(
    written: Ranges, number: int, newest: int, settings: TransactionConfig, where: str
) -> bool:
    """Return True if a txnVersion that is lower than the newest is known to be completely written.

    written: numbers that the newest record names as written. where: place of the log, for messages.
    If this is not known, raises TransactionUnknown; with failOnDataLoss=false, logs a warning and
    returns False.
    """
    if holds(written, number):
        return True
    error = version_not_known(where, settings.app_id, number, newest)
    tell_loss(error, lose=not settings.fail_on_data_loss, then="its rows are skipped")
    return False


_RUN = re.compile(r"[0-9a-f]{32}")


class Writer(NamedTuple):
    """Stream to which a task belongs: query, run and batch.

    The values are "", "" and -1 for a batch write.

    run: 32 hexadecimal digits; "" if unknown.
    """

    query: str = ""
    run: str = ""
    batch: int = -1

    def passed_over(self, rows: int, log: str) -> Prepared:
        """Return the result of a task that put nothing, because its transaction was already
        recorded.

        rows: number of rows of the task. log: see `Prepared`.
        """
        return Prepared(uuid.uuid4().hex, *self, rows, skipped=True, log=log)

    def prepared(self, rows: int, hidden: Sequence[Hidden], abandoned: int, log: str) -> Prepared:
        """Return the result of a task that put these messages.

        Raises AzQueueError if a message has no receipt. rows: number of acknowledged rows.
        abandoned, log: see `Prepared`.
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
    """Read the writer from the properties of a task's job: query, run and batch."""
    query, batch = value_of("sql.streaming.queryId"), value_of("streaming.sql.batchId")
    if not query or batch is None:
        return Writer()
    run = (value_of("spark.jobGroup.id") or "").replace("-", "").lower()
    return Writer(query, run if _RUN.fullmatch(run) else "", int(batch))


@dataclass(frozen=True, slots=True)
class WritePlan:
    """Plan of a write: the listing before the write, and the writer. The driver sends the plan to
    each task.

    key: key of a batch write; "" for a stream, because its tasks know their query. log: id of the
    log. is_written: this is a batch write whose number is lower than the newest number, and is
    known to be completely written.
    """

    listing: Listing
    key: str
    number: int
    is_strict: bool
    log: str
    is_written: bool = False

    @property
    def passed_over(self) -> PassedOver:
        """Why this write is skipped, if it is skipped."""
        if not self.key:
            return PassedOver.STREAM
        return PassedOver.WRITTEN if self.is_written else PassedOver.UNKNOWN

    def transaction(self, query: str, batch: int) -> Transaction:
        """Return the transaction of a task. query, batch: ids of the task's query and batch, for a
        stream."""
        if self.key:
            return Transaction(self.key, self.number)
        return Transaction(names.stream_key(query), batch)

    def is_recorded(self, writer: Writer) -> bool:
        """Return True if the transaction of this writer is already recorded. In this case, a task
        must put nothing.

        Raises TransactionUnknown: see `Listing.step`.
        """
        transaction = self.transaction(writer.query, writer.batch)
        step = self.listing.step(transaction, is_strict=self.is_strict)
        return step is not Step.WRITE
