"""Environment of a consumer: its clock, its threads, and the client of its queues."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.service.workers import MakeWorkers, Workers


@dataclass(frozen=True)
class Runtime:
    """Threads, clocks and client that all parts of a consumer share.

    client: client of the queues; None to create a client for the account. renews: False if no
    thread renews leases, only calls of `renew_due`. (With leaseOn=executors, leases are never
    renewed.) make_workers: creates a pool of threads. clock: returns monotonic time in seconds.
    now: returns seconds since 1970. sleep: waits for a number of seconds.
    """

    client: QueueClient | None = None
    renews: bool = True
    make_workers: MakeWorkers = Workers
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep


DEFAULT = Runtime()
