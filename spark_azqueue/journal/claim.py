"""Claims on a log. Only the process whose claim has the highest number may write.

The order of the steps matters. A process puts its claim, lists the claims, and deletes the claims
with lower numbers. Only then does the process list the segments. (It has listed the segments
before, to check whether the query may claim the log.) This last listing contains every segment that
another process put before its claim was deleted. If another process puts a segment later, it finds
its claim deleted, and stops before it returns the segment to Spark.

A number is never used twice, even if claims are removed. The reason: names of marks and of lists of
pending deletes contain the claim's number, and a process whose claim was removed may still write
such an object.
"""

from __future__ import annotations

import json
import secrets

from .codec import HIGHEST
from .journal import Journal
from .numbers import Tagged, tagged_in
from .refusals import another_writer
from .store import LogStore

CLAIMS = "claims"


def claim_name(number: int, writer: str) -> str:
    """Name of a claim."""
    return f"{CLAIMS}/{number:012d}-{writer}"


_GAP = 10**9
"""Maximum of the random step from the highest known number to the number of a new claim.

A random step is used if the newest claim may have been removed.

The number of a removed claim is unknown. With a random step, the new claim almost certainly has
another number.
"""


class Claim:
    """Claim of this process on a log."""

    def __init__(self, journal: Journal, number: int, writer: str) -> None:
        self._journal = journal
        self._name = claim_name(number, writer)
        self.number = number

    @classmethod
    def take(cls, journal: Journal, writer: str, *, above: int = 0) -> Claim:
        """Claim the log with a number that is higher than `above` and than all existing claims.

        Raises LogConflict if another process claims the log at the same time, LogDamaged if there
        is no higher number.
        """
        store = journal.store
        highest = max((each.number for each in _claims(store)), default=0)
        above = max(highest, above)
        number = above + 1
        is_certain = journal.is_new or 0 < above == highest  # a new log never had a claim
        if not is_certain:
            number += secrets.randbelow(_GAP)
        if number > HIGHEST:
            raise journal.damaged(claim_name(above, "…"), "no claim can have a higher number")
        store.put_new(claim_name(number, writer), json.dumps({"writer": writer}).encode())
        own = Tagged(number, writer)
        there = _claims(store)
        if own not in there or max(there) > own:
            raise another_writer(store.where)
        for each in there:
            if each < own:
                store.delete(claim_name(*each))
        return cls(journal, number, writer)

    def check(self) -> None:
        """Raise LogConflict if another process has claimed the log since this claim."""
        if self._journal.store.get(self._name, 1) is None:
            raise another_writer(self._journal.where)


def _claims(store: LogStore) -> list[Tagged]:
    found = map(tagged_in, store.names(CLAIMS))
    return [each for each in found if each is not None]
