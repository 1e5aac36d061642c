"""Ages of messages, measured when their batch is built and when their batch is committed."""

from __future__ import annotations

import threading
from array import array
from collections.abc import Callable, Iterable

from spark_azqueue.metrics.latency import COMMIT, DELIVERY, Histogram, Recorder
from spark_azqueue.service.messages import UNKNOWN_TIME, Message


class MessageAges:
    """Ages of messages by the service's clock, which has whole seconds. Thread-safe.

    The ages are lost at a restart. A run counts only messages that it delivered, and batches whose
    commit it observed.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        """clock: returns the local time in seconds."""
        self._clock = clock
        self._ahead_s: float | None = None
        self._inserted: dict[int, array[float]] = {}  # by batch
        self._recorder = Recorder()
        self._lock = threading.Lock()

    def service_is_ahead(self, seconds: float) -> None:
        """Set the number of seconds by which the service's clock is ahead. No age is counted before
        this call.
        """
        self._ahead_s = seconds

    def delivered(self, batch: int, messages: Iterable[Message]) -> None:
        """Record that this batch was built now, and count the ages of its messages."""
        self._observe(DELIVERY, self.known(batch, messages))

    def known(self, batch: int, messages: Iterable[Message]) -> array[float]:
        """Record the messages of a batch of an earlier run, without counting their ages. Return the
        insertion times.
        """
        times = (each.insertion_time for each in messages)
        with self._lock:
            found = self._inserted[batch] = array(
                "d", (at / 1_000_000 for at in times if at != UNKNOWN_TIME)
            )
        return found

    def committed(self, batch: int) -> None:
        """Record that this batch was found to be committed now, and count its messages' ages."""
        self._observe(COMMIT, self.dropped(batch))

    def dropped(self, batch: int) -> array[float]:
        """Forget a batch. Return the insertion times of its messages."""
        with self._lock:
            return self._inserted.pop(batch, array("d"))

    def latencies(self) -> dict[str, Histogram]:
        """Return the histograms of all ages counted so far."""
        with self._lock:
            return self._recorder.latencies()

    def _observe(self, name: str, inserted: array[float]) -> None:
        if self._ahead_s is None or not inserted:
            return
        now = self._clock() + self._ahead_s
        with self._lock:
            self._recorder.observe(name, (now - at for at in inserted))
