"""What belongs to an availableNow run: the messages that were there when it began.

The service tells when a message was inserted, in whole seconds of its own clock, and gives messages
roughly in the order in which they became visible. Ring: core (standard library only).
"""

from __future__ import annotations

from collections.abc import Iterable

from .messages import Message

ENOUGH_NEWER = 1_024
"""So many newer messages in a row, and the older ones are taken to be read."""

NEWER_AT_MOST = 32_768
"""So many newer messages in one look, and it ends even if a released message is still awaited."""


class Cutoff:
    """Tells which messages a run wants. until: microseconds since 1970, service's clock."""

    def __init__(self, until: int) -> None:
        self._until = until
        self._given_out: set[str] = set()
        self._awaited: set[str] = set()
        self._in_a_row = 0
        self._newer = 0

    def wants(self, message: Message) -> bool:
        """True for a message inserted before the run (its very second included)."""
        self._awaited.discard(message.message_id)
        if message.insertion_time <= self._until:
            self._in_a_row = 0
            return True
        self._in_a_row += 1
        self._newer += 1
        return False

    def was_given_out(self, message: Message) -> bool:
        """True where the run had this message before: since then it was not there to be read."""
        return message.message_id in self._given_out

    def gave_out(self, ids: Iterable[str]) -> None:
        """These are in a batch of this run."""
        self._given_out.update(ids)

    def released(self, ids: Iterable[str]) -> None:
        """A replay of this run made these visible again: they are to be read in it."""
        self._awaited.update(ids)

    def begin_look(self) -> None:
        """A new look at the queues begins; what it finds newer counts anew."""
        self._in_a_row = self._newer = 0

    @property
    def reached(self) -> bool:
        """True when a look may end without having met an empty page."""
        if self._newer >= NEWER_AT_MOST:
            return True
        return self._in_a_row >= ENOUGH_NEWER and not self._awaited
