"""Leases: what one is, how long one should be, and until when one can be counted on.

A lease is a message id with its newest pop receipt and the time it runs out. Nothing here talks
to the service or reads a clock. Ring: core (standard library only).
"""

from __future__ import annotations

from dataclasses import dataclass

MIN_VISIBILITY_S = 1
MAX_VISIBILITY_S = 7 * 24 * 3600
"""Bounds of the visibility timeout at a dequeue (REST reference, "Get Messages")."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to one message: kept in the offset, so it survives a restart.

    A renewal or another dequeue makes a new receipt and voids this one.
    """

    queue: str
    message_id: str
    pop_receipt: str


def runs_out_at(request_sent_at: float, visibility_s: float) -> float:
    """When a lease ends, in the caller's clock: counted from when its request was SENT.

    The service counts from when it handled the request, which is later: this errs early.
    """
    return request_sent_at + visibility_s
