"""Rows of the source: decodes messages into rows, and cuts rows into Arrow streams.

Rows are built once, on the driver. `read` only returns the rows of a partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from spark_azqueue.errors import UndecodableBody
from spark_azqueue.journal.frame import codec
from spark_azqueue.options.blobs import ClaimCheck
from spark_azqueue.options.choices import OnUndecodable
from spark_azqueue.service.blobs.references import Reference, read_reference
from spark_azqueue.service.encoding import BodyType, Encoding, decode, unwritable
from spark_azqueue.service.fields import marked
from spark_azqueue.service.message_fields import Form
from spark_azqueue.service.messages import FIELDS, UNKNOWN_TIME, Lease, Message

from .columns import BODY, CORRUPT, IS_REFERENCE, Columns
from .partitions import bytes_at_most, cut, rows_at_most, sample

TYPES = {
    "string": pa.string(),
    "binary": pa.binary(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "boolean": pa.bool_(),
}
"""Arrow types by Spark's type names. Spark accepts exactly these types: timestamps in microseconds
and UTC, all nullable."""

_SAMPLE_ROWS = 8


class Bodies(Protocol):
    """Options for the bodies of rows. A `SourceConfig` has them."""

    @property
    def body_type(self) -> BodyType:
        """The option `bodyType`."""

    @property
    def on_undecodable(self) -> OnUndecodable:
        """The option `onUndecodable`."""

    @property
    def claim_check(self) -> ClaimCheck | None:
        """Container of large bodies with largeBody=blob, else None."""


class Decoding(Bodies, Protocol):
    """Options for decoding messages into bodies. A `SourceConfig` has them."""

    @property
    def encoding(self) -> Encoding:
        """The option `messageEncoding`."""


@dataclass(frozen=True, slots=True)
class Row:
    """A message with its decoded body.

    body: None if the text does not decode. lease: None for a row of a peek. corrupt: the raw text,
    if it does not decode. reference: the parsed reference, if `body` is a reference to a blob.
    """

    message: Message
    body: str | bytes | None
    lease: Lease | None = None
    corrupt: str | None = None
    reference: Reference | None = None

    @property
    def size(self) -> int:
        """Size of the stored text in bytes."""
        return self.message.size


def partitions(rows: Sequence[Row], columns: Columns, most_rows: int | None = None) -> list[bytes]:
    """Cut rows into partitions. Return each partition in the form of `streams`."""
    return streams(parts_of(rows, most_rows), columns)


def parts_of(
    rows: Sequence[Row], most_rows: int | None = None, *, with_texts: bool = True
) -> list[list[Row]]:
    """Cut rows into partitions.

    most_rows: maximum number of rows in a partition, or None to choose this number from the batch's
    size. with_texts: False if the partitions have neither bodies nor raw texts. In this case only
    the number of rows matters.
    """
    most_rows = most_rows or rows_at_most(len(rows))
    if not with_texts:
        return [list(rows[first : first + most_rows]) for first in range(0, len(rows), most_rows)]
    most_bytes = bytes_at_most(_ratio(rows), len(rows), sum(row.size for row in rows))
    return list(cut(rows, most_rows, most_bytes))


def streams(
    parts: Iterable[Sequence[Row]], columns: Columns, *, deleted_by_user: bool = False
) -> list[bytes]:
    """Return each part as a compressed Arrow IPC stream of one record batch.

    deleted_by_user: see `record_batch`.
    """
    return [
        _serialised(record_batch(part, columns, deleted_by_user=deleted_by_user)) for part in parts
    ]


def _ratio(rows: Sequence[Row]) -> float:
    """Measure the compression ratio on a sample: compressed size of bodies / size of texts.

    Returns 1 if all texts are empty.
    """
    some = sample(rows, _SAMPLE_ROWS)
    size = sum(row.size for row in some)
    bodies = b"".join(_bytes_of(row.body or row.corrupt or "") for row in some)
    return len(codec().compress(bodies, asbytes=True)) / size if size else 1.0


def _bytes_of(body: str | bytes) -> bytes:
    return body if isinstance(body, bytes) else body.encode("utf-8", "surrogatepass")


def record_batches(partition: bytes) -> Iterator[pa.RecordBatch]:
    """Yield the record batches of one partition."""
    with pa.ipc.open_stream(partition) as reader:
        yield from reader


def record_batch(
    rows: Sequence[Row], columns: Columns, *, deleted_by_user: bool = False
) -> pa.RecordBatch:
    """Return the rows as one record batch with these columns.

    deleted_by_user: True with deleteOnCommit=false. The user may then use the receipts.
    """
    shown = str if deleted_by_user else marked
    schema = pa.schema([(name, TYPES[kind]) for name, kind in columns])
    arrays = [pa.array(_column(name, rows, shown), type=TYPES[kind]) for name, kind in columns]
    return pa.record_batch(arrays, schema=schema)


def _serialised(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=codec())
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


_FIELDS = {each.column: each for each in FIELDS}


def _column(name: str, rows: Sequence[Row], shown: Callable[[str], str]) -> list[Any]:
    if name == BODY:
        return [row.body for row in rows]
    if name == CORRUPT:
        return [row.corrupt for row in rows]
    if name == IS_REFERENCE:
        return [row.reference is not None for row in rows]
    field = _FIELDS[name]
    if field.form is Form.RECEIPT:
        return [shown(row.lease.pop_receipt) if row.lease else None for row in rows]
    values = [getattr(row.message, field.name) for row in rows]
    if field.form is Form.QUEUE:
        return [queue.name for queue in values]
    if field.form is Form.TIME:
        return [None if value == UNKNOWN_TIME else value for value in values]
    return values


def content_of(message: Message, config: Decoding) -> tuple[str | bytes, Reference | None]:
    """Return a message's body, and the parsed reference if the body is a reference to a blob.

    Raises UndecodableBody.
    """
    container = config.claim_check.container if config.claim_check else None
    return content_as(message, config.encoding, config.body_type, container)


def content_as(
    message: Message, encoding: Encoding, body_type: BodyType, container: str | None
) -> tuple[str | bytes, Reference | None]:
    """Like `content_of`, but with these options.

    container: name of the container of large bodies.
    """
    if not message.intact:
        character = unwritable(message.text)
        raise UndecodableBody(
            f"its text has the character {character}, which XML cannot hold"
            if character
            else "the service's answer was damaged within this message"
        )
    body = decode(message.text, encoding, body_type)
    return body, read_reference(body, container) if container is not None else None


def decoded(message: Message, config: Decoding, lease: Lease) -> Row:
    """Decode a leased message into a row.

    Raises UndecodableBody, except with onUndecodable=permissive. If `is_dead_letter` is True for
    the message, the caller dead-letters the message, and the error is the reason. Otherwise the
    error stops the query.
    """
    try:
        body, reference = content_of(message, config)
        return Row(message, body, lease, reference=reference)
    except UndecodableBody as error:
        if config.on_undecodable is OnUndecodable.PERMISSIVE:
            return Row(message, None, lease, corrupt=message.text)
        if is_dead_letter(message, config.on_undecodable):
            raise
        back = " It goes back into the queue, as does all that was leased with it."
        raise undecodable(message, error, config.encoding, back) from error


def undecodable(
    message: Message, error: UndecodableBody, encoding: Encoding, back: str = ""
) -> UndecodableBody:
    """Return the error that stops a query because of this message.

    encoding: the current option. back: a sentence that says what happens to the message, or "".
    """
    if message.intact:
        then = f"Set messageEncoding to what the sender uses (now {encoding.value}), or"
    elif message.is_whole:
        then = "Set onUndecodable=poison to dead-letter such a message, or"
    else:
        then = "Start the query again, since the next answer may be whole; or set"
    return UndecodableBody(
        f"message {message.message_id} in queue '{message.queue.name}' cannot be decoded:"
        f" {error}.{back} {then} onUndecodable=permissive to get such messages as rows with"
        " _corrupt_record",
        condition=error.condition,
    )


def is_dead_letter(message: Message, on_undecodable: OnUndecodable) -> bool:
    """Return True if this message must be dead-lettered because it does not decode.

    Returns False if the service's answer was damaged and has only a part of the message, because a
    copy would be a different message.
    """
    return on_undecodable is OnUndecodable.POISON and message.is_whole


def is_to_come_again(message: Message, on_undecodable: OnUndecodable) -> bool:
    """Return True if a damaged message must be released and dequeued again before it is
    dead-lettered.

    After the first dequeue, the message is released, because only the answer may have been damaged.
    If the text of a later dequeue is damaged too, the message itself is damaged.
    """
    is_first = not message.intact and message.dequeue_count == 1
    return is_first and is_dead_letter(message, on_undecodable)
