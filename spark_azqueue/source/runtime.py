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

    client: the client of the queues; None to make one for the account. renews: False to renew only
    by calls of `renew_due` (with leaseOn=executors, nothing is renewed). make_workers: makes a pool
    of threads. clock: monotonic time in seconds. now: seconds since 1970. sleep: waits, in seconds.
    """

    client: QueueClient | None = None
    renews: bool = True
    make_workers: MakeWorkers = Workers
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep


DEFAULT = Runtime()
