"""A lease worker that only deletes and releases, and what it records."""

from __future__ import annotations

from collections import Counter

from spark_azqueue.service.workers import Workers
from spark_azqueue.source.leases.ledger import Ledger
from spark_azqueue.source.leases.timing import LeaseLengths
from spark_azqueue.source.leases.worker import LeaseWorker


class Recorded(Ledger):
    """A ledger that notes how each delete ended; it knows no message."""

    def __init__(self):
        super().__init__()
        self.outcomes = {}
        self.times = Counter()

    def settled(self, lease, outcome):
        self.times[lease] += 1
        self.outcomes[lease] = outcome


def worker_of(service, ledger=None, *, workers=None, parallelism=1, **more):
    """more: as the worker takes it."""
    return LeaseWorker(
        Recorded() if ledger is None else ledger,
        service,
        workers or Workers(1, "leases"),
        LeaseLengths(60),
        lambda: 0.0,
        parallelism=parallelism,
        **more,
    )
