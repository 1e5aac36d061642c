"""The suspects among leased messages: which to deliver together, and which one to dead-letter.

The rule is in `source/suspects.py`. A message keeps its history by its id, so also when it was
released and comes back; a dequeue count says nothing here, since a crash raises it for a whole
batch.
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
"""A suspect that did not come back within so many batches was deleted elsewhere, or expired."""


class Suspects:
    """Moved by what becomes of batches. Used by one thread at a time."""

    def __init__(self, rule: IsolationRule | None) -> None:
        """rule: None if poison handling is off."""
        self._rule = rule
        self._histories: dict[MessageKey, FailureHistory] = {}
        self._evidence = Evidence()
        self._first: tuple[int, int, int] | None = None  # see `_first_turn`
        self._odds: Odds | None = None  # see `odds`
        self._said = ""
        self._poison: dict[MessageKey, str] = {}  # by the newest failure of each, with its error

    @property
    def isolating(self) -> bool:
        """True if there are suspects."""
        return bool(self._histories)

    @property
    def count(self) -> int:
        """How many suspects there are."""
        return len(self._histories)

    @property
    def odds(self) -> Odds:
        """What chance explains now."""
        if self._odds is None:
            self._odds = Odds.of(self._evidence, self._histories.values())
        return self._odds

    @property
    def status(self) -> str:
        """What isolation does, in a line; empty if nothing was cut."""
        return status(self._said, self.count) if self._said or self._has_cut() else ""

    def _has_cut(self) -> bool:
        if not self.isolating:
            return False
        assert self._rule
        every, share = set(self._histories.values()), self._rule.share
        return any(each.is_lone or share(each, self.odds) < each.size for each in every)

    @property
    def findings(self) -> Findings:
        """What is known now."""
        return Findings(dict(self._histories), self._evidence.kept(has_suspects=self.isolating))

    def restore(self, findings: Findings) -> None:
        """Resume from what an earlier process has found."""
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
        """A batch of these messages did not commit. times, is_alone: see `failed`.

        error: what it raised, if that is known.

        Whether a message is poison is decided now: what is committed later may be due to a sink
        that came back. Raises TooManyPoison.
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
        """A batch of these messages was committed: they are no suspects any more.

        repeats: how often it had failed before.
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
        """That of a suspect, None of another message."""
        return self._histories.get(key)

    def forget(self, keys: Iterable[MessageKey]) -> None:
        """It is unknown what became of a batch of these: they are no suspects."""
        self._first = self._odds = None
        for key in keys:
            self._histories.pop(key, None)

    def is_poison(self, key: MessageKey) -> bool:
        """True if this message is to be moved."""
        return key in self._poison

    def why(self, key: MessageKey) -> str:
        """Why this suspect is poison."""
        return why(self._histories[key], self._poison.get(key, ""))

    def moved(self, key: MessageKey) -> None:
        """This suspect was copied to its poison queue."""
        self._first = self._odds = None
        self._poison.pop(key, None)
        self._evidence = self._evidence.on_moved(self._histories.pop(key))
        self._said = SAID_OF_MOVED

    def among(self, messages: Iterable[Message]) -> bool:
        """True if one of these is a suspect."""
        return self.isolating and any(message.key in self._histories for message in messages)

    def room(self, waiting: Collection[Message], most: int) -> int:
        """How many more messages the next batch could use (0 or less: none).

        At most `most` messages wait, which bounds the memory. As long as there are fewer, the
        suspect that is due first is looked for.
        """
        free = most - len(waiting)
        if not self.isolating:  # quick: this is asked before every dequeue
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
        """The messages of the next batch: suspects by their turn, or messages that are none."""
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
        """True if a batch of these has suspects, or is what lone suspects are compared with."""
        return self.isolating and (self.odds.lone > 0 or self.among(messages))

    def is_cut(self, failures: int, *, is_compared: bool) -> bool:
        """True if a batch that failed so often is cut. is_compared: see `are_compared`."""
        assert self._rule
        is_first = not is_compared and not self.isolating
        return failures >= (1 if is_compared else self._rule.repeats(self.odds, is_first=is_first))

    def _is_lone(self, message: Message) -> bool:
        history = self._histories.get(message.key)
        return history is not None and history.is_lone

    def _is_last(self, suspect: Message) -> bool:
        return self._turn(suspect)[0] == LAST

    def _first_turn(self) -> tuple[int, int, int]:
        """That of the suspect that is due first, whether it waits here or not."""
        if self._first is None:
            assert self._rule
            every = set(self._histories.values())
            self._first = min(self._rule.turn(each, self._evidence) for each in every)
        return self._first

    def _turn(self, suspect: Message) -> tuple[int, int, int]:
        assert self._rule
        return self._rule.turn(self._histories[suspect.key], self._evidence)

    def _ready(self, waiting: Iterable[Message]) -> list[Message]:
        """The suspects of the batch that is due first, as far as they wait here."""
        found = [
            (self._turn(message), message) for message in waiting if message.key in self._histories
        ]
        first = min((each for each, _ in found), default=None)
        return [message for each, message in found if each == first]
