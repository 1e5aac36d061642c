"""What queues show to a look from outside: without their query, so also while it fails or rests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

SHOWN_AT_MOST = 32
"""A peek shows no more messages of a queue."""

_Counts = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Watched:
    """What the queues of one query hold, by the name of the queue. Pure.

    answers: 1 for a queue that answered the last look, else 0; 0 for a
    pattern whose queues could not be listed. backlog: the service's count, with
    leased and delayed messages. poison: the same of poison queues. visible: how many can be read
    now, without queues that showed 32: they may have more. heads: age of the first of these in
    seconds. expires: seconds until the first of these expires.
    """

    answers: _Counts = field(default_factory=dict)
    backlog: _Counts = field(default_factory=dict)
    poison: _Counts = field(default_factory=dict)
    visible: _Counts = field(default_factory=dict)
    heads: _Counts = field(default_factory=dict)
    expires: _Counts = field(default_factory=dict)

    @classmethod
    def of_all(cls, watched: Sequence[Watched]) -> Watched:
        """All of these, of the sources of one query."""
        return cls(
            **{
                field: {
                    name: count for each in watched for name, count in getattr(each, field).items()
                }
                for field in cls.__dataclass_fields__
            }
        )

    def scaling(self, held: int) -> Scaling | None:
        """What there is to do; None if a queue did not answer: its messages would be missing.

        held: how many messages the query has leased, as far as known.
        """
        if not all(self.answers.values()):
            return None
        full = [count for name, count in self.backlog.items() if name not in self.visible]
        hidden = sum(
            max(0, count - self.visible[name])
            for name, count in self.backlog.items()
            if name in self.visible
        )
        here = max(0, held - hidden)  # in the queues that do not show what is hidden
        at_least = sum(min(count, SHOWN_AT_MOST) for count in full)
        return Scaling(
            sum(self.visible.values()) + max(at_least, sum(full) - here), max(0, hidden - held)
        )


@dataclass(frozen=True, slots=True)
class Scaling:
    """waiting: messages that can be read now. elsewhere: leased by others, or delayed.

    Of a queue that shows 32 messages or more nothing tells which of the others are hidden: all but
    those that the query has leased count as waiting, as with KEDA's `visibleonly`.
    """

    waiting: int
    elsewhere: int


WatchQueues = Callable[[], Mapping[str, Watched]]
"""Looks at the queues of queries, by the name of the query. What cannot be known is left out."""
