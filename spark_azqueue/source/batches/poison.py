"""Applies the isolation rule to leased messages: which suspects share a batch, and which are
dead-lettered.

The rule is in `source/suspects.py`. The history of a message is stored under the message's id, and
is kept when the message is released. The dequeue count is not used as a history, because a crash
raises the count of every message in a batch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from spark_azqueue.service.messages import Message, MessageKey

from ..findings import Findings
from ..suspects import (
    HISTORIES_AT_MOST,
    LAST,
    SAID_OF_MOVED,
    Evidence,
    FailureHistory,
    IsolationRule,
    Odds,
    failed,
    status,
    why,
)

_FORGOTTEN_AFTER = 2 * HISTORIES_AT_MOST
"""A suspect that was not dequeued again after this many batches is forgotten: the message was
probably deleted, or has expired."""


class Suspects:
    """The suspects of a query, updated when a batch commits or fails. Used by one thread."""

    def __init__(self, rule: IsolationRule | None) -> None:
        """rule: when to isolate and dead-letter suspects, or None if poison handling is off."""
        self._rule = rule
        self._histories: dict[MessageKey, FailureHistory] = {}
        self._evidence = Evidence()
        self._first: tuple[int, int, int] | None = None  # cache of `_first_turn`
        self._odds: Odds | None = None  # cache of `odds`
        self._said = ""
        self._poison: dict[MessageKey, str] = {}  # error of the newest failed batch

    @property
    def isolating(self) -> bool:
        """True if there are suspects."""
        return bool(self._histories)

    @property
    def count(self) -> int:
        """Number of suspects."""
        return len(self._histories)

    @property
    def odds(self) -> Odds:
        """Estimate of how often batches fail by chance, and of how many messages are poison."""
        if self._odds is None:
            self._odds = Odds.of(self._evidence, self._histories.values())
        return self._odds

    @property
    def status(self) -> str:
        """Line of text about the isolation of suspects; "" if no batch was made smaller."""
        return status(self._said, self.count) if self._said or self._has_cut() else ""

    def _has_cut(self) -> bool:
        if not self.isolating:
            return False
        assert self._rule
        every, share = set(self._histories.values()), self._rule.share
        return any(each.is_lone or share(each, self.odds) < each.size for each in every)

    @property
    def findings(self) -> Findings:
        """Histories of suspects, and evidence, for the next process to restore."""
        return Findings(dict(self._histories), self._evidence.kept(has_suspects=self.isolating))

    def restore(self, findings: Findings) -> None:
        """Restore the findings of an earlier process."""
        if self._rule is not None:
            self._first = self._odds = None
            self._poison.clear()
            self._histories = dict(findings.histories)
            self._evidence = findings.evidence

    def batch_failed(
        self,
        number: int,
        keys: Sequence[MessageKey],
        *,
        times: int = 1,
        is_alone: bool = True,
        error: str = "",
    ) -> None:
        """Record that a batch of these messages failed. Raises TooManyPoison.

        A message is found to be poison only when its batch fails. A later commit of another batch
        may only show that the sink works again.

        times, is_alone: see `failed`. error: the batch's error, or "" if unknown.
        """
        if self._rule is None or not keys:
            return
        self._first = self._odds = None
        evidence, before = self._evidence, self._histories.get(keys[0])
        for key in keys:
            self._histories[key] = failed(
                self._histories.pop(key, None),
                *(evidence, number, len(keys)),
                times=times,
                is_alone=is_alone,
            )
        history = self._histories[keys[0]]
        self._evidence = evidence.on_failed(history.size, before)
        self._said = self._rule.said_of(history, evidence, self.odds)
        if history.is_lone and self._rule.is_poison(history, evidence, self.odds):
            self._poison[keys[0]] = error
        if len(self._histories) > HISTORIES_AT_MOST:
            kept = sorted(self._histories.items(), key=lambda each: -each[1].failures)
            self._histories = dict(kept[:HISTORIES_AT_MOST])

    def batch_committed(self, number: int, keys: Collection[MessageKey], repeats: int = 0) -> None:
        """Record that a batch was committed. Its messages are no longer suspects.

        repeats: number of earlier failures of the batch.
        """
        if self._rule is None:
            return
        self._first = self._odds = None
        found = [self._histories.pop(key) for key in keys if key in self._histories]
        if not self._histories:
            self._said = ""
        self._evidence = self._evidence.on_committed(number, len(keys), found, repeats)
        old = number - _FORGOTTEN_AFTER
        if self._histories and min(each.batch for each in self._histories.values()) < old:
            self._histories = {k: each for k, each in self._histories.items() if each.batch >= old}

    def history(self, key: MessageKey) -> FailureHistory | None:
        """Return the history of a suspect, or None if the message is no suspect."""
        return self._histories.get(key)

    def forget(self, keys: Iterable[MessageKey]) -> None:
        """Remove messages from the suspects, because it is unknown whether their batch was
        committed."""
        self._first = self._odds = None
        for key in keys:
            self._histories.pop(key, None)

    def is_poison(self, key: MessageKey) -> bool:
        """Return True if the message must be moved to its poison queue."""
        return key in self._poison

    def why(self, key: MessageKey) -> str:
        """Return the reason why a suspect counts as poison."""
        return why(self._histories[key], self._poison.get(key, ""))

    def moved(self, key: MessageKey) -> None:
        """Record that a suspect was copied to its poison queue."""
        self._first = self._odds = None
        self._poison.pop(key, None)
        self._evidence = self._evidence.on_moved(self._histories.pop(key))
        self._said = SAID_OF_MOVED

    def among(self, messages: Iterable[Message]) -> bool:
        """Return True if any of these messages is a suspect."""
        return self.isolating and any(message.key in self._histories for message in messages)

    def room(self, waiting: Collection[Message], most: int) -> int:
        """Return the number of further messages to lease for the next batch; 0 or less for none.

        At most `most` messages are in `waiting`, to limit the memory. Below this limit, messages
        are leased until the suspect that is due first is in `waiting`.
        """
        free = most - len(waiting)
        if not self.isolating:  # fast path: called before every dequeue
            return free
        ready = self._ready(waiting)
        if not ready or self._turn(ready[0]) > self._first_turn() or self._is_last(ready[0]):
            return free
        assert self._rule
        history, odds = self._histories[ready[0].key], self.odds
        missing = 0 if history.is_lone else self._rule.share(history, odds) - len(ready)
        beside = len(waiting) - self._lone_among(waiting)
        return min(free, max(missing, self._rule.enough(odds) - beside))

    def choose(self, waiting: Sequence[Message], most: int) -> list[Message]:
        """Choose the messages of the next batch from `waiting`: the suspects that are due first, or
        other messages."""
        if not self.isolating:
            return list(waiting[:most])
        assert self._rule
        chosen = self._ready(waiting)
        if not chosen or self._is_last(chosen[0]):
            others = [message for message in waiting if message.key not in self._histories]
            chosen = others or chosen
        lone = [message for message in waiting if self._is_lone(message)]
        left = len(waiting) - len(lone)
        if lone and self._rule.is_scarce(self._evidence, self.odds, left):
            chosen = [min(lone, key=self._turn)]
        history = self._histories.get(chosen[0].key) if chosen else None
        if history and history.is_lone:
            return chosen[:1]
        is_all = self.room(waiting, most) > 0
        share = self._rule.most_beside(self.odds, left, is_all=is_all)
        if history:
            share = min(share, self._rule.share(history, self.odds))
        return chosen[: min(share, most)]

    def _lone_among(self, messages: Iterable[Message]) -> int:
        return sum(map(self._is_lone, messages))

    def are_compared(self, messages: Iterable[Message]) -> bool:
        """Return True if these messages include suspects, or are a comparison for lone suspects."""
        return self.isolating and (self.odds.lone > 0 or self.among(messages))

    def is_cut(self, failures: int, *, is_compared: bool) -> bool:
        """Return True if a batch is made smaller after this many failures.

        is_compared: see `are_compared`.
        """
        assert self._rule
        is_first = not is_compared and not self.isolating
        return failures >= (1 if is_compared else self._rule.repeats(self.odds, is_first=is_first))

    def _is_lone(self, message: Message) -> bool:
        history = self._histories.get(message.key)
        return history is not None and history.is_lone

    def _is_last(self, suspect: Message) -> bool:
        return self._turn(suspect)[0] == LAST

    def _first_turn(self) -> tuple[int, int, int]:
        """Return the sort key of the suspect that is due first, even if this suspect is not
        leased."""
        if self._first is None:
            assert self._rule
            every = set(self._histories.values())
            self._first = min(self._rule.turn(each, self._evidence) for each in every)
        return self._first

    def _turn(self, suspect: Message) -> tuple[int, int, int]:
        assert self._rule
        return self._rule.turn(self._histories[suspect.key], self._evidence)

    def _ready(self, waiting: Iterable[Message]) -> list[Message]:
        """Return the waiting suspects that are due first."""
        found = [
            (self._turn(message), message) for message in waiting if message.key in self._histories
        ]
        first = min((each for each, _ in found), default=None)
        return [message for each, message in found if each == first]
