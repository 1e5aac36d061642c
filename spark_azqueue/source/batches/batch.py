"""A micro-batch: the rows of leased messages, the batch, and the choice of its size."""

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
"""Bytes that a log needs for each message besides its text: id, receipt, and numbers."""


@dataclass(frozen=True, slots=True)
class BatchRows:
    """Leased messages and their rows, which are not delivered as a batch yet.

    received: the messages, each with the lease whose receipt its row contains. cut: number of
    messages in each partition. blobs: for each message whose body is in a blob, the name of the
    blob. most: limit of messages for which the rows were made.
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
        """Cut rows into partitions.

        most: limit of messages for which the rows were made. rows_at_most: maximum number of rows
        in a partition, or None. deleted_by_user: True with deleteOnCommit=false. is_logged: True if
        a log stores the sizes of the partitions. In this case a later run may read other columns of
        the same rows.
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
        """Return the batch of these rows. leases: the leases of the delivered messages."""
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

    received: the messages in the order of their rows, each with the lease whose receipt its row
    contains. leases: newest leases of the messages at delivery, without messages whose text was
    updated before. cut: number of messages in each partition. oldest: earliest insertion time in
    seconds since 1970; None if unknown. blobs: for each lease of a message whose body is in a blob,
    the name of the blob. most: limit of messages when the batch was built. suspect: True if the
    batch contains a suspect, or is a comparison for lone suspects.
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
        """Earliest expiry of a message, in seconds since 1970; None if unknown or never."""
        times = (message.expiration_time for message, _ in self.received)
        return min((t // 1_000_000 for t in times if UNKNOWN_TIME < t < ENDLESS_US), default=None)

    @property
    def last_expiry(self) -> int | None:
        """Latest expiry of a message, in seconds since 1970; None if unknown."""
        times = (message.expiration_time for message, _ in self.received)
        return max((t // 1_000_000 for t in times if t != UNKNOWN_TIME), default=None)


def fitting(messages: Sequence[Message], most_bytes: int) -> Sequence[Message]:
    """Return the first messages that fit into `most_bytes`, but at least one message.

    These messages, with their ids and receipts, also fit into one segment of a log.
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
"""Target duration of a batch, in seconds. Spark's overhead of 0.2 to 0.5 s per batch is short in
comparison."""

TARGET_ALONE_S = 6.0
"""Target duration of a batch, in seconds, if the source does not dequeue while Spark processes a
batch."""

_PAYS = 1.3
"""A doubled batch size is kept if the number of messages per second grows at least by this
factor."""

_FULL = 0.9
_SLOW = 2.0
_TRY_AGAIN_AFTER = 16


class BatchSize:
    """Chooses the size of the next batch from the durations of earlier batches, in seconds."""

    def __init__(
        self, fixed: int | None, least: int | None = None, target_s: float = TARGET_S
    ) -> None:
        """fixed: the size that an option sets, or None. least: minimum number of messages, or None.

        target_s: target duration of a batch in seconds.
        """
        self._target_s = target_s
        self._smallest = max(SMALLEST, least or 0)
        self.most = fixed or self._smallest
        """Maximum number of messages in the next batch."""
        self._fixed = fixed is not None
        self._given: tuple[int, float, int] | None = None  # the batch that Spark processes now
        self._rates: dict[int, float] = {}  # messages per second, by size
        self._rest = 0  # number of full batches after which a rejected size is tried again

    def batch_began(self, messages: int, now: float, most: int | None = None) -> None:
        """Record that Spark got a batch of this many messages.

        most: the limit of messages for which the batch was built. The default is the current limit.
        """
        self._given = (messages, now, most or self.most)

    def batch_ended(self, now: float) -> None:
        """Record that the last batch has ended, because Spark requests the next batch.

        The call may be repeated.
        """
        if self._fixed or self._given is None:
            return
        (messages, since, most), self._given = self._given, None
        if messages < _FULL * most:  # there is no backlog
            self.forget()
            self.most = max(self._smallest, most // 2)
        else:
            self._compare(messages, max(now - since, 1e-3), most)

    def resumed(self, messages: int, most: int, took_s: float) -> None:
        """Choose the first size from the last batch of an earlier process.

        messages: number of messages in this batch. most: limit of messages of this batch. took_s:
        minimum number of seconds that the batch has taken.
        """
        if self._fixed:
            return
        self.most = min(max(most, self._smallest), LARGEST)
        if messages < _FULL * most:
            self.most = max(self._smallest, self.most // 2)
        elif took_s <= self._target_s:
            self.most = min(2 * self.most, LARGEST)

    def forget(self) -> None:
        """Drop the measured rates.

        Called when the load has changed, because another size may now be best.
        """
        self._rates.clear()
        self._rest = 0

    def _compare(self, messages: int, took_s: float, most: int) -> None:
        """Choose the next size after a full batch of size `most`."""
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
