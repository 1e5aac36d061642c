"""Decides when a drain has finished, from the state of its queues and the results of its runs.

A query cannot know which messages it did not read, and a queue does not report who hides a message.
So three rules decide. In them, an old message is one that was in the queue at the call.

*The head*: a visible old message needs one more run. *One more run*: a drain ends only after a run
that found no message, or after two consecutive runs that found no old message, unless the queues
are empty. *One lease*: messages that a run of this call may have hidden are visible again after one
lease. So a drain waits this long while messages are hidden. Such messages may then be behind all
messages that arrived meanwhile, so until then newer messages count as old.

Pure: times are arguments, in seconds of one monotonic clock.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from spark_azqueue.service.messages import MAX_PER_REQUEST

ENOUGH = 2
"""A drain ends after this many consecutive runs that read no old message."""

_ENDLESS = 10
"""A drain ends after this many consecutive runs without progress that did not find the queues
empty.
"""

LOOK_AGAIN_S = 5.0

_MARGIN_S = 2.0
"""Tolerance in seconds: a service reports the end of a lease in whole seconds, and a lease begins
when the request arrives.
"""


@dataclass(frozen=True, slots=True)
class QueueSeen:
    """State of one queue.

    name: for texts. messages: the service's count, with hidden ones; the count may be too high, but
    never too low. visible: number of readable messages among the first ones; is_all: there are no
    further readable ones. older: ids of visible messages that were there at the call. before: name
    of a queue that is read first (queuePriority=strict), "" if there is none.
    """

    name: str
    messages: int
    visible: int
    is_all: bool
    older: frozenset[str] = frozenset()
    before: str = ""

    @property
    def hidden(self) -> int:
        """Number of leased or delayed messages, as far as known."""
        return max(0, self.messages - self.visible) if self.is_all else 0

    @property
    def may_hide(self) -> bool:
        """False if no message is leased or delayed."""
        return self.hidden > 0 or not self.is_all


class Took(enum.Enum):
    """Kind of the messages that a run read, as far as it counts."""

    UNKNOWN = "it reported no progress: perhaps it was stopped while it dequeued"
    NOTHING = "it asked, and found nothing"
    NO_ROWS = "its batches had no messages, or only some of a batch before it"
    NEWER = "only what came after the call and after `Finish.back_after`, or was delivered before"
    OLDER = "something that was there by then, or may have been"


class RunSeen(NamedTuple):
    """Result of a run that ended without an error. began, ended: times.

    is_one_batch: the run is of Spark 4.0 or 4.1, where the next run deletes its messages. hides:
    the run may have left messages from before the call hidden, for the length of a lease. read:
    number of messages. is_repeated: the run repeated a batch of an earlier run, and read nothing
    else.
    """

    took: Took
    began: float
    ended: float
    is_one_batch: bool = False
    hides: bool = False
    read: int = 0
    is_repeated: bool = False


class Enough(NamedTuple):
    """Every message from before the call is read and deleted. why: how this is known."""

    why: str = ""


class Again(NamedTuple):
    """Another run is needed."""


class Wait(NamedTuple):
    """Read the state of the queues again after this many seconds, see `Finish.waited`."""

    seconds: float


class Unfinished(NamedTuple):
    """No further run helps. why: what is left, and what to do."""

    why: str


Step = Enough | Again | Wait | Unfinished


class Finish:
    """Decides after each run of one call. No state is kept between calls."""

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
        """queues: their state at the call.

        lease_s: length of the query's leases that are not renewed, in its first batch. longest_s:
        longest lease. Both times may grow. patience_s: longest wait for hidden messages, in total.
        waits_for_all: wait for messages that others hide, too. deletes_early: messages are deleted
        before their batch is committed, so an empty queue proves nothing. leaves:
        deleteOnCommit=false: delivered messages stay, leased.
        """
        self._lease_s, self._longest_s = lease_s, longest_s
        self._called = now
        self._patience_s = patience_s
        self._waits_for_all = waits_for_all
        self._deletes_early = deletes_early
        self._leaves = leaves
        self._delivered: set[str] = set()
        self._older = self._older_of(queues)
        self._others = 0  # number of hidden messages that no run of this query hides
        # Latest times at which a run before the call leased messages, a run of the call left
        # messages hidden, and a run read messages whose deletes are not all known.
        self._before_at = self._left_at = self._read_at = -math.inf
        if not leaves and any(each.may_hide for each in queues):
            self._before_at = now
        self._is_read_awaited = False
        self.pending = 0
        """Messages of the last run that stay hidden until the next run deletes them."""
        self._newer = self._barren = self._passed = self._endless = self._silent = 0
        self._has_failed = False

    def leases_for(self, seconds: float, *, renewed: bool = False) -> None:
        """Note leases of this length: hidden messages may be hidden for longer.

        renewed: the batch ran so long that its leases may be the longest.
        """
        self._longest_s = max(self._longest_s, seconds)
        self._lease_s = self._longest_s if renewed else max(self._lease_s, seconds)

    def delivered(self, ids: Iterable[str]) -> bool:
        """Note ids of a committed batch whose messages stay in the queue.

        Returns False if each of them was delivered before in this call.
        """
        before = len(self._delivered)
        self._delivered.update(ids)
        return len(self._delivered) > before

    def failed(self, at: float) -> None:
        """Note that a run failed at this time: its leased messages may be hidden."""
        self._left_at = at
        self._has_failed = True

    def back_after(self, now: float) -> float:
        """Return after how many seconds since the call the hidden messages were visible again.

        Returns 0 if none were hidden, or if they are still hidden. Such messages may be behind all
        messages that arrived before they were visible again.
        """
        until = self._hidden_until(is_read_awaited=False)
        return until - self._called if self._called < until <= now else 0.0

    def older(self, queues: Iterable[QueueSeen]) -> int:
        """Return the number of visible, unread messages from before the call; at least."""
        return len(self._older_of(queues))

    def hidden(self, queues: Iterable[QueueSeen], now: float) -> int:
        """Return the number of hidden messages that a run of this query may have leased."""
        if self._leaves or now >= self._hidden_until(is_read_awaited=True):
            return 0
        return _hidden_in(queues)

    def after(self, run: RunSeen, queues: Sequence[QueueSeen]) -> Step:
        """Return the next step after a run that ended without an error. queues: their state after
        it.
        """
        older_before, self._older = self._older, self._older_of(queues)
        self._others = min(self._others, _hidden_in(queues))
        has_read = run.took in (Took.OLDER, Took.NEWER)
        is_unsettled = run.is_one_batch and not self._leaves
        self.pending = run.read if is_unsettled and not self._deletes_early else 0
        # If the run was stopped, only its hidden messages are a sign.
        leaves_some = _hidden_in(queues) > self._others + self.pending and not self._leaves
        if has_read and (is_unsettled or (leaves_some and run.took is Took.OLDER)):
            self._read_at = run.ended  # not all of its deletes are known
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
        """Return the next step after a wait. queues: their state after it."""
        self._older = self._older_of(queues)
        if now >= self._hidden_until(is_read_awaited=True):
            self._others = _hidden_in(queues)
        step: Step = Again() if self._older else self._waited_for(queues, -1.0, now, "")
        if self._newer and not isinstance(step, Wait | Unfinished):
            self._newer = 0  # messages that appeared meanwhile may be behind newer messages
            return Again()
        return step

    def _waited_for(self, queues: Sequence[QueueSeen], began: float, now: float, why: str) -> Step:
        """Return the next step. began: every message that was readable at this time was read."""
        if all(each.is_all for each in queues):
            if _hidden_in(queues) <= self.pending:
                return Enough(why)
            # No old message is visible, so messages that are still hidden in the end are of others
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
        """Return why no further run is needed for readable messages; None if one is needed."""
        took = run.took
        self._silent = self._silent + 1 if took is Took.UNKNOWN else 0
        if self._older:  # a later read may miss an old message behind newer ones
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
        # A log may have more messages than the queues.
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
        # Small batches may be ahead of the messages that a peek shows.
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
        """Return when the last lease ends that a run of the query may have left."""
        leased_at = max(self._before_at, self._read_at if is_read_awaited else -math.inf)
        return max(leased_at + self._lease_s, self._left_at + self._longest_s) + _MARGIN_S

    def _older_of(self, queues: Iterable[QueueSeen]) -> frozenset[str]:
        return frozenset().union(*(each.older for each in queues)) - self._delivered


def _hidden_in(queues: Iterable[QueueSeen]) -> int:
    return sum(each.hidden for each in queues)


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
