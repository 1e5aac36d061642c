"""What the driver-side process tells of itself: the backlog, what it holds, what it has counted.

It travels in Spark's progress, as JSON (`Report`), beside the offsets. Nothing of it survives a
restart: every run of a query counts from zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any, get_type_hints

VERSION = 1


def meanings_of(kind: type) -> Mapping[str, str]:
    """What each field of a dataclass says, by its name: the text in its `Annotated`."""
    hints = get_type_hints(kind, include_extras=True)
    return {name: hint.__metadata__[0] for name, hint in hints.items()}


@dataclass(slots=True)
class Counters:
    """Events since the query's run began, in messages. Whoever counts holds the ledger's lock."""

    dequeued: Annotated[int, "Messages that dequeues brought, copies included."] = 0
    redelivered: Annotated[int, "New to this run, but dequeued before by some run or consumer."] = 0
    delivered: Annotated[int, "Messages handed to Spark in micro-batches."] = 0
    deleted: Annotated[int, "Messages deleted, originals of poison copies included."] = 0
    deletes_refused: Annotated[int, "Deletes refused because the lease was lost."] = 0
    deletes_given_up: Annotated[int, "Deletes given up after their retries."] = 0
    renewals: Annotated[int, "Leases extended."] = 0
    leases_lost: Annotated[int, "Leases whose renewal was refused or came to nothing."] = 0
    copies_suppressed: Annotated[int, "Copies delivered again that gave no second row."] = 0
    poison_moved: Annotated[int, "Messages moved to a poison queue."] = 0

    @classmethod
    def meanings(cls) -> Mapping[str, str]:
        """Each counter's name, with what it counts."""
        return meanings_of(cls)

    @classmethod
    def from_json(cls, counters: Mapping[str, Any]) -> Counters:
        """Read counters back: 0 where one is missing; unknown ones (a newer release's) are left."""
        return cls(**{name: int(counters.get(name, 0)) for name in cls.meanings()})

    def __add__(self, other: Counters) -> Counters:
        mine, others = asdict(self), asdict(other)
        return Counters(**{name: mine[name] + others[name] for name in mine})


@dataclass(frozen=True, slots=True)
class Report:
    """A moment's state of the driver-side process.

    backlog: messages per queue, those leased or delayed included, as the service roughly counts;
    without the queues whose count could not be had. held: leased, and not yet seen gone.
    remembered: committed, but not deleted; each is deleted when it comes back.
    visibility_timeout: how long leases are asked for now, seconds.
    """

    backlog: Mapping[str, int]
    held: int
    remembered: int
    visibility_timeout: int
    counters: Counters

    def to_json(self) -> dict[str, Any]:
        """The value handed to Spark: plain dicts, no secrets, no ids."""
        return {
            "version": VERSION,
            "backlog": dict(self.backlog),
            "held": self.held,
            "remembered": self.remembered,
            "visibilityTimeout": self.visibility_timeout,
            "counters": asdict(self.counters),
        }

    @classmethod
    def from_json(cls, report: Mapping[str, Any]) -> Report:
        """Read a report back. Raises LookupError, TypeError, ValueError where it is none."""
        return cls(
            {str(queue): int(count) for queue, count in dict(report["backlog"]).items()},
            int(report["held"]),
            int(report["remembered"]),
            int(report["visibilityTimeout"]),
            Counters.from_json(report["counters"]),
        )
