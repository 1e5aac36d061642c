"""largeBody=blob on the executors: references in the column `body` are replaced by the bodies.

Blobs are only read, so a second read of a partition returns the same rows. The bodies never pass
through the source's process on the driver. A task has only a limited number of bytes of bodies in
memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from spark_azqueue.errors import LostBlob, UndecodableBody, short_tracebacks
from spark_azqueue.errors.conditions import Condition
from spark_azqueue.options.blobs import ClaimCheck
from spark_azqueue.options.choices import OnUndecodable
from spark_azqueue.service.blobs.references import Reference, read_reference
from spark_azqueue.service.blobs.store import BlobStore
from spark_azqueue.service.encoding import BodyType
from spark_azqueue.service.workers import Workers

from .columns import CORRUPT, IS_REFERENCE, Columns
from .rows import TYPES, Bodies

HELD_AT_MOST_BYTES = 32 * 2**20
"""Maximum number of bytes of bodies in one record batch, unless a single body is larger."""

_DOWNLOADS = 8
"""Maximum number of blobs that one task reads at once."""

# Columns that partitions have even if the query did not request these columns. Errors name a
# message by its id. The flag is needed because `body` need not be a reference: the batch may have
# been logged without largeBody=blob.
_CARRIED: Columns = (("message_id", "string"), ("queue", "string"), (IS_REFERENCE, "boolean"))


def carried(requested: Columns, config: Bodies) -> Columns:
    """Return the columns that a partition must have so that `resolved` can return the requested
    columns."""
    if not _has_work(requested, config):
        return requested
    return requested + tuple(column for column in _CARRIED if column not in requested)


@short_tracebacks
def resolved(
    batches: Iterable[pa.RecordBatch], requested: Columns, config: Bodies
) -> Iterator[pa.RecordBatch]:
    """Yield the record batches of a partition, with bodies in place of references.

    Raises ServiceError, LostBlob or UndecodableBody. The last two errors name the message.
    """
    if config.claim_check is None or not _has_work(requested, config):
        yield from batches
        return
    resolver = _Resolver(requested, config, config.claim_check)
    try:
        for batch in batches:
            yield from resolver.batch(batch)
    finally:
        resolver.close()


def _has_work(requested: Columns, config: Bodies) -> bool:
    return config.claim_check is not None and "body" in dict(requested)


class _Resolver:
    def __init__(self, requested: Columns, config: Bodies, place: ClaimCheck) -> None:
        self._names = [name for name, _ in requested]
        self._config = config
        self._container = place.container
        self._store = BlobStore(place.account, place.container)
        self._workers = Workers(_DOWNLOADS, "read-blobs")

    def batch(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the batch in pieces of limited size, with bodies in place of references."""
        bodies = batch.column("body").to_pylist()
        flags = batch.column(IS_REFERENCE).to_pylist()
        references = [
            read_reference(body, self._container) if is_reference else None
            for body, is_reference in zip(bodies, flags, strict=True)
        ]
        for start, end in _pieces(references):
            piece = batch.slice(start, end - start)
            if any(references[start:end]):
                piece = self._with_bodies(piece, bodies[start:end], references[start:end])
            yield piece.select(self._names)

    def close(self) -> None:
        """End the threads and close the connections, because Spark reuses the worker process."""
        self._workers.close()
        self._store.close()

    def _with_bodies(
        self,
        piece: pa.RecordBatch,
        bodies: list[Any],
        references: list[Reference | None],
    ) -> pa.RecordBatch:
        downloads = {
            row: self._workers.submit(self._store.get, reference)
            for row, reference in enumerate(references)
            if reference
        }
        corrupt: list[str | None] = (
            piece.column(CORRUPT).to_pylist() if CORRUPT in piece.schema.names else []
        )
        for row, download in downloads.items():
            try:
                bodies[row] = self._body(download.result())
            except UndecodableBody as error:
                if self._config.on_undecodable is not OnUndecodable.PERMISSIVE:
                    raise self._named(error, piece, row) from error
                if corrupt and (reference := references[row]):
                    corrupt[row] = reference.text
                bodies[row] = None
        piece = _replaced(piece, "body", bodies, TYPES[self._config.body_type.value])
        return _replaced(piece, CORRUPT, corrupt, TYPES["string"]) if corrupt else piece

    def _body(self, data: bytes) -> str | bytes:
        if self._config.body_type is BodyType.BINARY:
            return data
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise UndecodableBody(
                f"its blob holds bytes that are not UTF-8 text (at byte {error.start}); read them"
                " with bodyType=binary",
                condition=Condition.INVALID_BLOB_REFERENCE,
            ) from error

    def _named(self, error: UndecodableBody, piece: pa.RecordBatch, row: int) -> UndecodableBody:
        message_id = piece.column("message_id")[row].as_py()
        queue = piece.column("queue")[row].as_py()
        text = f"the body of message {message_id} in queue '{queue}' cannot be read: {error}."
        if isinstance(error, LostBlob):
            text += (
                " Restore the blob (soft delete), if that can be; else restart the query until it"
                " moves the message to the poison queue, or set onUndecodable=permissive to get it"
                " as a row with a null body and its reference in _corrupt_record"
            )
        return type(error)(text, condition=error.condition)


def _pieces(references: list[Reference | None]) -> Iterator[tuple[int, int]]:
    """Cut rows so that the bodies of a piece have at most HELD_AT_MOST_BYTES in total."""
    start, size = 0, 0
    for row, reference in enumerate(references):
        weight = reference.size if reference else 0
        if row > start and size + weight > HELD_AT_MOST_BYTES:
            yield start, row
            start, size = row, 0
        size += weight
    if start < len(references):
        yield start, len(references)


def _replaced(
    batch: pa.RecordBatch, name: str, values: list[Any], kind: pa.DataType
) -> pa.RecordBatch:
    columns = list(batch.columns)
    columns[batch.schema.get_field_index(name)] = pa.array(values, type=kind)
    return pa.record_batch(columns, schema=batch.schema)
