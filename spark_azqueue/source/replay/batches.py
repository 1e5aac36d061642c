"""Chooses the batches of a log to read, and groups their objects into partitions. Pure functions.

Only committed batches are read, because the writer may still abandon any other batch.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, NamedTuple

from spark_azqueue.errors import LostSegment
from spark_azqueue.journal.numbers import first_missing
from spark_azqueue.options.replay import ReplayConfig

from ..executors.names import PlanId
from ..offsets import HISTORY_VERSION, OffsetJson
from ..refusals import lost_batch, not_committed_yet, offset_of_no_reader, removed, stored_later

UNKNOWN = -1
"""Value for a time that is missing in a listing."""

_PARTITION_BYTES = 4 * 2**20
_PARTITION_PIECES = 64


class Chained(NamedTuple):
    """A plan's previous plan in the chain of plans, and the slots of the plan that have a
    segment."""

    before: PlanId
    slots: tuple[int, ...]


class Piece(NamedTuple):
    """Object of a log to read: a segment that a driver or, with leaseOn=executors, a task wrote.

    logged_at: time at which the batch was logged, in microseconds since 1970, or UNKNOWN. size:
    stored size in bytes. has_outcome: the batch may have been abandoned, in which case it has no
    rows; see `objects.py`. plan, slot: set only with leaseOn=executors. chained: set only in the
    first piece of each plan, so that the folder is checked once for each plan.
    """

    batch: int
    logged_at: int
    size: int
    has_outcome: bool = False
    plan: PlanId | None = None
    slot: int = 0
    chained: Chained | None = None


class Logged(NamedTuple):
    """A committed batch of a log."""

    number: int
    logged_at: int
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class LogSurvey:
    """Contents of a log.

    Batches up to `floor` were removed. Batches from `floor` + 1 to `committed` can be read.

    batches: the batches that can be read and have objects, in order.
    """

    where: str
    floor: int
    committed: int
    batches: tuple[Logged, ...] = ()

    def missing(self, first: int, last: int) -> int | None:
        """Return the number of the first of these batches that has no objects; None if all batches
        have objects."""
        numbers = range(max(first, self.floor + 1), min(last, self.committed) + 1)
        return first_missing(numbers, (each.number for each in self.batches))


def chosen_batches(
    found: LogSurvey, config: ReplayConfig
) -> tuple[list[Logged], list[LostSegment]]:
    """Return the batches that the options select, and an error for each gap among them.

    Raises InvalidOption if an option names a batch that is not committed yet.
    """
    for name, number in (("startingAt", config.start.batch), ("endingAt", config.end.batch)):
        if number is not None and number > found.committed:
            raise not_committed_yet(found.where, name, number, found.committed)
    first, last = config.start.batch or found.floor + 1, config.end.batch or found.committed
    batches = [
        each
        for each in found.batches
        if first <= each.number <= last and _is_within(each.logged_at, config)
    ]
    return batches, list(_lost(found, config, first, last))


def first_batch(found: LogSurvey, config: ReplayConfig) -> int | None:
    """Return the number of the batch with which a stream begins; None if the batch does not exist
    yet."""
    number, since = config.start
    if number is not None:
        return number
    if since is None:
        return found.floor + 1
    return next((each.number for each in found.batches if _is_from(each.logged_at, since)), None)


def lost_at_start(found: LogSurvey, config: ReplayConfig, first: int) -> LostSegment | None:
    """Return an error if the batch at which the options start was removed from the log, else
    None."""
    if first <= found.floor:
        return removed(found.where, first, found.floor, found.floor)
    oldest = found.batches[0].logged_at if found.batches else UNKNOWN
    if config.start.at is not None and found.floor and config.start.at < oldest:
        return stored_later(found.where, found.floor + 1, time_in_words(oldest))
    return None


def parted(pieces: Iterable[Piece]) -> list[tuple[Piece, ...]]:
    """Group pieces into partitions. A partition has several small pieces or one large piece."""
    parts: list[list[Piece]] = []
    size = 0
    for piece in pieces:
        size += piece.size
        if not parts or size > _PARTITION_BYTES or len(parts[-1]) >= _PARTITION_PIECES:
            parts.append([])
            size = piece.size
        parts[-1].append(piece)
    return [tuple(part) for part in parts]


def pieces_of(batches: Sequence[Logged]) -> list[Piece]:
    """Return the objects of these batches, in order."""
    return [piece for batch in batches for piece in batch.pieces]


def time_in_words(microseconds: int) -> str:
    """Return a time as text in the format of the options."""
    at = datetime.fromtimestamp(microseconds // 1_000_000, timezone.utc)
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def _lost(found: LogSurvey, config: ReplayConfig, first: int, last: int) -> Iterable[LostSegment]:
    if config.has_start and (error := lost_at_start(found, config, first)):
        yield error
    missing = found.missing(first, last)
    if missing is not None:
        yield lost_batch(found.where, missing)


def _is_within(logged_at: int, config: ReplayConfig) -> bool:
    since, until = config.start.at, config.end.at
    is_early = since is not None and not _is_from(logged_at, since)
    return not is_early and (until is None or logged_at <= until)


def _is_from(logged_at: int, since: int) -> bool:
    return logged_at == UNKNOWN or logged_at >= since


_LOG = re.compile(r"[0-9a-f]{32}")
_MOST = 10**12


@dataclass(frozen=True, slots=True)
class ReplayOffset:
    """Position of a reader of a log. Its newest micro-batch has the batches `first` to `batch` of
    the log.

    log: id of the log; "" before any batch was read.
    """

    log: str = ""
    first: int = 1
    batch: int = 0

    def to_json(self) -> OffsetJson:
        """Return the offset for Spark: plain values, always in the same key order."""
        return {
            "version": HISTORY_VERSION,
            "log": self.log,
            "first": self.first,
            "batch": self.batch,
        }

    @classmethod
    def from_json(cls, offset: Mapping[str, Any]) -> ReplayOffset:
        """Read an offset. Raises CheckpointMismatch."""
        found = offset if isinstance(offset, Mapping) else {}
        log, first, batch = (found.get(name) for name in ("log", "first", "batch"))
        if (
            found.get("version") == HISTORY_VERSION
            and isinstance(log, str)
            and (_LOG.fullmatch(log) or not log)
            and type(first) is int
            and type(batch) is int
            and 1 <= first <= batch + 1 <= _MOST
        ):
            return cls(log, first, batch)
        raise offset_of_no_reader()
