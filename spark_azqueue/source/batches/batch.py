"""What a micro-batch is: the rows of leased messages, and the batch that hands them out.

Pure values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spark_azqueue.journal.frame import UNPACKED_AT_MOST
from spark_azqueue.service.messages import (
    ENDLESS_US,
    UNKNOWN_TIME,
    Lease,
    Message,
    MessageKey,
    Received,
)

from ..columns import BODY, CORRUPT, Columns
from ..rows import Row, parts_of, streams

_STORED_BESIDE_TEXT = 200
"""Bytes of a message in a log beside its text: id, receipt, and numbers."""


@dataclass(frozen=True, slots=True)
class BatchRows:
    """Leased messages with their rows, in no batch yet.

    received: the messages, each with the lease that its row has. cut: how many messages each
    partition has. blobs: the blob with a message's body, if it has one. most: how many messages
    there might have been.
    """

    received: tuple[Received, ...]
    cut: tuple[int, ...]
    partitions: list[bytes]
    blobs: Mapping[MessageKey, str]
    most: int

    @classmethod
    def of(
        cls,
        rows: Sequence[Row],
        columns: Columns,
        most: int,
        rows_at_most: int | None,
        *,
        deleted_by_user: bool,
        is_logged: bool = False,
    ) -> BatchRows:
        """Cut rows into partitions, of at most `rows_at_most` rows if that is given.

        deleted_by_user: with deleteOnCommit=false. is_logged: a later run may ask for other columns
        of these partitions.
        """
        has_texts = any(name in (BODY, CORRUPT) for name, _ in columns)
        parts = parts_of(rows, rows_at_most, with_texts=has_texts or is_logged)
        return cls(
            tuple(Received(row.message, row.lease) for row in rows if row.lease),
            tuple(map(len, parts)),
            streams(parts, columns, deleted_by_user=deleted_by_user),
            {row.message.key: row.reference.name for row in rows if row.reference},
            most,
        )

    def batch(self, leases: tuple[Lease, ...], *, suspect: bool) -> Batch:
        """The batch of these rows. leases: of its messages, as they were delivered."""
        times = (message.insertion_time for message, _ in self.received)
        known = [time // 1_000_000 for time in times if time != UNKNOWN_TIME]
        return Batch(
            self.received,
            leases,
            self.cut,
            self.partitions,
            min(known, default=None),
            {lease: self.blobs[lease.key] for lease in leases if lease.key in self.blobs},
            self.most,
            suspect,
        )


@dataclass(frozen=True, slots=True)
class Batch:
    """A micro-batch, ready for Spark.

    received: of its rows, in order, each with the lease in its row. leases: of those messages, as
    they were delivered, without those whose text was updated meanwhile. cut: how many messages
    each partition has. oldest: earliest insertion time, seconds since 1970, None if no message
    tells. blobs: the blob with a message's body, by lease, if it has one. most: how many messages
    it might have had. suspect: one of the messages may be poison.
    """

    received: tuple[Received, ...]
    leases: tuple[Lease, ...]
    cut: tuple[int, ...]
    partitions: list[bytes]
    oldest: int | None
    blobs: Mapping[Lease, str]
    most: int
    suspect: bool = False

    @property
    def expires(self) -> int | None:
        """When the first message expires, seconds since 1970; None if none does, or tells when."""
        times = (message.expiration_time for message, _ in self.received)
        return min((t // 1_000_000 for t in times if UNKNOWN_TIME < t < ENDLESS_US), default=None)

    @property
    def last_expiry(self) -> int | None:
        """When the last message expires, seconds since 1970; None if no message tells."""
        times = (message.expiration_time for message, _ in self.received)
        return max((t // 1_000_000 for t in times if t != UNKNOWN_TIME), default=None)


def fitting(messages: Sequence[Message], most_bytes: int) -> Sequence[Message]:
    """The first messages that have at most `most_bytes` together, but at least one.

    And that one object of a log can hold, with their ids and receipts.
    """
    size = 0
    for number, message in enumerate(messages):
        size += message.size
        stored = size + (number + 1) * _STORED_BESIDE_TEXT
        if number and (size > most_bytes or stored > UNPACKED_AT_MOST):
            return messages[:number]
    return messages


SMALLEST = 4096
LARGEST = 32_768

TARGET_S = 1.5
"""How long a batch should take: long beside Spark's fixed part of 0.2 to 0.5 s."""

TARGET_ALONE_S = 6.0
"""How long, if nothing is dequeued while Spark works: queues rest between two batches."""

_PAYS = 1.3
"""A doubling pays if it brought this many times the messages per second."""

_FULL = 0.9
_SLOW = 2.0
_TRY_AGAIN_AFTER = 16


class BatchSize:
    """Chooses a size from how long batches took. `fixed`: the size that an option names, or None.

    Times are seconds of one clock, handed in.
    """

    def __init__(
        self, fixed: int | None, least: int | None = None, target_s: float = TARGET_S
    ) -> None:
        """least: the fewest messages that a batch is worth, None: any number.

        target_s: how long a batch should take.
        """
        self._target_s = target_s
        self._smallest = max(SMALLEST, least or 0)
        self.most = fixed or self._smallest
        """Most messages in the next batch."""
        self._fixed = fixed is not None
        self._given: tuple[int, float, int] | None = None  # the batch that Spark works on
        self._rates: dict[int, float] = {}  # messages per second, by size
        self._rest = 0  # full batches until a size that did not pay is tried again

    def batch_began(self, messages: int, now: float, most: int | None = None) -> None:
        """Spark has got a batch of this many messages.

        most: how many it might have had, if it was built before the last change of the size.
        """
        self._given = (messages, now, most or self.most)

    def batch_ended(self, now: float) -> None:
        """Spark asks for the next batch: the last one has ended. Repeatable."""
        if self._fixed or self._given is None:
            return
        (messages, since, most), self._given = self._given, None
        if messages < _FULL * most:  # there is no backlog
            self.forget()
            self.most = max(self._smallest, most // 2)
        else:
            self._compare(messages, max(now - since, 1e-3), most)

    def resumed(self, messages: int, most: int, took_s: float) -> None:
        """An earlier process gave Spark a batch of this many messages, `most` at most.

        took_s: how long it took at least.
        """
        if self._fixed:
            return
        self.most = min(max(most, self._smallest), LARGEST)
        if messages < _FULL * most:
            self.most = max(self._smallest, self.most // 2)
        elif took_s <= self._target_s:
            self.most = min(2 * self.most, LARGEST)

    def forget(self) -> None:
        """How long batches take has changed, so other sizes may pay now."""
        self._rates.clear()
        self._rest = 0

    def _compare(self, messages: int, took_s: float, most: int) -> None:
        """A full batch, of `most` messages at most, took so long."""
        self._rest = max(0, self._rest - 1)
        self._rates[most] = messages / took_s
        before = self._rates.get(most // 2)
        paid = before is None or self._rates[most] >= _PAYS * before
        self.most = most
        if took_s > _SLOW * self._target_s and not paid:
            self.most = most // 2
            self._rest = _TRY_AGAIN_AFTER
        elif most < LARGEST and (took_s <= self._target_s / 2 or (paid and not self._rest)):
            self.most = most * 2
