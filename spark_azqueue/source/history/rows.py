"""The rows of a partition of a log, read again at every call. Runs on the executors.

Without options that say otherwise, bodies are decoded as for the writing query, see
`log/decisions.py`, so the rows are those that it gave.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import replace

import pyarrow as pa

from spark_azqueue.errors import LostSegment
from spark_azqueue.options.history import HistoryConfig
from spark_azqueue.service.encoding import Encoding

from ..columns import Columns
from ..large_bodies import carried, resolved
from ..log.decisions import Reading
from ..partitions import MOST_BYTES, MOST_ROWS, cut
from ..rows import TYPES, record_batch
from .batches import UNKNOWN, Piece
from .objects import Objects

log = logging.getLogger(__name__)

OWN_COLUMNS: Columns = (("log_batch", "bigint"), ("logged_at", "timestamp"))
"""What a read of a log has beside the columns of the source."""

_ANY: Columns = (("message_id", "string"),)


def rows_of(
    objects: Objects,
    pieces: Iterable[Piece],
    config: HistoryConfig,
    requested: Columns,
    *,
    may_lack_removed: bool,
) -> Iterator[pa.RecordBatch]:
    """The rows of these pieces with these columns, in record batches of bounded size.

    may_lack_removed: a batch that its writer has removed meanwhile is left out, with a warning.
    Raises what `Objects.rows` does, UndecodableBody and LostBlob.
    """
    container = config.claim_check.container if config.claim_check else None
    today = Reading(
        config.encoding or Encoding.NONE, config.body_type, config.on_undecodable, container
    )

    def read_as(logged: Reading) -> Reading:
        """What the options of the reader say goes before what the batch was logged with."""
        reading = replace(logged, container=today.container)
        if config.encoding is None:
            return reading
        return replace(reading, encoding=config.encoding, body_type=config.body_type)

    own = dict(OWN_COLUMNS)
    asked = tuple(column for column in requested if column[0] not in own) or _ANY
    for piece in pieces:
        try:
            logged = objects.rows(piece, today, read_as)
        except LostSegment as error:
            is_tolerated = may_lack_removed and objects.is_removed(piece.batch)
            if config.fail_on_data_loss and not is_tolerated:
                raise
            log.warning("%s", error)
            continue
        if logged is None:
            continue
        rows = (replace(row, lease=None) for row in logged.rows() if row is not None)
        columns = carried(asked, config)
        batches = (record_batch(part, columns) for part in cut(rows, MOST_ROWS, MOST_BYTES))
        for batch in resolved(batches, asked, config):
            yield _with_own(batch, piece, requested)


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
