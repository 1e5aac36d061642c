"""What a consumer uses of the outside: the clock, threads, and the client of its queues."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.service.workers import MakeWorkers, Workers


@dataclass(frozen=True)
class Runtime:
    """What all parts of one consumer share: threads, time and queues.

    client: the queues, if not those of the account. renews: False leaves renewals to calls of
    `renew_due` (when executors lease, nothing is renewed). make_workers: makes a pool of threads.
    clock: seconds that only grow; now: seconds since 1970. sleep: waits this many seconds.
    """

    client: QueueClient | None = None
    renews: bool = True
    make_workers: MakeWorkers = Workers
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep


DEFAULT = Runtime()
