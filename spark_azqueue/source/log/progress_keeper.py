"""How far the deletes of a log's segments have come, as the next header or mark is to say."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from ..leases.holder import LeaseHolder
from .progress import FirstBatch, LogProgress, Owed

_MARK_EVERY_S = 60.0


class ProgressKeeper:
    """Follows segments from written to committed and deleted. Used by one thread at a time."""

    def __init__(
        self,
        holder: LeaseHolder,
        clock: Callable[[], float],
        service_is_ahead: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """service_is_ahead: the service's clock, minus this one, in seconds."""
        self._holder = holder
        self._clock = clock
        self._service_is_ahead = service_is_ahead
        self._named = 0
        self.committed = 0
        """The newest batch that is known to be committed."""
        self.began: FirstBatch | None = None
        """The first batch of the checkpoint, if Spark has said so."""
        self._done = 0
        self._head = 0
        self._kept: list[int] = []  # segments whose deletes are not begun; ascending
        self._hidden: list[tuple[float, int]] = []  # released: until when, and how many messages
        self._noted_at = clock()

    def restored(self, progress: LogProgress, numbers: Iterable[int]) -> None:
        """A log was taken over; the messages of these segments are held."""
        self._named, self.committed = progress.named, progress.committed
        self.began = progress.began
        self._kept = list(numbers)
        self._done = self._kept[0] - 1 if self._kept else progress.done
        self._head = self._kept[-1] if self._kept else progress.done

    def written(self, number: int) -> None:
        """A new segment stands; its messages are held."""
        self._kept.append(number)
        self._head = number

    def named(self, number: int) -> None:
        """Spark has named this segment, so its checkpoint knows it."""
        self._named = max(self._named, number)

    def proven(self, number: int) -> None:
        """The segments up to this one are committed."""
        self.committed = max(self.committed, number)

    def released(self, messages: int, hidden_until: float) -> None:
        """So many messages of batches that were given up may be hidden until then.

        The next process may have to wait for them, too.
        """
        self._hidden.append((hidden_until, messages))

    def kept_up_to(self, number: int) -> list[int]:
        """Of the segments up to this one, those whose deletes are not begun."""
        return [each for each in self._kept if each <= number]

    def settled(self, number: int) -> None:
        """Deletes have begun for the segments up to this one."""
        self._kept = [each for each in self._kept if each > number]

    def now(self, *, has_ended: bool = False) -> LogProgress:
        """How far it has come. `done`: deletes have ended up to this segment.

        has_ended: this process leases nothing any more. That is said if something is owed.
        """
        most = self._kept[0] - 1 if self._kept else self._head
        with self._holder.ledger as ledger:
            self._done = max(self._done, ledger.ended_up_to(self._done, most))
            owed = tuple(Owed(*each) for each in ledger.owed())
            hidden_until = ledger.hidden_until + self._service_is_ahead()
        self._noted_at = now = self._clock()
        self._hidden = [each for each in self._hidden if each[0] > now]
        hidden = sum(messages for _, messages in self._hidden)
        return LogProgress(
            named=self._named,
            committed=self.committed,
            done=self._done,
            owed=owed,
            began=self.began,
            hidden=hidden,
            leased_s=self._holder.lengths.longest_s(),
            hidden_until=max(0, math.ceil(hidden_until)) if owed or hidden else 0,
            has_ended=has_ended and bool(owed),
        )

    def is_due(self) -> bool:
        """True if nothing was noted for so long that an idle query should note it."""
        return self._clock() - self._noted_at >= _MARK_EVERY_S
