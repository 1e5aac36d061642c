"""What a task of `dead_letters` does: envelopes of rows that failed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from spark_azqueue.service.envelopes import times_of
from spark_azqueue.service.messages import NEVER_EXPIRES
from spark_azqueue.sink.dead_letters import Given, dead_letter_text

COLUMNS = "body STRING, time_to_live INT"
_SCHEMA = pa.schema({"body": pa.string(), "time_to_live": pa.int32()})


def envelopes(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """A row to send for each row.

    Its columns: those of `Given`, and insertion_time in microseconds, dequeue_count. Raises
    InvalidRow for a row without a body.
    """
    for batch in batches:
        texts = [_text(**row) for row in batch.to_pylist()]
        times = [NEVER_EXPIRES] * len(texts)
        yield pa.RecordBatch.from_pydict({"body": texts, "time_to_live": times}, schema=_SCHEMA)


def _text(
    *,
    message_id: str,
    queue: str,
    reason: str,
    body: str | bytes | None,
    stored: str | None,
    insertion_time: int | None,
    dequeue_count: int | None,
) -> str:
    more = times_of(insertion_time, dequeue_count)
    return dead_letter_text(Given(message_id, queue, reason, body, stored, more))
