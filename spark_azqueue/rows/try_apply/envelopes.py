"""The work of the tasks of `dead_letters`: makes envelopes for failed rows."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from spark_azqueue.rows.packing.arrow_format import ArrowFormat
from spark_azqueue.service.envelopes import times_of
from spark_azqueue.service.messages import NEVER_EXPIRES
from spark_azqueue.sink.dead_letters import Given, dead_letter_text

COLUMNS = "body STRING, time_to_live INT"
_SCHEMA = pa.schema({"body": pa.string(), "time_to_live": pa.int32()})


def envelopes(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield, for each row, the row to send.

    Raises InvalidRow for a row without a body.

    batches: rows with the fields of `Given`, insertion_time in microseconds, dequeue_count, and
    optionally message_row.
    """
    for batch in batches:
        texts = [_text(**row) for row in batch.to_pylist()]
        times = [NEVER_EXPIRES] * len(texts)
        yield pa.RecordBatch.from_pydict({"body": texts, "time_to_live": times}, schema=_SCHEMA)


@dataclass(frozen=True, slots=True)
class RowEnvelopes:
    """Envelopes for rows from packed messages. Every row is packed into a message of its own.

    names: names of the row's own columns. In a batch, these columns are in place of `body`: they
    come last, under other names.
    """

    names: tuple[str, ...]

    def on(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield, for each row, the row to send. For a message that could not be unpacked, this is
        the message's text."""
        for batch in batches:
            first = batch.num_columns - len(self.names)
            own = pa.RecordBatch.from_arrays(batch.columns[first:], names=list(self.names))
            rows = ArrowFormat.prepared(own)
            bodies = [
                base64.b64encode(ArrowFormat.packed(rows[place : place + 1])).decode()
                if stored is None
                else None
                for place, stored in enumerate(batch.column("stored").to_pylist())
            ]
            columns = [*batch.columns[:first], pa.array(bodies, pa.string())]
            names = [*batch.schema.names[:first], "body"]
            yield from envelopes([pa.RecordBatch.from_arrays(columns, names=names)])


def _text(
    *,
    message_id: str,
    queue: str,
    reason: str,
    body: str | bytes | None,
    stored: str | None,
    insertion_time: int | None,
    dequeue_count: int | None,
    message_row: int | None = None,
) -> str:
    more = times_of(insertion_time, dequeue_count)
    if message_row is not None:
        more["message_row"] = message_row
    return dead_letter_text(Given(message_id, queue, reason, body, stored, more))
