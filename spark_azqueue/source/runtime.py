"""Environment of a consumer: clock, threads, and the client of its queues."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.service.workers import MakeWorkers, Workers


@dataclass(frozen=True)
class Runtime:
    """Threads, clocks and client that all parts of a consumer share.

    client: the client of the queues; None to create a client for the account. renews: False if
    leases are renewed only by calls of `renew_due`. (With leaseOn=executors, no lease is renewed.)
    make_workers: creates a pool of threads. clock: returns monotonic time in seconds. now: returns
    seconds since 1970. sleep: waits for a number of seconds.
    """

    client: QueueClient | None = None
    renews: bool = True
    make_workers: MakeWorkers = Workers
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep


DEFAULT = Runtime()
