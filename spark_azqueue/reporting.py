"""What the driver-side process tells of itself: the backlog, what it holds, what it has counted.

It travels in Spark's progress, as JSON (`Report`), beside the offsets. Nothing of it survives a
restart: every run of a query counts from zero. Ring: core (standard library only).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

VERSION = 1


def _says(meaning: str) -> dict[str, str]:
    return {"meaning": meaning}


@dataclass(slots=True)
class Counters:
    """Events since the query's run began, in messages. Whoever counts holds the ledger's lock."""

    dequeued: int = field(
        default=0, metadata=_says("Messages that dequeues brought, copies included.")
    )
    redelivered: int = field(
        default=0, metadata=_says("New to this run, but dequeued before by some run or consumer.")
    )
    delivered: int = field(default=0, metadata=_says("Messages handed to Spark in micro-batches."))
    deleted: int = field(
        default=0, metadata=_says("Messages deleted, originals of poison copies included.")
    )
    deletes_refused: int = field(
        default=0, metadata=_says("Deletes refused because the lease was lost.")
    )
    deletes_given_up: int = field(
        default=0, metadata=_says("Deletes given up after their retries.")
    )
    renewals: int = field(default=0, metadata=_says("Leases extended."))
    leases_lost: int = field(
        default=0, metadata=_says("Leases whose renewal was refused or came to nothing.")
    )
    copies_suppressed: int = field(
        default=0, metadata=_says("Copies delivered again that gave no second row.")
    )
    poison_moved: int = field(default=0, metadata=_says("Messages moved to a poison queue."))

    @classmethod
    def meanings(cls) -> dict[str, str]:
        """Each counter's name, with what it counts."""
        return {each.name: each.metadata["meaning"] for each in fields(cls)}

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
