"""Backlog and age of queues, read independently of queries."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

SHOWN_AT_MOST = 32
"""Maximum number of messages that a peek returns."""

_Counts = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Watched:
    """The state of one query's queues, by the name of the queue.

    answers: 1 for a queue whose last read succeeded, else 0; also 0 for a pattern if listing queues
    failed. backlog: the service's approximate number of messages, including leased and delayed
    messages. poison: the same number for poison queues. visible: number of visible messages. Queues
    for which a peek returned 32 messages are left out, because they may have more. heads: age of
    the first visible message, in seconds. expires: seconds until the first visible message expires.
    """

    answers: _Counts = field(default_factory=dict)
    backlog: _Counts = field(default_factory=dict)
    poison: _Counts = field(default_factory=dict)
    visible: _Counts = field(default_factory=dict)
    heads: _Counts = field(default_factory=dict)
    expires: _Counts = field(default_factory=dict)

    @classmethod
    def of_all(cls, watched: Sequence[Watched]) -> Watched:
        """Combine these states, which belong to the sources of one query."""
        return cls(
            **{
                field: {
                    name: count for each in watched for name, count in getattr(each, field).items()
                }
                for field in cls.__dataclass_fields__
            }
        )

    def scaling(self, held: int) -> Scaling | None:
        """Return the counts for scaling; None if a queue could not be read, because its messages
        would be missing.

        held: number of messages that the query is known to have leased.
        """
        if not all(self.answers.values()):
            return None
        full = [count for name, count in self.backlog.items() if name not in self.visible]
        hidden = sum(
            max(0, count - self.visible[name])
            for name, count in self.backlog.items()
            if name in self.visible
        )
        here = max(0, held - hidden)  # in the queues whose number of invisible messages is unknown
        at_least = sum(min(count, SHOWN_AT_MOST) for count in full)
        return Scaling(
            sum(self.visible.values()) + max(at_least, sum(full) - here), max(0, hidden - held)
        )


@dataclass(frozen=True, slots=True)
class Scaling:
    """Counts for scaling. waiting: number of visible messages. elsewhere: number of messages that
    are delayed or that other consumers have leased.

    If a peek of a queue returns 32 messages, the number of invisible messages is unknown. In this
    case, all messages that the query has not leased count as waiting, as with KEDA's `visibleonly`.
    """

    waiting: int
    elsewhere: int


WatchQueues = Callable[[], Mapping[str, Watched]]
"""Function that returns, by the name of the query, the state of the query's queues. Queries whose
state is unknown are left out.
"""
