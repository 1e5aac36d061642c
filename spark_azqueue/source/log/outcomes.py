"""The final outcome of a batch: it was committed, or it was given up because it fails.

A batch has at most one outcome, `verdicts/<number>`, and the first process to create it decides. So
a batch whose messages are deleted is never given up, and one that was given up is never settled,
also if two processes believe that they run the query, or a checkpoint was rolled back.
Replays are counted in `tries/<number>-<writer>`, one object for each process that was asked for a
segment of another one.
"""

from __future__ import annotations

import enum
import logging

from spark_azqueue.journal.codec import Damaged, sealed, unsealed
from spark_azqueue.journal.journal import Journal
from spark_azqueue.journal.numbers import number_in, tagged_in

from . import names

log = logging.getLogger(__name__)

_AT_MOST = 1_024


class BatchOutcome(enum.Enum):
    """The outcome of a batch."""

    COMMITTED = "committed"
    """It has its rows for ever, and its messages are deleted."""
    SPLIT = "split"
    """It was given up: it has no rows, and its messages return, in smaller batches."""
    POISON = "poison"
    """It was given up: its only message was copied to the poison queue, and is deleted."""

    @property
    def gives_up(self) -> bool:
        """True if the batch has no rows."""
        return self is not BatchOutcome.COMMITTED


def outcome_due(
    replays: int, maximum: int | None, *, is_suspect: bool, is_single: bool
) -> BatchOutcome | None:
    """The outcome on a batch that was asked for again, None if it gets another try.

    replays: how many processes were asked for it after its writer, this one included. maximum:
    maxDequeueCount; None: never. is_single: Spark's batch has one message. A batch of suspects is
    split at its first replay. A suspect that is alone is poison at its second: at the first, it is
    unknown whether its batch has run at all.
    """
    if maximum is None or replays <= (int(is_single) if is_suspect else maximum):
        return None
    return BatchOutcome.POISON if is_single else BatchOutcome.SPLIT


def alone(number: int, tries: int) -> str:
    """Why the only message of a batch is copied to its poison queue."""
    return f"batch {number} failed {tries} times with it alone"


def warn_of_split(number: int, where: str, tries: int, messages: int) -> None:
    """Say that a batch is given up. where: the log."""
    log.warning(
        "batch %d of the write-ahead log %s failed %d times and is abandoned: it has no rows, and"
        " its %d messages come again in other batches (at least once)",
        *(number, where, tries, messages),
    )


class BatchOutcomes:
    """The outcomes and tries in a log's folder. Used by one thread.

    Raises ServiceError, and LogDamaged for a outcome that cannot be read.
    """

    def __init__(self, journal: Journal, writer: str) -> None:
        self._journal = journal
        self._writer = writer
        self._listed: set[int] = set()
        self._known: dict[int, BatchOutcome] = {}
        self._tries: dict[int, set[str]] = {}

    def find(self) -> None:
        """Find out which there are. Call it once, after the claim."""
        found = map(number_in, self._journal.store.names(names.OUTCOMES))
        self._listed = {number for number in found if number}
        self._find_tries()

    @property
    def highest(self) -> int:
        """The highest number of a batch that has a outcome or tries; 0 without any."""
        return max((*self._listed, *self._tries), default=0)

    def up_to(self, number: int) -> set[int]:
        """The batches up to this one that have a outcome or tries."""
        return {each for each in (*self._listed, *self._tries) if each <= number}

    def on(self, number: int) -> BatchOutcome | None:
        """The outcome on a batch, None if there was none when the log was claimed."""
        if number in self._listed and number not in self._known:
            name = names.outcome(number)
            self._known[number] = self._journal.need(name, _AT_MOST, _parsed)
        return self._known.get(number)

    def decide(self, number: int, outcome: BatchOutcome) -> BatchOutcome:
        """Make this the outcome of a batch, unless it has one. Returns the final one."""
        final = self.on(number)
        if final:
            return final
        data = sealed({"verdict": outcome.value, "writer": self._writer})
        first = self._journal.first(
            names.outcome(number), data, lambda: outcome_on(self._journal, number)
        )
        self._listed.add(number)
        self._known[number] = first or outcome
        return self._known[number]

    def replayed(self, number: int) -> int:
        """Note that this process was asked for a batch of another one. Returns how many were."""
        data = sealed({"writer": self._writer})
        self._journal.store.put_new(names.attempt(number, self._writer), data)
        self._find_tries()
        return len(self._tries.get(number, ()))

    def has_tries(self, number: int) -> bool:
        """True if a process was asked for a batch of another one before the log was claimed."""
        return number in self._tries

    def names_of(self, number: int) -> list[str]:
        """The objects of a batch."""
        tries = [names.attempt(number, writer) for writer in self._tries.get(number, ())]
        return [names.outcome(number), *tries] if number in self._listed else tries

    def forget(self, number: int) -> None:
        """What is known of a batch is removed with its segment. Its number is not used again."""
        self._listed.discard(number)
        self._known.pop(number, None)
        self._tries.pop(number, None)

    def _find_tries(self) -> None:
        self._tries.clear()
        for each in map(tagged_in, self._journal.store.names(names.TRIES)):
            if each:
                self._tries.setdefault(each.number, set()).add(each.tag)


def outcome_on(journal: Journal, number: int) -> BatchOutcome | None:
    """The outcome on a batch, None if there is none. Raises ServiceError, LogDamaged."""
    return journal.read(names.outcome(number), _AT_MOST, _parsed)


def _parsed(data: bytes) -> BatchOutcome:
    found = unsealed(data)
    try:
        if isinstance(found, dict):
            return BatchOutcome(found.get("verdict"))
    except ValueError:
        pass
    raise Damaged("its verdict is unknown")
