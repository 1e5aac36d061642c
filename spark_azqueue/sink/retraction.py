"""onFailure=retract: deletes again what a write that failed had put."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass

from spark_azqueue.errors import AccessDenied, Outcome
from spark_azqueue.service.messages import Lease
from spark_azqueue.service.queues.calls import Delete
from spark_azqueue.service.queues.client import InFlight, QueueClient
from spark_azqueue.service.retry import SETTLE

from .receipts import Receipts

log = logging.getLogger(__name__)

WITHIN_S = 60.0
"""No delete of a retraction begins later than this."""


@dataclass(slots=True)
class Retracted:
    """Messages that were put: deleted again; taken by a consumer since; left in their queues.

    unknown: how many more may be in their queues, because answers to puts were lost.
    """

    deleted: int = 0
    taken: int = 0
    left: int = 0
    unknown: int = 0


def in_words(found: Retracted) -> str:
    """What became of the messages, in a sentence for an error or the log."""
    more = ""
    if found.unknown:
        more = (
            f" Up to {found.unknown} more may be in the queues: so many requests to put had no"
            " answer."
        )
    return (
        f"Messages that were put: {found.deleted} deleted again, {found.taken} dequeued by a"
        f" consumer before, {found.left} left (onFailure=retract).{more}"
    )


def retract(
    client: QueueClient, receipts: Sequence[Receipts], parallelism: int, within_s: float = WITHIN_S
) -> Retracted:
    """Delete these messages by their receipts, so many at once. Never raises an Exception.

    A receipt is void once a consumer has dequeued the message, or somebody updated it. Messages are
    left if their deletes fail, or do not end within the time; a warning in the log says why.
    """
    found = Retracted(
        left=sum(each.beyond for each in receipts), unknown=sum(each.unknown for each in receipts)
    )
    wanted = [lease for each in receipts for lease in each.leases()]
    try:
        flight: InFlight[Lease, Outcome] = client.in_flight()
        try:
            _delete(flight, wanted, parallelism, time.monotonic() + within_s, found)
        finally:
            flight.close()
    except Exception as error:  # noqa: BLE001 (the write failed already; its error is the one to see)
        _warn(error)
    found.left += len(wanted) - found.deleted - found.taken
    return found


def _delete(
    flight: InFlight[Lease, Outcome],
    wanted: list[Lease],
    parallelism: int,
    deadline: float,
    found: Retracted,
) -> None:
    waiting = iter(wanted)
    told = False
    while (left_s := deadline - time.monotonic()) > 0:
        while len(flight) < parallelism and (lease := next(waiting, None)):
            flight.begin(lease, Delete(lease), SETTLE)
        if not len(flight):
            return
        for _, result in flight.ended(left_s):
            if isinstance(result, Exception):
                if not told:
                    _warn(result)
                told = True
                if isinstance(result, AccessDenied):  # the others would fare alike
                    return
            elif result in (Outcome.OK, Outcome.PROBABLY):
                found.deleted += 1
            else:
                found.taken += 1


def _warn(error: Exception) -> None:
    log.warning("a message that a failed write had put could not be deleted again: %s", error)
