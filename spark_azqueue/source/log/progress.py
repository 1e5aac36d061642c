"""How far the deletes of a log's segments have come, as the next header or mark is to say."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..leases.holder import LeaseHolder
from .header import Owed, Progress

_MARK_EVERY_S = 60.0


class ProgressKeeper:
    """Follows segments from written to proven committed to deleted. Used by one thread."""

    def __init__(self, holder: LeaseHolder, clock: Callable[[], float]) -> None:
        self._holder = holder
        self._clock = clock
        self.committed = 0
        """The newest batch that is known to be committed."""
        self._done = 0
        self._open: list[int] = []  # written or restored, not yet proven committed; ascending
        self._noted_at = clock()

    def restored(self, progress: Progress, numbers: Iterable[int]) -> None:
        """A log was taken over; the messages of these segments are held."""
        self.committed = progress.committed
        self._open = list(numbers)
        self._done = self._open[0] - 1 if self._open else progress.done

    def written(self, number: int) -> None:
        """A new segment stands; its messages are held."""
        self._open.append(number)

    def proven(self, number: int) -> list[int]:
        """The batches up to this one are committed: those to settle now."""
        self.committed = max(self.committed, number)
        due = [each for each in self._open if each <= number]
        self._open = [each for each in self._open if each > number]
        return due

    def now(self) -> Progress:
        """How far it has come. `done`: deletes have ended up to this segment."""
        most = self._open[0] - 1 if self._open else self.committed
        while self._done < most and self._holder.has_ended(self._done + 1):
            self._done += 1
        self._noted_at = self._clock()
        owed = tuple(Owed(*each) for each in self._holder.owed())
        return Progress(committed=self.committed, done=self._done, owed=owed)

    def is_due(self) -> bool:
        """True if nothing was noted for so long that an idle query should note it."""
        return self._clock() - self._noted_at >= _MARK_EVERY_S
