"""What one attempt to write gives, taken together: checks before it is recorded."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence

from spark_azqueue.conditions import Condition
from spark_azqueue.errors import AzQueueError, TransactionExpired, TransactionUnknown
from spark_azqueue.options.transaction import TransactionConfig
from spark_azqueue.service.messages import Lease

from .chunks import unpack
from .hidden import Prepared
from .log import about
from .names import Transaction
from .record import CHUNKS_AT_MOST, RecordHead
from .task import WritePlan
from .written import Ranges, holds

log = logging.getLogger(__name__)

SHOW_RATE = 200
"""Messages a second that a show certainly reaches; for the time that it may need."""

LEAST_LEFT_S = 60


def agreed(plan: WritePlan, prepared: Sequence[Prepared]) -> tuple[Transaction, str]:
    """The transaction and the run that all tasks name."""
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
    """How many rows they were given."""
    return sum(each.rows for each in prepared)


def leases_of(prepared: Sequence[Prepared], account: str) -> Iterator[Lease]:
    """The messages that they put."""
    for each in prepared:
        for chunk in each.chunks:
            for hidden in unpack(chunk, account):
                yield hidden.lease


def check_count(chunks: int) -> None:
    """Raise AzQueueError for more chunks than a record is read with."""
    if chunks > CHUNKS_AT_MOST:
        raise AzQueueError(
            f"the tasks of one write put messages in {chunks:,} portions, and a transaction has"
            f" {CHUNKS_AT_MOST:,} at most: nothing was recorded, and nothing is visible. Write"
            " fewer partitions (coalesce)"
        )


def check_time(head: RecordHead) -> None:
    """Raise TransactionExpired if its messages may expire before all of them are shown."""
    left = head.expires - head.recorded
    needed = LEAST_LEFT_S + head.rows // SHOW_RATE
    if left < needed:
        raise TransactionExpired(
            f"{about(head)}: its first message expires in {left:,} s, and to show all"
            f" {head.rows:,} may take {needed:,} s, so nothing was recorded and nothing is"
            " visible. Raise 'timeToLive' (7 days at most), or write smaller batches"
        )


def tell_of_other_rows(head: RecordHead, prepared: Sequence[Prepared]) -> None:
    """Warn if the repeated write has another number of rows than the recorded one."""
    if head.given != given_rows(prepared):
        log.warning(
            "%s was recorded with %d rows, and now has %d: the source or the query does not give"
            " the same rows again. The recorded ones count. A source azqueue needs 'writeAheadLog'",
            *(about(head), head.given, given_rows(prepared)),
        )


def is_known(
    written: Ranges, number: int, newest: int, settings: TransactionConfig, where: str
) -> bool:
    """Whether a txnVersion below the newest one is known to be written in whole.

    written: what the newest record knows. where: the log, for texts. Raises TransactionUnknown if
    it is not known; with failOnDataLoss=false it warns.
    """
    if holds(written, number):
        return True
    text = (
        f"txnVersion {number} of txnAppId {json.dumps(settings.app_id)} is not known to be written:"
        f" in {where}, {newest} is the newest, and numbers have to grow. Nothing was sent. To write"
        " these rows, take a number above that. If this number was begun before, see first what is"
        " visible or still hidden of it (python -m spark_azqueue finish)"
    )
    if settings.fail_on_data_loss:
        raise TransactionUnknown(
            f"{text}. To pass them over, set failOnDataLoss=false for one start",
            condition=Condition.TRANSACTION_NOT_WRITTEN,
        )
    log.warning("%s. They are passed over, since failOnDataLoss=false", text)
    return False
