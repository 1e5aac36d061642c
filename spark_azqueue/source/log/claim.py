"""Who may write a log: the process with the highest claim.

Order matters. A claim is put, claims are listed, lower ones are deleted, and only then segments
are listed (once more: `takeover.py` has listed them before, to see whether the query may claim).
So a process that put a segment before this listing is seen by it, and one that puts a segment after
it finds its claim gone, and stops before Spark hears of that segment.
"""

from __future__ import annotations

import json

from spark_azqueue.errors import LogConflict
from spark_azqueue.store.store import LogStore

from . import names


class Claim:
    """A claim of this process."""

    def __init__(self, store: LogStore, number: int, writer: str) -> None:
        self._store = store
        self._name = names.claim(number, writer)
        self.number = number

    @classmethod
    def take(cls, store: LogStore, writer: str, above: int = 0) -> Claim:
        """Claim the log with a number above this one, and above those of all claims.

        Raises LogConflict if another process claims it at the same time.
        """
        there = _claims(store)
        number = max((each.number for each in there), default=0)
        number = max(number, above) + 1
        store.put_new(names.claim(number, writer), json.dumps({"writer": writer}).encode())
        own = names.Tagged(number, writer)
        for each in _claims(store):
            if each > own:
                raise taken(store.where)
            if each < own:
                store.delete(names.claim(*each))
        return cls(store, number, writer)

    def check(self) -> None:
        """Raise LogConflict if another process has claimed the log since."""
        if self._store.get(self._name, 1) is None:
            raise taken(self._store.where)


def _claims(store: LogStore) -> list[names.Tagged]:
    found = map(names.tagged_in, store.names(names.CLAIMS))
    return [each for each in found if each is not None]


def taken(where: str) -> LogConflict:
    """The error of a process that may not write the log any more."""
    return LogConflict(
        f"another process writes the write-ahead log {where}, so this query stops; nothing is lost."
        " Is the query running twice? A second start, a copied checkpoint, a driver that was"
        " believed dead, or two load() calls with one folder: give each its own folder, and two"
        " load() calls a new checkpointLocation, too"
    )
