"""Isolation of poison messages: decides which messages share a batch after a failure, and which
messages are poison.

A batch that fails is delivered again. After some failures, the batch's messages are *suspects*.
Suspects are delivered in smaller batches, called pieces. A piece that fails is cut again, until a
message is alone in its batch. Such a message is called a *lone suspect*. A lone suspect is
delivered only after another batch was committed, which shows that the sink works. The message is
moved to the poison queue if its failures are very unlikely to be chance. So no message is moved
only because a sink is down, or fails now and then.

Batches are numbered in the order of their first delivery. Functions of this module have no side
effects.
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
"""Number of pieces into which a failed batch is cut."""

SINGLES_UP_TO = 32
"""A failed piece of at most this many messages is cut into single messages. Single messages need
fewer restarts, but more batches."""

HISTORIES_AT_MOST = 4_096
"""Maximum number of suspects whose history is kept. Further messages of failed batches are treated
as if they had not failed, and are delivered later."""

REPEATS = 4
"""Number of failures of the same batch after which it is cut, if there are no suspects yet. So an
outage of about 20 s cuts no batch."""

CHANCE_AT_MOST = 1e-5
"""A message is moved if the probability that its failures are chance is at most this number."""

_MOSTLY_CHANCE = 0.9  # above this probability, no message is moved
_OFTEN = 0.5  # above this probability, the status says that the sink fails
_PATIENT_FROM = 0.15
_MOST_PATIENT = 12
_LATE = 0.3  # lowest factor for a failure that does not directly follow a commit
_FEWEST_COUNTED = 2
_WINDOW_OF_BATCHES = 400
_PART_MOVED = 10
_WINDOW = 10_000
_KEPT_BACK = 8
_SCARCE = 16


class FailureHistory(NamedTuple):
    """The failed batches of a suspect.

    failures: number of failures in a row. tries: how many of the newest failures in a row had a
    batch of the same size. counted: number of these tries that directly followed the commit of
    another batch. since, batch: numbers of the first and the newest failed batch. size: number of
    messages in the newest failed batch. proven: True if another batch was committed between the
    first and the newest failure. (A commit after the newest failure proves nothing, because the
    sink may have failed before and work now.)
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
        """True if the newest batch had only this message."""
        return self.size == 1

    @property
    def alone(self) -> int:
        """Number of the newest failures in a row in which the batch had only this message."""
        return self.tries if self.is_lone else 0


class Verdict(enum.Enum):
    """The decision about a suspect that failed again."""

    AGAIN = "deliver it again"
    POISON = "move it to the poison queue"
    UNPROVEN = "it would be poison, but nothing else was committed since: it may be the sink"
    TOO_MANY = "too many messages are poison"


@dataclass(frozen=True, slots=True)
class Evidence:
    """Counts over all batches, in addition to the histories of suspects.

    committed: newest committed batch that has messages, or 0. has_failed: True if the newest batch
    failed. recovered: number of failures by chance: failures that directly followed a commit, and
    whose messages were committed later. in_a_row: number of commits that directly followed a
    commit. firsts: number of single messages that were tried alone for the first time.
    firsts_failed: how many of these first tries failed. These four counts cover the newest hundreds
    of batches. is_unproven: True if a message whose history is not `proven` was moved, and no batch
    was committed after the move. moved, delivered: number of moved messages, and number of
    delivered messages, among the newest ten thousand.
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
        """Return the evidence after a commit. histories: histories of the batch's suspects.

        messages: number of the batch's messages. repeats: how often the batch failed before.
        """
        if not messages:
            return self
        histories = [*histories]
        # If the failed batch was larger, another message of it may have caused the failure.
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
        """Return the evidence after a batch of `size` messages failed.

        before: the history of one message of the batch, before this failure.
        """
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
        """Return the evidence after a message with this history was moved."""
        return replace(
            self,
            moved=self.moved + 1,
            delivered=self.delivered + 1,
            is_unproven=self.is_unproven or not history.proven,
        )

    def kept(self, *, has_suspects: bool) -> Evidence:
        """Return this evidence if a later process needs it, else empty evidence."""
        is_needed = has_suspects or self.moved or self.recovered or self.is_unproven
        return self if is_needed else Evidence()


def faded(seen: Evidence) -> Evidence:
    """Return the evidence with large counts halved, so that older batches have less weight."""
    if seen.recovered + seen.in_a_row > _WINDOW_OF_BATCHES:
        seen = replace(seen, recovered=seen.recovered // 2, in_a_row=seen.in_a_row // 2)
    if seen.firsts > _WINDOW_OF_BATCHES:
        seen = replace(seen, firsts=seen.firsts // 2, firsts_failed=seen.firsts_failed // 2)
    if seen.delivered >= _WINDOW:
        seen = replace(seen, delivered=seen.delivered // 2, moved=seen.moved // 2)
    return seen


@dataclass(frozen=True, slots=True)
class Odds:
    """Estimate of how often a batch fails by chance, and how many messages are poison.

    A guilty message makes every batch fail that contains it. chance: probability that a batch
    without a guilty message fails directly after a commit. guilty: estimated number of guilty
    messages, which includes the moved messages and a share of the lone suspects. needed: estimated
    number of commits of other batches until each lone suspect is committed or moved. lone: number
    of lone suspects. patience: number of failed tries after which a batch of several messages is
    cut. The probability that this many tries in a row fail by chance is at most 10 %, unless
    `patience` has its maximum of 12.
    """

    chance: float
    guilty: float
    needed: int
    lone: int
    patience: int

    @classmethod
    def of(cls, evidence: Evidence, histories: Iterable[FailureHistory]) -> Odds:
        """Estimate the odds from the evidence and the lone suspects by expectation-maximization.

        The estimation begins with the assumption that every first try of a single message that
        failed, failed by chance. A suspect that fails every test is probably guilty, so its
        failures do not count as failures by chance. If earlier lone suspects were committed later,
        most current lone suspects are innocent. If all earlier lone suspects were moved, the
        current lone suspects are guilty.
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
        if share > 0.5:  # if most suspects were guilty so far, the others probably are guilty too
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
        """Return True if it is too unlikely that a lone suspect with this history failed by
        chance."""
        if not history.proven or history.counted < _FEWEST_COUNTED or self.chance >= 1:
            return False
        late = max(0, history.tries - history.counted - 1)
        explained = self.chance**history.counted * max(self.chance, _LATE) ** late
        return explained <= CHANCE_AT_MOST


_STEPS = 30
_MOST_TESTS = 6.0
_FEWEST_KNOWN = 3


def _tests(chance: float) -> float:
    """Return how many failures in a row have the probability CHANCE_AT_MOST."""
    return math.log(CHANCE_AT_MOST) / math.log(chance)


def _patience(chance: float) -> int:
    if chance < _PATIENT_FROM:
        return 1
    return min(_MOST_PATIENT, math.ceil(math.log(0.1) / math.log(min(chance, 0.83))))


@dataclass(frozen=True, slots=True)
class IsolationRule:
    """The rules of isolation for a query's options.

    most_failures: the option `maxDequeueCount`. most_moved: the option `maxPoisonMessages`. More
    messages than this may be moved only if they are at most a tenth of the delivered messages.
    source: name of the source. Two sources of a query have different names, and so test their
    suspects in different batches.
    """

    most_failures: int
    most_moved: int
    source: str = ""

    @classmethod
    def of(cls, config: SourceConfig) -> IsolationRule | None:
        """Return the rule of these options, or None if poison handling is off."""
        most = config.max_dequeue_count
        if most is None:
            return None
        names = ",".join((*(each.name for each in config.queues), *config.selection.patterns))
        return cls(most, config.max_poison_messages, f"{config.account.name}/{names}")

    def repeats(self, odds: Odds, *, is_first: bool) -> int:
        """Return the number of failures after which a batch is cut.

        is_first: there are no suspects yet.
        """
        return max(REPEATS if is_first else 1, odds.patience)

    def share(self, history: FailureHistory, odds: Odds) -> int:
        """Return the maximum number of messages in a suspect's next batch."""
        is_first = history.failures == history.tries and not odds.lone
        if history.tries < self.repeats(odds, is_first=is_first):
            return history.size
        return 1 if history.size <= SINGLES_UP_TO else -(-history.size // PARTS)

    def most_beside(self, odds: Odds, left: int, *, is_all: bool) -> int:
        """Return the maximum size of a batch of other messages while there are lone suspects.

        Before each test of a lone suspect, a batch of other messages must be committed. So some of
        the other messages are kept for later batches.

        left: number of leased messages that are in no batch and are no lone suspects. is_all: True
        if the queues have no further messages.
        """
        if not odds.lone:
            return left
        return max(1, left // (odds.needed + 1) if is_all else left // 2)

    def enough(self, odds: Odds) -> int:
        """Return the number of other messages that should be leased while there are lone
        suspects."""
        return _KEPT_BACK * odds.needed

    def tests_now(self, evidence: Evidence) -> bool:
        """Return True if the next batch tests a lone suspect.

        A lone suspect is tested only directly after a commit, on average after every second commit.
        """
        if evidence.has_failed:
            return False
        return hashed(self.source, evidence.committed) % 2 == 0

    def is_scarce(self, evidence: Evidence, odds: Odds, left: int) -> bool:
        """Return True if the next batch tests a lone suspect because few other messages are left.

        If few other messages are left, a lone suspect is tested after every commit.
        """
        return not evidence.has_failed and left <= min(odds.needed, _SCARCE)

    def turn(self, history: FailureHistory, evidence: Evidence) -> tuple[int, int, int]:
        """Return the sort key that orders suspects.

        The suspect with the lowest key is delivered first; see `LAST`.

        If the next batch tests a lone suspect, this is the lone suspect with the most counted
        failures. Otherwise the piece that failed last is delivered first.
        """
        if history.is_lone:
            if evidence.has_failed:
                return LAST, history.tries, history.batch
            return 0 if self.tests_now(evidence) else LAST, -history.counted, history.batch
        return 1, -history.batch, history.failures

    def said_of(self, history: FailureHistory, evidence: Evidence, odds: Odds) -> str:
        """Return a sentence for the status about a failed batch whose suspects have this
        history."""
        times = f"failed {history.failures} times in a row"
        if history.size == 1:
            what = f"batch {history.batch} (1 message) failed, its message {times}"
            if self.verdict(history, evidence, odds) is not Verdict.UNPROVEN:
                return f"{what}{_of_sink(odds)}"
            return f"{what}, and no other was committed: it may be the sink, so it is not moved"
        what = f"batch {history.batch} ({history.size} messages) failed, its messages {times}"
        share = self.share(history, odds)
        if share == history.size:
            return ""  # the batch is only retried, and nothing is isolated yet
        return f"{what}: split into {-(-history.size // share)}{_of_sink(odds)}"

    def verdict(self, history: FailureHistory, evidence: Evidence, odds: Odds) -> Verdict:
        """Decide what to do with a suspect after its batch failed.

        evidence: the evidence before this failure. odds: the odds including this failure.
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
        """Return True if `messages` is above `most_moved` and above a tenth of the delivered
        messages."""
        delivered = evidence.delivered + messages
        return messages > self.most_moved and messages * _PART_MOVED > delivered

    def is_poison(self, history: FailureHistory, evidence: Evidence, odds: Odds) -> bool:
        """Return True if the message must be moved; see `verdict`. Raises TooManyPoison."""
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
        return "; nearly all batches fail: no message is moved meanwhile"
    return f"; the sink fails {odds.chance:.0%} of all batches: a suspect needs many tests"


def hashed(*parts: object) -> int:
    """Return a hash of these values that is the same in every process."""
    text = "\n".join(map(str, parts)).encode(errors="surrogatepass")
    return int.from_bytes(hashlib.sha256(text).digest()[:8], "big")


def why(history: FailureHistory, error: str = "") -> str:
    """Return the reason why a message is poison, for the dead letter.

    error: the error of the message's newest failed batch, or "" if unknown.
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
    """Return a line of text about isolation for an offset. The line is shown at a restart."""
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
    """Return the history of a message after its batch failed. before: the earlier history, or None.

    evidence: the evidence before this failure. number, size: number and size of the failed batch.
    times: number of failures to add. is_alone: False if Spark's batch also had messages of other
    batches.
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
"""First part of the sort key of a lone suspect that is not tested now. Messages that are no
suspects are delivered before this suspect."""
