"""How old messages are when they are put into a batch, and when their batch is committed."""

from __future__ import annotations

import threading
from array import array
from collections.abc import Callable, Iterable

from spark_azqueue.metrics.latency import COMMIT, DELIVERY, Histogram, Recorder
from spark_azqueue.service.messages import UNKNOWN_TIME, Message


class MessageAges:
    """Ages by the service's clock, which tells whole seconds. Thread-safe.

    Not kept over a restart: each run counts what it delivered, and what it knows as committed.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        """clock: seconds."""
        self._clock = clock
        self._ahead_s: float | None = None
        self._inserted: dict[int, array[float]] = {}  # by batch
        self._recorder = Recorder()
        self._lock = threading.Lock()

    def service_is_ahead(self, seconds: float) -> None:
        """The service's clock, minus ours. Nothing is counted before this is known."""
        self._ahead_s = seconds

    def delivered(self, batch: int, messages: Iterable[Message]) -> None:
        """These are put into this batch now."""
        self._observe(DELIVERY, self.known(batch, messages))

    def known(self, batch: int, messages: Iterable[Message]) -> array[float]:
        """These are in this batch, perhaps since an earlier run. Returns when they were put."""
        times = (each.insertion_time for each in messages)
        with self._lock:
            found = self._inserted[batch] = array(
                "d", (at / 1_000_000 for at in times if at != UNKNOWN_TIME)
            )
        return found

    def committed(self, batch: int) -> None:
        """This batch is known as committed now."""
        self._observe(COMMIT, self.dropped(batch))

    def dropped(self, batch: int) -> array[float]:
        """This batch is over. Returns when its messages were put."""
        with self._lock:
            return self._inserted.pop(batch, array("d"))

    def latencies(self) -> dict[str, Histogram]:
        """What was counted so far."""
        with self._lock:
            return self._recorder.latencies()

    def _observe(self, name: str, inserted: array[float]) -> None:
        if self._ahead_s is None or not inserted:
            return
        now = self._clock() + self._ahead_s
        with self._lock:
            self._recorder.observe(name, (now - at for at in inserted))
