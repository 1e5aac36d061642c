"""How many messages a micro-batch may have, if no option says so.

A batch costs Spark a fixed time, whatever is in it. So with a backlog, batches double until they
take about a target, and beyond that only if the last doubling paid: with a trigger that waits, or
with a sink whose time does not grow with its rows. They never have fewer than SMALLEST, so a job
that needs long for each message is not slower than with a fixed size. Every run begins with the
smallest: what failed is repeated in small batches.
"""

from __future__ import annotations

SMALLEST = 4096
LARGEST = 32_768

TARGET_S = 1.5
"""How long a batch should take: long beside Spark's fixed part of 0.2 to 0.5 s."""

TARGET_ALONE_S = 6.0
"""The same if nothing is dequeued while Spark works, so that queues rest between two batches."""

_PAYS = 1.3
"""A doubling pays if it brought this many times the messages per second."""

_FULL = 0.9
_SLOW = 2.0
_TRY_AGAIN_AFTER = 16


class BatchSize:
    """Chooses a size from how long batches took. `fixed`: the size that an option names, or None.

    Times are seconds of one clock, handed in.
    """

    def __init__(
        self, fixed: int | None, least: int | None = None, target_s: float = TARGET_S
    ) -> None:
        """least: the fewest messages that a batch is worth, None: any number.

        target_s: how long a batch should take.
        """
        self._target_s = target_s
        self._smallest = max(SMALLEST, least or 0)
        self.most = fixed or self._smallest
        """Most messages in the next batch."""
        self._fixed = fixed is not None
        self._given: tuple[int, float, int] | None = None  # the batch that Spark works on
        self._rates: dict[int, float] = {}  # messages per second, by size
        self._rest = 0  # full batches until a size that did not pay is tried again

    def batch_began(self, messages: int, now: float, most: int | None = None) -> None:
        """Spark has got a batch of so many messages.

        most: how many it might have had, if it was built before the last change of the size.
        """
        self._given = (messages, now, most or self.most)

    def batch_ended(self, now: float) -> None:
        """Spark asks for the next batch: the last one has ended. Repeatable."""
        if self._fixed or self._given is None:
            return
        (messages, since, most), self._given = self._given, None
        if messages < _FULL * most:  # there is no backlog
            self.forget()
            self.most = max(self._smallest, most // 2)
        else:
            self._compare(messages, max(now - since, 1e-3), most)

    def forget(self) -> None:
        """How long batches take has changed, so other sizes may pay now."""
        self._rates.clear()
        self._rest = 0

    def _compare(self, messages: int, took_s: float, most: int) -> None:
        """A full batch, of `most` messages at most, took so long."""
        self._rest = max(0, self._rest - 1)
        self._rates[most] = messages / took_s
        before = self._rates.get(most // 2)
        paid = before is None or self._rates[most] >= _PAYS * before
        self.most = most
        if took_s > _SLOW * self._target_s and not paid:
            self.most = most // 2
            self._rest = _TRY_AGAIN_AFTER
        elif most < LARGEST and (took_s <= self._target_s / 2 or (paid and not self._rest)):
            self.most = most * 2
