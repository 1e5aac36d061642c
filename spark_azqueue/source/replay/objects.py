"""Reads the objects of a log, and checks that each object matches its name. Runs on the executors.

If an object is missing, the error says whether the writer of the log removed it after the batches
were chosen, or another program removed it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Protocol

import pyarrow as pa

from spark_azqueue.errors import LostSegment
from spark_azqueue.journal.journal import Journal
from spark_azqueue.journal.numbers import number_in
from spark_azqueue.journal.refusals import tell_loss
from spark_azqueue.options.replay import ReplayConfig
from spark_azqueue.service.encoding import Encoding
from spark_azqueue.service.messages import Message

from ..columns import Columns
from ..executors import names as slot_names
from ..executors.folder import PlanFolder
from ..executors.leasing import slot_rows
from ..large_bodies import carried, resolved
from ..log import names as segment_names
from ..log.outcomes import outcome_on
from ..log.segment import Segments, segment_rows
from ..logged.undecodable import LoggedRows, Reading
from ..partitions import MOST_PARTITION_BYTES, MOST_ROWS, cut
from ..refusals import lost_batch, removed_under_reader
from ..rows import TYPES, Row, record_batch
from .batches import UNKNOWN, Piece

ReadAs = Callable[[Reading], Reading]


class Objects(Protocol):
    """Reader for the objects of one kind of log. Used by one thread. Writes nothing."""

    def rows(self, piece: Piece, today: Reading, read_as: ReadAs) -> LoggedRows | None:
        """Return the rows of this piece, or None if the batch was abandoned or the piece is empty.

        today, read_as: see `LoggedRows`.

        Raises LostSegment if the piece is missing, LogDamaged if the piece is damaged,
        ServiceError.
        """

    def is_removed(self, number: int) -> bool:
        """Return True if the log's writer has removed this batch because of its retention.

        Raises the same errors as `rows`.
        """


def objects_of(journal: Journal) -> Objects:
    """Return the reader for the objects of this log."""
    return SlotObjects(journal) if isinstance(journal, PlanFolder) else SegmentObjects(journal)


class SegmentObjects:
    """Reader for segments that a driver wrote."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._segments = Segments(journal)

    def rows(self, piece: Piece, today: Reading, read_as: ReadAs) -> LoggedRows | None:
        """See `Objects`. Returns None for an abandoned batch."""
        number = piece.batch
        if piece.has_outcome:
            outcome = outcome_on(self._journal, number)
            if outcome is None:  # the writer removes a batch's outcome just before its segment
                raise self._gone(number)
            if outcome.gives_up:
                return None
        try:
            segment = self._segments.read(number)
        except LostSegment:
            raise self._gone(number) from None
        return segment_rows(segment, today, read_as)

    def is_removed(self, number: int) -> bool:
        """See `Objects`."""
        listed = map(number_in, self._journal.store.names(segment_names.SEGMENTS))
        head = max((each for each in listed if each), default=0)
        return head > 0 and number <= self._segments.header(head).floor

    def _gone(self, number: int) -> LostSegment:
        return _gone(self._journal.where, number, is_removed=self.is_removed(number))


class SlotObjects:
    """Reader for segments that the slots of leaseOn=executors wrote."""

    def __init__(self, folder: PlanFolder) -> None:
        self._folder = folder

    def rows(self, piece: Piece, today: Reading, read_as: ReadAs) -> LoggedRows | None:
        """See `Objects`. Returns None for a slot without messages, and for an abandoned plan."""
        assert piece.plan is not None
        self._check_chain(piece)
        if piece.has_outcome:
            following = self._folder.following(piece.plan)
            if following is not None and following.gave_up:
                return None
        found = self._folder.segment_of(piece.plan, piece.slot)
        if found is None:
            raise self._gone(piece.batch)
        segment, _ = found
        return slot_rows(segment, today, read_as) if segment.received else None

    def is_removed(self, number: int) -> bool:
        """See `Objects`."""
        return number <= self._folder.floor()

    def _check_chain(self, piece: Piece) -> None:
        """Check that the previous plan's `next` is the piece's plan, and has exactly these slots.

        The check runs once for each plan.
        """
        if piece.chained is None:
            return
        before, slots = piece.chained
        plan = self._folder.following(before)
        if plan is None:
            raise self._gone(piece.batch)
        if plan.id != piece.plan:
            name = slot_names.following(before)
            raise self._folder.damaged(name, "it is not the plan whose slots are there")
        if slots != tuple(range(len(plan.slots))):
            raise self._gone(piece.batch)

    def _gone(self, number: int) -> LostSegment:
        return _gone(self._folder.where, number, is_removed=self.is_removed(number))


def _gone(where: str, number: int, *, is_removed: bool) -> LostSegment:
    return removed_under_reader(where, number) if is_removed else lost_batch(where, number)


OWN_COLUMNS: Columns = (("log_batch", "bigint"), ("logged_at", "timestamp"))
"""Columns that a read of a log has in addition to the columns of the source."""

_ANY: Columns = (("message_id", "string"),)


def rows_of(
    objects: Objects,
    pieces: Iterable[Piece],
    config: ReplayConfig,
    requested: Columns,
    *,
    may_lack_removed: bool,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of these pieces with these columns, in record batches of bounded size.

    may_lack_removed: see `rows_by_piece`. Raises the errors of `rows_by_piece`, and LostBlob.
    """
    own = dict(OWN_COLUMNS)
    asked = tuple(column for column in requested if column[0] not in own) or _ANY
    columns = carried(asked, config)
    for piece, rows, _ in rows_by_piece(objects, pieces, config, may_lack_removed=may_lack_removed):
        batches = (
            record_batch(part, columns) for part in cut(rows, MOST_ROWS, MOST_PARTITION_BYTES)
        )
        for batch in resolved(batches, asked, config):
            yield _with_own(batch, piece, requested)


EncodingOf = Callable[[Message], Encoding]


def rows_by_piece(
    objects: Objects, pieces: Iterable[Piece], config: ReplayConfig, *, may_lack_removed: bool
) -> Iterator[tuple[Piece, Iterator[Row], EncodingOf]]:
    """Yield each piece with its rows, and with a function that returns a message's encoding.

    The rows have no leases. If a body is in a blob, the row has the reference to the blob.
    may_lack_removed: skip a batch, with a warning, if the log's writer has removed it since the
    batches were chosen. Raises the errors of `Objects.rows`, and UndecodableBody.
    """
    container = config.claim_check.container if config.claim_check else None
    today = Reading(
        config.encoding or Encoding.NONE, config.body_type, config.on_undecodable, container
    )

    def read_as(logged: Reading) -> Reading:
        """Replace logged options by options of the reader."""
        on_undecodable = config.on_undecodable
        reading = replace(logged, container=today.container, on_undecodable=on_undecodable)
        if config.encoding is None:
            return reading
        return replace(reading, encoding=config.encoding, body_type=config.body_type)

    for piece in pieces:
        try:
            logged = objects.rows(piece, today, read_as)
        except LostSegment as error:
            is_tolerated = may_lack_removed and objects.is_removed(piece.batch)
            tell_loss(error, lose=is_tolerated or not config.fail_on_data_loss)
            continue
        if logged is not None:
            rows = (replace(row, lease=None) for row in logged.rows())
            yield piece, rows, logged.encoding_of


def _with_own(batch: pa.RecordBatch, piece: Piece, requested: Columns) -> pa.RecordBatch:
    values = {
        "log_batch": piece.batch,
        "logged_at": None if piece.logged_at == UNKNOWN else piece.logged_at,
    }
    arrays = [
        pa.array([values[name]] * batch.num_rows, type=TYPES[kind])
        if name in values
        else batch.column(name)
        for name, kind in requested
    ]
    schema = pa.schema([(name, TYPES[kind]) for name, kind in requested])
    return pa.record_batch(arrays, schema=schema)
