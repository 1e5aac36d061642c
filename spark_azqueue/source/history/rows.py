"""The rows of a partition of a log, read again at every call. Runs on the executors.

Without options that say otherwise, bodies are decoded as the batch was logged, so the rows are
those that the writing query gave.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from spark_azqueue.errors import LostSegment, UndecodableBody
from spark_azqueue.options.blobs import ClaimCheck
from spark_azqueue.options.choices import OnUndecodable
from spark_azqueue.options.history import HistoryConfig
from spark_azqueue.service.encoding import BodyType, Encoding

from ..columns import Columns
from ..large_bodies import carried, resolved
from ..partitions import MOST_BYTES, MOST_ROWS, cut
from ..rows import TYPES, Row, content_of, decoded, record_batch
from .batches import UNKNOWN, Piece
from .objects import Contents, Objects

log = logging.getLogger(__name__)

OWN_COLUMNS: Columns = (("log_batch", "bigint"), ("logged_at", "timestamp"))
"""What a read of a log has beside the columns of the source."""

_ANY: Columns = (("message_id", "string"),)


@dataclass(frozen=True)
class Reading:
    """How the bodies of one piece are decoded: a `Decoding`."""

    encoding: Encoding
    body_type: BodyType
    on_undecodable: OnUndecodable
    claim_check: ClaimCheck | None


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
    Raises what `Objects.contents` does, UndecodableBody and LostBlob.
    """
    own = dict(OWN_COLUMNS)
    asked = tuple(column for column in requested if column[0] not in own) or _ANY
    for piece in pieces:
        try:
            contents = objects.contents(piece)
        except LostSegment as error:
            is_tolerated = may_lack_removed and objects.is_removed(piece.batch)
            if config.fail_on_data_loss and not is_tolerated:
                raise
            log.warning("%s", error)
            continue
        if contents is None:
            continue
        reading = _reading(contents.reading, config)
        rows = _rows(contents, reading, piece.batch)
        columns = carried(asked, reading)
        batches = (record_batch(part, columns) for part in cut(rows, MOST_ROWS, MOST_BYTES))
        for batch in resolved(batches, asked, reading):
            yield _with_own(batch, piece, requested)


def _rows(contents: Contents, reading: Reading, number: int) -> Iterator[Row]:
    logged = _logged(contents.reading)
    for message, _ in contents.received:
        if contents.sets_aside:
            try:
                content_of(message, logged)
            except UndecodableBody:
                continue  # it is in the poison queue of the writing query
        try:
            yield decoded(message, reading, None, goes_back=False)
        except UndecodableBody as error:
            raise UndecodableBody(
                f"batch {number} of the log: {error}", condition=error.condition
            ) from error


def _reading(logged: Mapping[str, str], config: HistoryConfig) -> Reading:
    return Reading(
        config.encoding or _logged(logged).encoding,
        config.body_type,
        config.on_undecodable,
        config.claim_check,
    )


def _logged(reading: Mapping[str, str]) -> Reading:
    """As the writing query decoded. A value of a newer release counts as the default."""
    encodings = {each.value: each for each in Encoding}
    types = {each.value: each for each in BodyType}
    return Reading(
        encodings.get(reading.get("messageEncoding", ""), Encoding.NONE),
        types.get(reading.get("bodyType", ""), BodyType.STRING),
        OnUndecodable.FAIL,
        None,
    )


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
