"""Leases messages for later batches in the background, while Spark works on the last one.

If the process is killed, these messages are in no offset: they come back when their leases end.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, wait

from spark_azqueue.service.workers import Submits


class Prefetch:
    """At most one prefetch under way, of up to `batches` batches. Used by one thread.

    clock: in seconds, the clock by which leases are measured.
    """

    def __init__(self, batches: int, workers: Submits, clock: Callable[[], float]) -> None:
        self._batches = batches
        self._workers = workers
        self._clock = clock
        self._future: Future[None] | None = None
        self._since: float | None = None

    @property
    def under_way(self) -> bool:
        """True until `catch_up` has waited for it."""
        return self._future is not None

    def begin(self, lease: Callable[[int], None], most: int) -> None:
        """Run lease(n) in the background; n is how many messages the batches hold, `most` each."""
        if self._batches and self._future is None:
            self._since = self._clock()
            self._future = self._workers.submit(lease, self._batches * most)

    def catch_up(self) -> None:
        """Wait for the prefetch under way. Raises what it raised."""
        if self._future:
            wait([self._future])
            future, self._future = self._future, None
            future.result()

    def began(self) -> float:
        """When leasing the next batch began: with the last prefetch, or now. Forgets that one."""
        since, self._since = self._since, None
        return self._clock() if since is None else since

    def has_ended(self, timeout_s: float | None = None) -> bool:
        """Wait for the prefetch under way, `timeout_s` seconds at most; False if it still goes on.

        What it raised is kept for `catch_up`.
        """
        return not self._future or not wait([self._future], timeout=timeout_s).not_done
