"""Items that wait in lanes, one for each queue, so that a full queue does not block others."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container
from typing import Generic, TypeVar

Key = TypeVar("Key")
Item = TypeVar("Item")


class FairQueue(Generic[Key, Item]):
    """Lanes take turns; within a lane, the first comes first. Not thread-safe."""

    def __init__(self) -> None:
        self._lanes: dict[Key, deque[Item]] = {}  # none is empty; the one whose turn it is, first
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, key: Key) -> bool:
        return key in self._lanes

    def add(self, key: Key, item: Item) -> None:
        """Put this one at the end of its lane."""
        self._count += 1
        self._lanes.setdefault(key, deque()).append(item)

    def put_back(self, key: Key, item: Item) -> None:
        """Put this one at the front of its lane again."""
        self._count += 1
        self._lanes.setdefault(key, deque()).appendleft(item)

    def next(self, without: Container[Key] = ()) -> tuple[Key, Item] | None:
        """Take out the next item, skipping the lanes `without`; None if there is none."""
        for key in self._lanes:
            if key not in without:
                break
        else:
            return None
        lane = self._lanes.pop(key)
        item = lane.popleft()
        self._count -= 1
        if lane:
            self._lanes[key] = lane
        return key, item

    def begin(self, begin: Callable[[Item], bool]) -> None:
        """Take out what `begin` begins. It returns False if that item's lane has to wait."""
        full: set[Key] = set()
        while found := self.next(full):
            key, item = found
            if not begin(item):
                self.put_back(key, item)
                full.add(key)

    def take(self, which: Callable[[Item], bool] = lambda item: True) -> list[Item]:
        """Take out all of which this is true."""
        taken: list[Item] = []
        for key, lane in list(self._lanes.items()):
            left: deque[Item] = deque()
            for item in lane:
                (taken if which(item) else left).append(item)
            if left:
                self._lanes[key] = left
            else:
                del self._lanes[key]
        self._count -= len(taken)
        return taken
