"""What a micro-batch is: the rows of leased messages, and the batch that hands them out.

Pure values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spark_azqueue.journal.frame import UNPACKED_AT_MOST
from spark_azqueue.service.messages import UNKNOWN_TIME, Lease, Message, MessageKey, Received

from ..columns import Columns
from ..rows import Row, parts_of, streams

THE_END = 253_370_764_800 * 1_000_000
"""The year 9999, in microseconds: a message that never expires expires at its end."""

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
    ) -> BatchRows:
        """Cut rows into partitions, of at most `rows_at_most` rows if that is given.

        deleted_by_user: with deleteOnCommit=false.
        """
        parts = parts_of(rows, rows_at_most)
        return cls(
            tuple(Received(row.message, row.lease) for row in rows if row.lease),
            tuple(map(len, parts)),
            streams(parts, columns, deleted_by_user=deleted_by_user),
            {row.message.key: row.reference.name for row in rows if row.reference},
            most,
        )

    def batch(self, leases: tuple[Lease, ...], *, suspect: bool) -> Batch:
        """The batch of these rows. leases: of its messages, as they were handed out."""
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
    they were handed out, without those whose text was updated meanwhile. cut: how many messages
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
        return min((t // 1_000_000 for t in times if UNKNOWN_TIME < t < THE_END), default=None)


def fitting(messages: Sequence[Message], most_bytes: int) -> Sequence[Message]:
    """The first messages that have at most so many bytes together, but at least one.

    And that one object of a log can hold, with their ids and receipts.
    """
    size = 0
    for number, message in enumerate(messages):
        size += message.size
        stored = size + (number + 1) * _STORED_BESIDE_TEXT
        if number and (size > most_bytes or stored > UNPACKED_AT_MOST):
            return messages[:number]
    return messages
