"""Backlog and age of queues, read without a running query."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

SHOWN_AT_MOST = 32
"""Most messages of a queue that a peek shows."""

_Counts = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Watched:
    """The contents of one query's queues, by the name of the queue. Pure.

    answers: 1 for a queue that answered the last read, else 0; 0 for a pattern whose queues could
    not be listed. backlog: the service's count, with leased and delayed messages. poison: the same
    for poison queues. visible: number of visible messages, without queues that showed 32, which may
    have more. heads: age of the first visible message in seconds. expires: seconds until the first
    visible message expires.
    """

    answers: _Counts = field(default_factory=dict)
    backlog: _Counts = field(default_factory=dict)
    poison: _Counts = field(default_factory=dict)
    visible: _Counts = field(default_factory=dict)
    heads: _Counts = field(default_factory=dict)
    expires: _Counts = field(default_factory=dict)

    @classmethod
    def of_all(cls, watched: Sequence[Watched]) -> Watched:
        """Return all of these together, for the sources of one query."""
        return cls(
            **{
                field: {
                    name: count for each in watched for name, count in getattr(each, field).items()
                }
                for field in cls.__dataclass_fields__
            }
        )

    def scaling(self, held: int) -> Scaling | None:
        """Return the waiting work; None if a queue did not answer: its messages would be missing.

        held: number of messages that the query has leased, as far as known.
        """
        if not all(self.answers.values()):
            return None
        full = [count for name, count in self.backlog.items() if name not in self.visible]
        hidden = sum(
            max(0, count - self.visible[name])
            for name, count in self.backlog.items()
            if name in self.visible
        )
        here = max(0, held - hidden)  # in the queues that do not show how many messages are hidden
        at_least = sum(min(count, SHOWN_AT_MOST) for count in full)
        return Scaling(
            sum(self.visible.values()) + max(at_least, sum(full) - here), max(0, hidden - held)
        )


@dataclass(frozen=True, slots=True)
class Scaling:
    """Counts for scaling. waiting: visible messages. elsewhere: leased by others, or delayed.

    If a queue shows 32 messages, the number of hidden messages is unknown: all messages except
    those that the query has leased count as waiting, as with KEDA's `visibleonly`.
    """

    waiting: int
    elsewhere: int


WatchQueues = Callable[[], Mapping[str, Watched]]
"""Returns the state of queues by the name of the query. Queries with unknown state are left out."""
