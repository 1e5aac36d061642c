"""Decides when a drain has finished, from the state of its queues and the results of its runs.

A query cannot know which messages it did not read, and a queue does not report which consumer has
leased a message. So three rules decide. In these rules, an *old* message is a message that was in
the queue when `drain` was called.

*The head*: if an old message is visible, one more run is needed. *One more run*: unless the queues
are empty, a drain ends only after a run that found no message, or after two consecutive runs that
found no old message. *One lease*: messages that a run of this drain may have leased become visible
again after one lease. So a drain waits for one lease if messages are invisible. When such messages
become visible, they may be behind all messages that arrived during the lease. So messages that
arrived before the end of the lease count as old.

The code is pure. Times are arguments, in seconds of one monotonic clock.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from spark_azqueue.service.messages import MAX_PER_REQUEST

ENOUGH = 2
"""A drain ends after this many consecutive runs that found no old message."""

_ENDLESS = 10
"""A drain ends unfinished after this many consecutive runs without progress, if none of them found
the queues empty."""

LOOK_AGAIN_S = 5.0

_MARGIN_S = 2.0
"""Tolerance in seconds for the end of a lease.

The service reports the end of a lease in whole seconds, and a lease begins when the request
arrives.
"""


@dataclass(frozen=True, slots=True)
class QueueSeen:
    """State of one queue.

    name: name of the queue, for messages to users. messages: number of messages by the service's
    count, including invisible messages; the count may be too high, but is never too low. visible:
    number of messages that a peek returned. is_all: the peek returned all readable messages. older:
    ids of visible messages that were in the queue at the call. before: name of a queue that is read
    before this queue (queuePriority=strict); "" if there is no such queue.
    """

    name: str
    messages: int
    visible: int
    is_all: bool
    older: frozenset[str] = frozenset()
    before: str = ""

    @property
    def hidden(self) -> int:
        """Number of leased or delayed messages; 0 if unknown."""
        return max(0, self.messages - self.visible) if self.is_all else 0

    @property
    def may_hide(self) -> bool:
        """False if certainly no message is leased or delayed."""
        return self.hidden > 0 or not self.is_all


class Took(enum.Enum):
    """Kind of the messages that a run read."""

    UNKNOWN = "it reported no progress: perhaps it was stopped while it dequeued"
    NOTHING = "it asked, and found nothing"
    NO_ROWS = "its batches had no messages, or only some of a batch before it"
    NEWER = "only what came after the call and after `Finish.back_after`, or was delivered before"
    OLDER = "something that was there by then, or may have been"


class RunSeen(NamedTuple):
    """Result of a run that ended without an error.

    began, ended: times at which the run began and ended. is_one_batch: the run was on Spark 4.0 or
    4.1, where only the next run deletes the messages of this run. hides: old messages may still be
    leased after the run. read: number of messages that the run read. is_repeated: the run only
    repeated a batch of an earlier run.
    """

    took: Took
    began: float
    ended: float
    is_one_batch: bool = False
    hides: bool = False
    read: int = 0
    is_repeated: bool = False


class Enough(NamedTuple):
    """Step: end the drain, because every old message is read and deleted.

    why: text that says how this is known.
    """

    why: str = ""


class Again(NamedTuple):
    """Step: run the query again."""


class Wait(NamedTuple):
    """Step: wait, then read the state of the queues again and call `Finish.waited`."""

    seconds: float


class Unfinished(NamedTuple):
    """Step: end the drain, because no further run helps. why: what is left, and what to do."""

    why: str


Step = Enough | Again | Wait | Unfinished


class Finish:
    """Decides the next step after each run of a drain. Used for one drain."""

    def __init__(
        self,
        queues: Sequence[QueueSeen],
        now: float,
        *,
        lease_s: float,
        longest_s: float,
        patience_s: float,
        waits_for_all: bool = False,
        deletes_early: bool = False,
        leaves: bool = False,
    ) -> None:
        """queues: state of the queues at the call.

        lease_s: length of the first batch's leases in seconds, if they are not renewed. longest_s:
        length of the longest lease in seconds. Later batches may raise both values. patience_s:
        maximum seconds, in total, to wait for leased or delayed messages. waits_for_all: also wait
        for messages that other consumers have leased. deletes_early: messages are deleted before
        their batch is committed, so an empty queue does not prove that everything was read. leaves:
        deleteOnCommit is false, so delivered messages stay in the queue, leased.
        """
        self._lease_s, self._longest_s = lease_s, longest_s
        self._called = now
        self._patience_s = patience_s
        self._waits_for_all = waits_for_all
        self._deletes_early = deletes_early
        self._leaves = leaves
        self._delivered: set[str] = set()
        self._older = self._older_of(queues)
        self._others = 0  # number of invisible messages that no run of this query has leased
        # Latest times at which: a run before the call leased messages; a run of this drain left
        # messages leased; a run read messages and not all of their deletes are confirmed.
        self._before_at = self._left_at = self._read_at = -math.inf
        if not leaves and any(each.may_hide for each in queues):
            self._before_at = now
        self._is_read_awaited = False
        self.pending = 0
        """Number of messages of the last run that are leased until the next run deletes them."""
        self._newer = self._barren = self._passed = self._endless = self._silent = 0
        self._has_failed = False

    def leases_for(self, seconds: float, *, renewed: bool = False) -> None:
        """Record that leases had this length, so that the drain waits long enough.

        renewed: the batch ran so long that its leases may have been renewed, up to the longest
        lease.
        """
        self._longest_s = max(self._longest_s, seconds)
        self._lease_s = self._longest_s if renewed else max(self._lease_s, seconds)

    def delivered(self, ids: Iterable[str]) -> bool:
        """Record the ids of the messages of a committed batch. These messages stay in the queue.

        Returns False if every message was already delivered in this drain.
        """
        before = len(self._delivered)
        self._delivered.update(ids)
        return len(self._delivered) > before

    def failed(self, at: float) -> None:
        """Record that a run failed at this time. Its messages may still be leased."""
        self._left_at = at
        self._has_failed = True

    def back_after(self, now: float) -> float:
        """Return how many seconds after the call all messages that runs had leased were visible
        again.

        Returns 0 if no messages were leased, or if they are still leased. A message that becomes
        visible again may be behind all messages that arrived before.
        """
        until = self._hidden_until(is_read_awaited=False)
        return until - self._called if self._called < until <= now else 0.0

    def older(self, queues: Iterable[QueueSeen]) -> int:
        """Return the minimum number of old messages that are visible and not read."""
        return len(self._older_of(queues))

    def hidden(self, queues: Iterable[QueueSeen], now: float) -> int:
        """Return the number of invisible messages that a run of this query may have leased."""
        if self._leaves or now >= self._hidden_until(is_read_awaited=True):
            return 0
        return _hidden_in(queues)

    def after(self, run: RunSeen, queues: Sequence[QueueSeen]) -> Step:
        """Return the next step after a run that ended without an error. queues: state of the queues
        after the run."""
        older_before, self._older = self._older, self._older_of(queues)
        self._others = min(self._others, _hidden_in(queues))
        has_read = run.took in (Took.OLDER, Took.NEWER)
        is_unsettled = run.is_one_batch and not self._leaves
        self.pending = run.read if is_unsettled and not self._deletes_early else 0
        # If the run was stopped, only invisible messages show that it has leased messages.
        leaves_some = _hidden_in(queues) > self._others + self.pending and not self._leaves
        if has_read and (is_unsettled or (leaves_some and run.took is Took.OLDER)):
            self._read_at = run.ended  # some deletes of the run may not be confirmed
        if run.hides or run.took is Took.UNKNOWN:
            self._left_at = run.ended
        has_failed, self._has_failed = self._has_failed, False
        why = self._over(run, queues)
        if why is not None and not self._older:
            self._barren = self._passed = self._endless = 0
            sees_all = all(each.is_all for each in queues)
            self._is_read_awaited = sees_all or run.took is Took.NOTHING
            return self._waited_for(queues, run.began, run.ended, why)
        if run.took is Took.OLDER or has_failed:
            self._barren = self._passed = self._endless = 0
            return Again()
        return self._without_progress(run, older_before, queues)

    def waited(self, queues: Sequence[QueueSeen], now: float) -> Step:
        """Return the next step after a wait. queues: state of the queues after the wait."""
        self._older = self._older_of(queues)
        if now >= self._hidden_until(is_read_awaited=True):
            self._others = _hidden_in(queues)
        step: Step = Again() if self._older else self._waited_for(queues, -1.0, now, "")
        if self._newer and not isinstance(step, Wait | Unfinished):
            self._newer = 0  # messages that became visible may be behind newer messages
            return Again()
        return step

    def _waited_for(self, queues: Sequence[QueueSeen], began: float, now: float, why: str) -> Step:
        """Return the next step, given that no old message is visible.

        began: every message that was readable at this time has been read.
        """
        if all(each.is_all for each in queues):
            if _hidden_in(queues) <= self.pending:
                return Enough(why)
            # No old message is visible. So messages that stay invisible for longer than one lease
            # are leased by other consumers.
            began = now
        until = self._hidden_until(is_read_awaited=self._is_read_awaited)
        is_ours = until > began
        if not is_ours and not (self._waits_for_all and self._patience_s > 0):
            return Enough(why)
        if is_ours and now >= until:
            return Again()
        if self._patience_s <= 0:
            count = _hidden_in(queues)
            return Unfinished(
                f"{_counted(count, 'message') if count else 'messages'} may be hidden by leases of"
                f" runs that failed or ended before, for {until - now:.0f} s at most: call it again"
                " then, or set 'hidden' to wait longer"
            )
        rest = until - now if is_ours else self._patience_s
        pause = max(0.1, min(rest, LOOK_AGAIN_S, self._patience_s))
        self._patience_s -= pause
        return Wait(pause)

    def _over(self, run: RunSeen, queues: Sequence[QueueSeen]) -> str | None:
        """Return the reason why no further run is needed although messages are readable; None if a
        run is needed."""
        took = run.took
        self._silent = self._silent + 1 if took is Took.UNKNOWN else 0
        if self._older:  # a later peek may miss an old message behind newer messages
            self._newer = 0
        elif took is Took.NEWER:
            self._newer += 1
        elif took is not Took.NO_ROWS:
            self._newer = 0
        if took is Took.NOTHING:
            return ""
        if self._newer >= ENOUGH:
            again = ", or that were delivered in it" if self._leaves else ""
            return f"two runs in a row read only messages that came after the call{again}"
        # Even if the queues are empty, a log may have further messages.
        is_known = took is not Took.UNKNOWN and not (run.is_one_batch or self._deletes_early)
        return "" if is_known and not any(each.may_hide for each in queues) else None

    def _without_progress(
        self, run: RunSeen, before: frozenset[str], queues: Sequence[QueueSeen]
    ) -> Step:
        if self._silent >= ENOUGH:
            return Unfinished(
                "two runs in a row reported no progress, so what they read is not known: is"
                " spark.sql.streaming.numRecentProgressUpdates 0 or 1, or were they stopped?"
            )
        if not self._older & before:
            self._barren = self._passed = 0
        elif run.took is not Took.UNKNOWN and not run.is_repeated:
            self._barren += 1
            self._passed += run.read
        # A small batch may contain only messages that are ahead of the old messages.
        is_next = run.took is Took.NEWER and self._passed < MAX_PER_REQUEST * len(queues)
        if self._barren >= ENOUGH and not is_next:
            return Unfinished(self._left_over(queues))
        self._endless += 1
        if self._endless >= _ENDLESS:
            return Unfinished(
                f"{self._endless} runs in a row read no message of the call, and none of them found"
                " the queues empty: was each of them stopped, or does the query read no rows of its"
                " batches?"
            )
        return Again()

    def _left_over(self, queues: Sequence[QueueSeen]) -> str:
        with_older = [each for each in queues if each.older - self._delivered]
        names = ", ".join(f"'{each.name}'" for each in with_older[:3])
        first = (
            f"at least two runs in a row read none of the messages in {names} that were there at"
            " the call"
        )
        behind = next((each.before for each in with_older if each.before), "")
        if behind:
            return (
                f"{first}: with queuePriority=strict, '{behind}' is read first, and gets newer"
                " messages all the time. Set queuePriority=fair, or drain these queues on their own"
            )
        return (
            f"{first}: does another consumer lease and release them, or does the query leave them"
            " out? `peek` of the command line shows them"
        )

    def _hidden_until(self, *, is_read_awaited: bool) -> float:
        """Return the time at which the last lease of earlier runs of the query ends."""
        leased_at = max(self._before_at, self._read_at if is_read_awaited else -math.inf)
        return max(leased_at + self._lease_s, self._left_at + self._longest_s) + _MARGIN_S

    def _older_of(self, queues: Iterable[QueueSeen]) -> frozenset[str]:
        return frozenset().union(*(each.older for each in queues)) - self._delivered


def _hidden_in(queues: Iterable[QueueSeen]) -> int:
    return sum(each.hidden for each in queues)


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
