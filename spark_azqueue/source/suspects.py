"""Which messages share a batch after a failure, and which of them is poison. Pure, for all modes.

A batch that fails is delivered again. After `isolate_after` failures its messages are *suspects*:
they come in pieces, and a piece that fails is cut again, until a message is alone in its batch. It
is moved by *contrast*: batches that had it failed, and since the first of these another one was
committed. So a sink that is down convicts no message, and neither does one crash.

The number of a batch says which of two came first.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from spark_azqueue.errors import TooManyPoison
from spark_azqueue.options.source_config import SourceConfig

PARTS = 16
"""A batch of suspects that fails is cut into this many pieces."""

SINGLES_UP_TO = 32
"""A piece of this many is cut into single messages: fewer restarts, for some batches more."""

HISTORIES_AT_MOST = 4_096
"""Of so many suspects the history is kept. Others are new again, and come after these."""

_TRIES_ALONE = 2  # a process may have been killed before its batch ran
_TRIES_ALONE_SOON = 3  # if its batch failed too few times to tell chance from cause
_PART_MOVED = 10
_WINDOW = 10_000


class FailureHistory(NamedTuple):
    """How the batches of a message ended since it was first delivered, or last committed.

    failures: of them, in a row. alone: how many of the newest had it alone. since, batch: numbers
    of the first and the newest one that failed. size: how many messages the newest one had. proven:
    when that one failed, another batch had been committed since the first failure. (One that is
    committed later says nothing: the sink may have come back.)
    """

    failures: int
    alone: int
    since: int
    batch: int
    size: int
    proven: bool = False


class Verdict(enum.Enum):
    """What to do with a suspect that failed again."""

    AGAIN = "deliver it again"
    POISON = "move it to the poison queue"
    UNPROVEN = "it would be poison, but nothing else was committed since: it may be the sink"
    TOO_MANY = "it would be poison, but too many messages were moved"


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known beside the histories.

    committed: the newest batch with messages that was committed, 0 without any. by_chance: a batch
    that had failed was committed later, so failures are partly chance. is_unproven: a message was
    moved, and nothing was committed since. moved, delivered: counts of messages, both halved from
    time to time, so that they are about the newest ten thousand.
    """

    committed: int = 0
    by_chance: bool = False
    is_unproven: bool = False
    moved: int = 0
    delivered: int = 0

    def on_committed(
        self, number: int, messages: int, histories: Iterable[FailureHistory], repeats: int = 0
    ) -> Evidence:
        """A batch of this many messages was committed. histories: of those that are suspects.

        repeats: how often the batch itself had failed before.
        """
        if not messages:
            return self
        by_chance = repeats > 1 or any(
            each.alone or (each.failures > 1 and each.size <= messages) for each in histories
        )
        counted = replace(
            self,
            committed=max(self.committed, number),
            by_chance=self.by_chance or by_chance,
            is_unproven=False,
            delivered=self.delivered + messages,
        )
        if counted.delivered < _WINDOW:
            return counted
        half = counted.delivered // 2
        return replace(counted, delivered=half, moved=counted.moved // 2, by_chance=by_chance)

    def kept(self, *, has_suspects: bool) -> Evidence:
        """What of it a later process needs."""
        is_needed = has_suspects or self.moved or self.by_chance or self.is_unproven
        return self if is_needed else Evidence()

    def on_moved(self, history: FailureHistory) -> Evidence:
        """A message with this history was moved."""
        return replace(
            self,
            moved=self.moved + 1,
            delivered=self.delivered + 1,
            is_unproven=self.is_unproven or not history.proven,
        )


@dataclass(frozen=True, slots=True)
class IsolationRule:
    """The options, and what follows from them.

    most_failures: maxDequeueCount. isolate_after: so many failures of a batch, and its messages are
    suspects. most_moved: above it, a tenth of the delivered messages is too many.
    """

    most_failures: int
    isolate_after: int
    most_moved: int

    @classmethod
    def of(cls, config: SourceConfig) -> IsolationRule | None:
        """That of these options, None if poison handling is off."""
        most = config.max_dequeue_count
        if most is None:
            return None
        default = most + 1 if config.write_ahead_log else 2
        return cls(most, config.isolate_after or default, config.max_poison_messages)

    def share(self, history: FailureHistory) -> int:
        """How many messages may share the next batch with a suspect."""
        if history.failures < self.isolate_after:
            return history.size
        return 1 if history.size <= SINGLES_UP_TO else -(-history.size // PARTS)

    def said_of(self, history: FailureHistory, evidence: Evidence) -> str:
        """What a batch with this history did, for people."""
        times = f"failed {history.failures} times in a row"
        if history.size == 1:
            what = f"batch {history.batch} (1 message) failed, its message {times}"
            if self.verdict(history, evidence) is not Verdict.UNPROVEN:
                return what
            return f"{what}, and no other was committed: it may be the sink, so it is not moved"
        what = f"batch {history.batch} ({history.size} messages) failed, its messages {times}"
        if history.failures < self.isolate_after:
            return what
        return f"{what}: split into {-(-history.size // self.share(history))}"

    def verdict(self, history: FailureHistory, evidence: Evidence) -> Verdict:
        """What to do with a suspect, now that a batch that had it failed."""
        times = 2 if evidence.by_chance or not history.proven else 1
        is_soon = self.isolate_after <= self.most_failures
        alone = max(_TRIES_ALONE * times, _TRIES_ALONE_SOON if is_soon else 0)
        if history.alone < alone or history.failures <= self.most_failures * times:
            return Verdict.AGAIN
        if not history.proven and evidence.is_unproven:
            return Verdict.UNPROVEN
        moved = evidence.moved + 1
        if moved > self.most_moved and moved * _PART_MOVED > evidence.delivered + 1:
            return Verdict.TOO_MANY
        return Verdict.POISON

    def is_poison(self, history: FailureHistory, evidence: Evidence) -> bool:
        """True if a message is to be moved. Raises TooManyPoison."""
        verdict = self.verdict(history, evidence)
        if verdict is Verdict.TOO_MANY:
            raise TooManyPoison(
                f"a message would be dead-lettered as poison ({why(history)}), and"
                f" {evidence.moved} of {evidence.delivered} delivered ones were before: the query"
                f" moves no more than {self.most_moved} and a tenth of them, since its sink may be"
                " at fault. Correct what makes batches fail, or raise 'maxPoisonMessages'"
            )
        return verdict is Verdict.POISON


def why(history: FailureHistory, error: str = "") -> str:
    """Why a message is poison, for a reader of its dead letter.

    error: what its newest batch raised, if that is known.
    """
    others = (
        "others were committed meanwhile"
        if history.proven
        else "no other was committed meanwhile, so it may be the sink"
    )
    raised = f". The last error: {error}" if error else ""
    return (
        f"{history.failures} batches with it failed in a row, the last {history.alone} with it"
        f" alone (batch {history.batch}); {others}{raised}"
    )


def status(said: str, suspects: int) -> str:
    """What isolation does, in a line: for an offset, and so for the line of a restart."""
    left = f"{suspects} suspects left" if suspects else ""
    return "; ".join(filter(None, (said, left)))


SAID_OF_MOVED = "dead-lettered a message that failed alone"


def failed(
    before: FailureHistory | None,
    evidence: Evidence,
    number: int,
    size: int,
    *,
    times: int = 1,
    is_alone: bool = True,
) -> FailureHistory:
    """The history of a message of a batch that failed. before: None if it had none.

    times: how often the same batch failed. is_alone: Spark's batch had no other messages.
    """
    alone = times if size == 1 and is_alone else 0
    if before is None:
        return FailureHistory(times, alone, number, number, size)
    return FailureHistory(
        before.failures + times,
        before.alone + alone if alone else 0,
        before.since,
        number,
        size,
        evidence.committed > before.since,
    )


def turn(history: FailureHistory, evidence: Evidence) -> tuple[int, int, int]:
    """Suspects with the lowest turn are delivered first; see `LAST`.

    If another batch was committed since its failure, the one that failed most: so failures and
    commits alternate, and each verdict has its contrast. Else the one that failed least.
    """
    if evidence.committed > history.batch:
        return 0, -history.failures, history.batch
    return (LAST if history.alone else 1), history.failures, history.batch


LAST = 2
"""It failed alone, and nothing was committed since: messages that are no suspects come before."""
