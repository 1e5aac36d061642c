"""Final outcome of a batch: the batch was committed, or was abandoned because it fails.

A batch has at most one outcome, the object `outcomes/<number>`; the first process that creates this
object decides. So a batch whose messages are deleted is never abandoned, and an abandoned batch
never has its messages deleted. This guarantee holds even if two processes run the query, or if a
checkpoint was rolled back.

The attempts to run a batch are counted by objects `attempts/<number>-<writer>`: there is one object
for each process that Spark asked for a segment of another process. The newest outcome also stores
the findings about suspects. So one write changes both.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

from spark_azqueue.journal.codec import Damaged, sealed, unsealed
from spark_azqueue.journal.journal import Journal
from spark_azqueue.journal.numbers import number_in, tagged_in

from ..findings import Findings
from ..offset_columns import DamagedOffset
from . import names

_AT_MOST = 2**20


class BatchOutcome(enum.Enum):
    """Outcome of a batch."""

    COMMITTED = "committed"
    """The batch keeps its rows forever, and its messages are deleted."""
    SPLIT = "split"
    """The batch was abandoned: it has no rows, and later, smaller batches have its messages."""
    POISON = "poison"
    """The batch was abandoned: its only message was copied to the poison queue, and is deleted."""

    @property
    def gives_up(self) -> bool:
        """True if the batch has no rows."""
        return self is not BatchOutcome.COMMITTED


class Decided(NamedTuple):
    """An outcome, and the findings about suspects at the time of the decision."""

    outcome: BatchOutcome
    findings: Findings


class BatchOutcomes:
    """Outcomes and attempts in a log's folder. Used by one thread.

    Raises ServiceError, and LogDamaged for an outcome that cannot be read.
    """

    def __init__(self, journal: Journal, writer: str) -> None:
        self._journal = journal
        self._writer = writer
        self._listed: set[int] = set()
        self._known: dict[int, Decided] = {}
        self._attempts: dict[int, set[str]] = {}

    def find(self) -> None:
        """List the outcomes and attempts of the log. Called once, after the claim."""
        found = map(number_in, self._journal.store.names(names.OUTCOMES))
        self._listed = {number for number in found if number}
        self._find_attempts()

    @property
    def highest(self) -> int:
        """Highest number of a batch that has an outcome or attempts; 0 without such a batch."""
        return max((*self._listed, *self._attempts), default=0)

    def up_to(self, number: int) -> set[int]:
        """Return the numbers of the batches up to this number that have an outcome or attempts."""
        return {each for each in (*self._listed, *self._attempts) if each <= number}

    def on(self, number: int) -> BatchOutcome | None:
        """Return the outcome of a batch, or None if the batch had no outcome when the log was
        claimed."""
        decided = self._decided(number)
        return decided and decided.outcome

    def _decided(self, number: int) -> Decided | None:
        if number in self._listed and number not in self._known:
            self._known[number] = self._journal.need(names.outcome(number), _AT_MOST, self._parsed)
        return self._known.get(number)

    def _parsed(self, data: bytes) -> Decided:
        return _parsed(data, self._journal.account)

    @property
    def newest_findings(self) -> Findings:
        """Findings about suspects that the newest outcome stores."""
        decided = self._decided(max(self._listed)) if self._listed else None
        return decided.findings if decided else Findings()

    def decide(
        self, number: int, outcome: BatchOutcome, findings: Findings | None = None
    ) -> Decided:
        """Store this outcome, unless the batch already has an outcome. Returns the batch's outcome.

        findings: findings about suspects, stored with the outcome.
        """
        final = self._decided(number)
        if final:
            return final
        ours = Decided(outcome, findings or Findings())
        value: dict[str, object] = {"outcome": outcome.value, "writer": self._writer}
        if ours.findings:
            value["suspects"] = ours.findings.to_json()
        name = names.outcome(number)
        first = self._journal.first(
            name, sealed(value), lambda: self._journal.read(name, _AT_MOST, self._parsed)
        )
        self._listed.add(number)
        self._known[number] = first or ours
        self._forget_findings_before(number)
        return self._known[number]

    def _forget_findings_before(self, number: int) -> None:
        before = self._known.get(number - 1)
        if before and before.findings:
            self._known[number - 1] = Decided(before.outcome, Findings())

    def attempts(self, number: int) -> int:
        """Return the number of processes that tried to run this batch after the process that wrote
        it.
        """
        return len(self._attempts.get(number, ()))

    def replayed(self, number: int) -> int:
        """Record that this process tries to run a batch that another process wrote.

        Returns the number of processes that tried to, including this process.
        """
        data = sealed({"writer": self._writer})
        self._journal.store.put_new(names.attempt(number, self._writer), data)
        self._find_attempts()
        return self.attempts(number)

    def has_attempts(self, number: int) -> bool:
        """Return True if a process tried to run this batch after the process that wrote it."""
        return number in self._attempts

    def names_of(self, number: int) -> list[str]:
        """Return the names of the objects with the outcome and the attempts of a batch."""
        attempts = [names.attempt(number, writer) for writer in self._attempts.get(number, ())]
        return [names.outcome(number), *attempts] if number in self._listed else attempts

    def forget(self, number: int) -> None:
        """Remove the outcome and attempts of a batch from memory, because its segment is removed.

        The batch's number is not used again.
        """
        self._listed.discard(number)
        self._known.pop(number, None)
        self._attempts.pop(number, None)

    def _find_attempts(self) -> None:
        self._attempts.clear()
        for each in map(tagged_in, self._journal.store.names(names.ATTEMPTS)):
            if each:
                self._attempts.setdefault(each.number, set()).add(each.tag)


def outcome_on(journal: Journal, number: int) -> BatchOutcome | None:
    """Return the outcome of a batch, or None if the batch has no outcome. Raises ServiceError,
    LogDamaged."""
    found = journal.read(
        names.outcome(number), _AT_MOST, lambda data: _parsed(data, journal.account)
    )
    return found and found.outcome


def _parsed(data: bytes, account: str) -> Decided:
    found = unsealed(data)
    try:
        if isinstance(found, dict):
            findings = Findings.from_json(found.get("suspects", {}), account)
            return Decided(BatchOutcome(found.get("outcome")), findings)
    except DamagedOffset as error:
        raise Damaged(str(error)) from None
    except ValueError:
        pass
    raise Damaged("its outcome is unknown")
