"""Which messages share a batch after a failure, and which of them is poison. Pure, for all modes.

A batch that fails is delivered again. After some failures its messages are *suspects*: they come in
pieces, and a piece that fails is cut again, until a message is alone in its batch. Such a message
is a *lone suspect*. A lone suspect is tested after a commit of another batch, and it is moved if
chance does not explain its failures: a sink that is down or that fails now and then convicts none.

The number of a batch says which of two came first.
"""

from __future__ import annotations

import enum
import hashlib
import math
from collections import Counter
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

REPEATS = 4
"""Failures of the first batch before it is cut: an outage of some 20 seconds cuts none."""

CHANCE_AT_MOST = 1e-5
"""A message is moved if chance explains its failures with this probability at most."""

_MOSTLY_CHANCE = 0.9  # above it no message is moved
_OFTEN = 0.5  # above it the status says that the sink fails
_PATIENT_FROM = 0.15
_MOST_PATIENT = 12
_LATE = 0.3  # weight of a failure that came when nothing was left to compare with
_FEWEST_COUNTED = 2
_WINDOW_OF_BATCHES = 400
_PART_MOVED = 10
_WINDOW = 10_000
_KEPT_BACK = 8
_SCARCE = 16


class FailureHistory(NamedTuple):
    """How the batches of a message ended since it was first delivered, or last committed.

    failures: of these batches, in a row. tries: how many of the newest had the same messages.
    counted: how many of these tries came directly after a commit of another batch. since, batch:
    numbers of the first and the newest one that failed. size: how many messages the newest one had.
    proven: when that one failed, another batch had been committed since the first failure. (A
    commit after it says nothing: the sink may have come back.)
    """

    failures: int
    tries: int
    counted: int
    since: int
    batch: int
    size: int
    proven: bool = False

    @property
    def is_lone(self) -> bool:
        """True if the newest batch had this message alone."""
        return self.size == 1

    @property
    def alone(self) -> int:
        """How many of the newest batches had it alone."""
        return self.tries if self.is_lone else 0


class Verdict(enum.Enum):
    """What to do with a suspect that failed again."""

    AGAIN = "deliver it again"
    POISON = "move it to the poison queue"
    UNPROVEN = "it would be poison, but nothing else was committed since: it may be the sink"
    TOO_MANY = "too many messages are poison"


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known beside the histories.

    committed: the newest batch with messages that was committed, 0 without any. has_failed: the
    newest batch failed. recovered: failures directly after a commit whose messages were committed
    later, so chance failed these batches. in_a_row: commits directly after a commit. firsts,
    firsts_failed: first tries of single messages, and those of them that failed. These four are
    about the newest hundreds of batches. is_unproven: a
    message was moved, and nothing was committed since its first failure. moved,
    delivered: counts of messages, of the newest ten thousand.
    """

    committed: int = 0
    has_failed: bool = False
    recovered: int = 0
    in_a_row: int = 0
    firsts: int = 0
    firsts_failed: int = 0
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
        histories = [*histories]
        # A larger batch may have failed by another message.
        recovered = max((each.counted for each in histories if each.size <= messages), default=0)
        is_after_commit = not self.has_failed
        seen = replace(
            self,
            committed=max(self.committed, number),
            has_failed=False,
            recovered=self.recovered + recovered + (is_after_commit and repeats > 0),
            in_a_row=self.in_a_row + (is_after_commit and not repeats),
            is_unproven=False,
            delivered=self.delivered + messages,
        )
        if messages == 1 and not any(each.is_lone for each in histories):
            seen = replace(seen, firsts=seen.firsts + 1)
        return faded(seen)

    def on_failed(self, size: int, before: FailureHistory | None) -> Evidence:
        """A batch of this many messages failed. before: the history of one of its messages."""
        is_first = size == 1 and not (before and before.is_lone)
        return faded(
            replace(
                self,
                has_failed=True,
                firsts=self.firsts + is_first,
                firsts_failed=self.firsts_failed + is_first,
            )
        )

    def on_moved(self, history: FailureHistory) -> Evidence:
        """A message with this history was moved."""
        return replace(
            self,
            moved=self.moved + 1,
            delivered=self.delivered + 1,
            is_unproven=self.is_unproven or not history.proven,
        )

    def kept(self, *, has_suspects: bool) -> Evidence:
        """What of it a later process needs."""
        is_needed = has_suspects or self.moved or self.recovered or self.is_unproven
        return self if is_needed else Evidence()


def faded(seen: Evidence) -> Evidence:
    """The same, with old counts halved."""
    if seen.recovered + seen.in_a_row > _WINDOW_OF_BATCHES:
        seen = replace(seen, recovered=seen.recovered // 2, in_a_row=seen.in_a_row // 2)
    if seen.firsts > _WINDOW_OF_BATCHES:
        seen = replace(seen, firsts=seen.firsts // 2, firsts_failed=seen.firsts_failed // 2)
    if seen.delivered >= _WINDOW:
        seen = replace(seen, delivered=seen.delivered // 2, moved=seen.moved // 2)
    return seen


@dataclass(frozen=True, slots=True)
class Odds:
    """What chance explains, given the evidence and the lone suspects of now.

    chance: the probability that a batch without a guilty message fails directly after a commit.
    guilty: how many messages are guilty, about: moved ones, and a share of the lone suspects.
    needed: how many commits of other batches the lone suspects need until they are decided, about.
    lone: how many they are. patience: how often a batch of several messages is tried before it is
    cut, so that chance explains its failures with 10 % at most.
    """

    chance: float
    guilty: float
    needed: int
    lone: int
    patience: int

    @classmethod
    def of(cls, evidence: Evidence, histories: Iterable[FailureHistory]) -> Odds:
        """Estimate them by expectation and maximization.

        The first guess is that chance failed each single message that failed at its first try. A
        suspect that fails at each test is guilty, and its failures do not count as chance then. If
        lone suspects were committed later, most of the others are innocent, too; if each of them
        was moved, they are guilty.
        """
        counted = Counter(each.counted for each in histories if each.is_lone)
        lone, moved = counted.total(), evidence.moved
        acquitted = max(0, evidence.firsts_failed - moved - lone)
        chance = (evidence.firsts_failed + 1) / (evidence.firsts + 1)
        share, guilty, innocent = 0.0, 0.0, dict.fromkeys(counted, 1.0)
        for _ in range(_STEPS):
            share = (moved + guilty + 0.25) / (moved + guilty + acquitted + 2)
            for k in counted:
                good = (1 - share) * chance ** max(0, k - 1)
                innocent[k] = good / (good + share)
            by_chance = evidence.recovered + 0.5
            by_chance += sum(innocent[k] * k * n for k, n in counted.items())
            chance = by_chance / (by_chance + evidence.in_a_row + 0.5)
            guilty = sum((1 - innocent[k]) * n for k, n in counted.items() if k > 1)
        if share > 0.5:  # most suspects that were decided are guilty, so the others are
            guilty += (1 - innocent.get(1, 1.0)) * counted[1]
        is_known = evidence.recovered + evidence.firsts >= _FEWEST_KNOWN
        patience = _patience(chance) if is_known else 1
        if chance > _MOSTLY_CHANCE:
            return cls(1.0, moved, 3 * lone, lone, patience)
        tests = min(_MOST_TESTS, _tests(chance))
        needed = 0.0
        for k, n in counted.items():
            as_guilty, as_innocent = max(1.0, tests - k), 1 / (1 - chance)
            needed += n * (1 + innocent[k] * as_innocent + (1 - innocent[k]) * as_guilty)
        return cls(chance, evidence.moved + guilty, math.ceil(needed), lone, patience)

    def is_excluded(self, history: FailureHistory) -> bool:
        """True if chance does not explain the failures of this lone suspect."""
        if not history.proven or history.counted < _FEWEST_COUNTED or self.chance >= 1:
            return False
        late = max(0, history.tries - history.counted - 1)
        explained = self.chance**history.counted * max(self.chance, _LATE) ** late
        return explained <= CHANCE_AT_MOST


_STEPS = 30
_MOST_TESTS = 6.0
_FEWEST_KNOWN = 3


def _tests(chance: float) -> float:
    """How often a message fails until chance does not explain it."""
    return math.log(CHANCE_AT_MOST) / math.log(chance)


def _patience(chance: float) -> int:
    if chance < _PATIENT_FROM:
        return 1
    return min(_MOST_PATIENT, math.ceil(math.log(0.1) / math.log(min(chance, 0.83))))


@dataclass(frozen=True, slots=True)
class IsolationRule:
    """The options, and what follows from them.

    most_failures: maxDequeueCount. most_moved: above it, a tenth of the delivered messages is too
    many. source: names the source, so that two of one query do not do the same in the same batch.
    """

    most_failures: int
    most_moved: int
    source: str = ""

    @classmethod
    def of(cls, config: SourceConfig) -> IsolationRule | None:
        """That of these options, None if poison handling is off."""
        most = config.max_dequeue_count
        if most is None:
            return None
        names = ",".join((*(each.name for each in config.queues), *config.selection.patterns))
        return cls(most, config.max_poison_messages, f"{config.account.name}/{names}")

    def repeats(self, odds: Odds, *, is_first: bool) -> int:
        """After how many failures a batch is cut. is_first: nothing is isolated yet."""
        return max(REPEATS if is_first else 1, odds.patience)

    def share(self, history: FailureHistory, odds: Odds) -> int:
        """How many messages may share the next batch with a suspect."""
        is_first = history.failures == history.tries and not odds.lone
        if history.tries < self.repeats(odds, is_first=is_first):
            return history.size
        return 1 if history.size <= SINGLES_UP_TO else -(-history.size // PARTS)

    def most_beside(self, odds: Odds, left: int, *, is_all: bool) -> int:
        """The most messages in a batch that lone suspects are compared with.

        left: how many messages wait here besides them. is_all: the queues show no more. A commit of
        another batch has to precede each test, so a few messages are kept back for it.
        """
        if not odds.lone:
            return left
        return max(1, left // (odds.needed + 1) if is_all else left // 2)

    def enough(self, odds: Odds) -> int:
        """How many messages besides lone suspects have to wait here if the queues have as many."""
        return _KEPT_BACK * odds.needed

    def tests_now(self, evidence: Evidence) -> bool:
        """True if a lone suspect is tested next: after a commit, and mostly after every second."""
        if evidence.has_failed:
            return False
        return hashed(self.source, evidence.committed) % 2 == 0

    def is_scarce(self, evidence: Evidence, odds: Odds, left: int) -> bool:
        """True if a lone suspect is tested after each commit: few messages are left besides."""
        return not evidence.has_failed and left <= min(odds.needed, _SCARCE)

    def turn(self, history: FailureHistory, evidence: Evidence) -> tuple[int, int, int]:
        """Suspects with the lowest turn are delivered first; see `LAST`.

        After a commit the lone suspect that failed most; else the piece that failed last.
        """
        if history.is_lone:
            if evidence.has_failed:
                return LAST, history.tries, history.batch
            return 0 if self.tests_now(evidence) else LAST, -history.counted, history.batch
        return 1, -history.batch, history.failures

    def said_of(self, history: FailureHistory, evidence: Evidence, odds: Odds) -> str:
        """What a batch with this history did, for people."""
        times = f"failed {history.failures} times in a row"
        if history.size == 1:
            what = f"batch {history.batch} (1 message) failed, its message {times}"
            if self.verdict(history, evidence, odds) is not Verdict.UNPROVEN:
                return f"{what}{_of_sink(odds)}"
            return f"{what}, and no other was committed: it may be the sink, so it is not moved"
        what = f"batch {history.batch} ({history.size} messages) failed, its messages {times}"
        share = self.share(history, odds)
        if share == history.size:
            return ""  # a first batch is tried again, and nothing is isolated yet
        return f"{what}: split into {-(-history.size // share)}{_of_sink(odds)}"

    def verdict(self, history: FailureHistory, evidence: Evidence, odds: Odds) -> Verdict:
        """What to do with a suspect, now that a batch that had it failed.

        evidence: before that failure. odds: with it.
        """
        if not history.is_lone:
            return Verdict.AGAIN
        if self.are_too_many(odds.guilty, evidence):
            return Verdict.TOO_MANY
        if history.failures <= self.most_failures:
            return Verdict.AGAIN
        if not odds.is_excluded(history):
            tries: float = self.most_failures if history.proven else 2 * self.most_failures + 2
            if evidence.recovered:
                tries = max(tries, _tests(min(odds.chance, _MOSTLY_CHANCE)))
            if not evidence.has_failed or history.tries <= tries:
                return Verdict.AGAIN
            if evidence.is_unproven and not history.proven:
                return Verdict.UNPROVEN
        is_one_too_many = self.are_too_many(evidence.moved + 1, evidence)
        return Verdict.TOO_MANY if is_one_too_many else Verdict.POISON

    def are_too_many(self, messages: float, evidence: Evidence) -> bool:
        """True if so many poison messages are above the limit, and a tenth of those delivered."""
        delivered = evidence.delivered + messages
        return messages > self.most_moved and messages * _PART_MOVED > delivered

    def is_poison(self, history: FailureHistory, evidence: Evidence, odds: Odds) -> bool:
        """True if a message is to be moved. Raises TooManyPoison. See `verdict`."""
        verdict = self.verdict(history, evidence, odds)
        if verdict is Verdict.TOO_MANY:
            raise TooManyPoison(
                f"{round(max(odds.guilty, evidence.moved + 1))} messages fail each batch that has"
                f" them, and {evidence.delivered} were delivered or dead-lettered. The query"
                f" dead-letters no more than {self.most_moved} and a tenth of them: it is the data"
                " or the code, or a target is down. Correct it and start once with"
                " maxDequeueCount=none, or raise 'maxPoisonMessages'. The newest of these messages:"
                f" {why(history)}"
            )
        return verdict is Verdict.POISON


def _of_sink(odds: Odds) -> str:
    if odds.chance <= _OFTEN:
        return ""
    if odds.chance > _MOSTLY_CHANCE:
        return "; nearly all batches fail: no message is convicted meanwhile"
    return f"; the sink fails {odds.chance:.0%} of all batches: a conviction takes many tests"


def hashed(*parts: object) -> int:
    """A number that these values decide."""
    text = "\n".join(map(str, parts)).encode(errors="surrogatepass")
    return int.from_bytes(hashlib.sha256(text).digest()[:8], "big")


def why(history: FailureHistory, error: str = "") -> str:
    """Why a message is poison, for a reader of its dead letter.

    error: what its newest batch raised, if that is known.
    """
    others = (
        f"{history.counted} of them directly after another was committed"
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
    size = size if is_alone else max(size, 2)
    counted = int(not evidence.has_failed)
    if before is None:
        return FailureHistory(times, times, counted, number, number, size)
    is_same = before.size == size
    return FailureHistory(
        before.failures + times,
        (before.tries if is_same else 0) + times,
        (before.counted if is_same else 0) + counted,
        before.since,
        number,
        size,
        evidence.committed > before.since,
    )


LAST = 2
"""A lone suspect that is not tested now: messages that are no suspects come before."""
