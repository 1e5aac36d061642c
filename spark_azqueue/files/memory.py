"""The memory: a key for each file that was read, so that no file is read twice.

Keys are evicted by age and number. The *horizon* is a time just after the newest evicted key. A
file whose event is older than the horizon is not read, because its key may have been evicted. So a
key is not evicted if the horizon would then be later than events that still arrive. (The events of
a listing or a backlog may take days to arrive.) The same lists, noted in the same order, make the
same memory.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Iterable
from typing import NamedTuple

from spark_azqueue.journal.codec import Damaged

DAY_S = 86_400
SKEW_S = 900
"""Maximum difference between the service's clock and the driver's clock, in seconds."""

LATE_S = 14 * DAY_S
"""Maximum age of an event from Event Grid when it is read: Event Grid retries for a day, and a
message lives for a week.
"""

MOST_REMEMBERED = 10_000_000
"""Highest limit on the number of remembered files. A snapshot has room for a fifth more."""

_KEY = 16
_ENTRY = _KEY + 8


class File(NamedTuple):
    """A file of a trusted container. at: time of the file's event, in seconds since 1970."""

    place: str
    path: str
    etag: str = ""
    at: float = 0.0


class Bounds(NamedTuple):
    """Limits of the memory. age: seconds for which a file is remembered; None for no limit.

    most: maximum number of files to remember. Beyond these limits, two kinds of keys are kept: keys
    of the last day, and keys that are newer than the oldest event of this generation and the
    previous generation of lists.
    """

    age: float | None = None
    most: int = 1_000_000


class Memory:
    """Keys of files, in the order in which they were remembered."""

    def __init__(self, bounds: Bounds, *, allow_overwrites: bool = False) -> None:
        """allow_overwrites: if True, path and etag together identify a file; otherwise the path
        alone does.
        """
        self.horizon = 0.0
        self._bounds = bounds
        self._overwrites = allow_overwrites
        self._known: dict[bytes, int] = {}
        self._oldest_event = math.inf
        self._oldest_before = math.inf

    def __len__(self) -> int:
        return len(self._known)

    def knows(self, file: File) -> bool:
        """Return True if the file was in a list, or if this version of the file was quarantined."""
        return self._of_list(file) in self._known or _of_version(file) in self._known

    def aside_at(self, file: File) -> int | None:
        """Return the time of the last list in which this path was quarantined; None if there is no
        such list.
        """
        return self._known.get(_of_aside(file))

    def note(
        self,
        at: float,
        files: Iterable[File],
        aside: Iterable[File],
        oldest: float | None = None,
    ) -> None:
        """Remember the files of a list, and its quarantined files. at: time of the list, in seconds
        since 1970; not earlier than in the previous call.

        oldest: result of `oldest_of`; None for the time of the oldest event.
        """
        files, aside = list(files), list(aside)
        for file in files:
            self._known[self._of_list(file)] = int(at)
        for file in aside:
            for key in (self._of_list(file), _of_aside(file)):
                self._known.pop(key, None)
            self._known[_of_version(file)] = self._known[_of_aside(file)] = int(at)
        times = (file.at for file in (*files, *aside) if file.at >= self.horizon)
        seen = min(times, default=math.inf) if oldest is None else oldest
        self._oldest_event = min(self._oldest_event, seen)
        self._forget(at)

    def oldest_of(
        self, files: Iterable[File], own: Collection[tuple[str, str]], at: float
    ) -> float:
        """Return the time from which on keys must be kept while events as old as these arrive.

        own: place and path of files whose events a listing of this query sent. Such events may wait
        in the queue for any time. Other events count as at most `LATE_S` old.
        """
        late = at - LATE_S
        times = (
            file.at if (file.place, file.path) in own else max(file.at, late)
            for file in files
            if file.at >= self.horizon
        )
        return min(times, default=math.inf)

    def turn(self) -> None:
        """Begin a new generation of lists."""
        self._oldest_before, self._oldest_event = self._oldest_event, math.inf

    @property
    def oldest_event(self) -> float:
        """Time of the oldest event of this generation; infinity if there is no event."""
        return self._oldest_event

    def _forget(self, now: float) -> None:
        age, most = self._bounds
        coming = min(self._oldest_event, self._oldest_before)
        before = min(now - DAY_S, coming - SKEW_S)
        for key, at in [*self._oldest(before, len(self._known) - most, age, now)]:
            del self._known[key]
            self.horizon = max(self.horizon, at + SKEW_S)

    def _oldest(
        self, before: float, over: int, age: float | None, now: float
    ) -> Iterable[tuple[bytes, int]]:
        for key, at in self._known.items():
            is_old = age is not None and at < now - age
            if at >= before or not (is_old or over > 0):
                return
            over -= 1
            yield key, at

    def _of_list(self, file: File) -> bytes:
        return _key(file, file.etag if self._overwrites else "")

    def to_bytes(self) -> bytes:
        """Return the keys, followed by the keys' times in seconds."""
        times = b"".join(at.to_bytes(8, "little") for at in self._known.values())
        return b"".join(self._known) + times

    def fill(self, horizon: float, oldest_event: float, data: bytes) -> None:
        """Load the result of `to_bytes`, which was stored at the end of a generation. Raises
        Damaged."""
        count, rest = divmod(len(data), _ENTRY)
        if rest:
            raise Damaged("it has half of a key")
        self.horizon, self._oldest_before = horizon, oldest_event
        for number in range(count):
            end = count * _KEY + number * 8
            key = data[number * _KEY : (number + 1) * _KEY]
            self._known[key] = int.from_bytes(data[end : end + 8], "little")


def _of_version(file: File) -> bytes:
    return _key(file, file.etag or f"at {file.at}")


def _of_aside(file: File) -> bytes:
    # line breaks separate the parts, because an etag has no line break
    return _key(file, "\nset aside")


def _key(file: File, version: str) -> bytes:
    text = "\n".join((file.place, file.path, version))
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_KEY).digest()
