"""The work of the tasks of `unpack`: opens one message after the other, and yields the rows."""

from __future__ import annotations

import base64
import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from spark_azqueue.errors import UndecodableBody
from spark_azqueue.errors.conditions import Condition

from .bodies import rows_of
from .bounds import CorruptPack, PackBounds

log = logging.getLogger(__name__)

MESSAGE_ROW = "message_row"
CORRUPT = "_corrupt_record"
_GIVEN_AT_MOST = 4 * 2**20
"""Approximate maximum size, in bytes, of a record batch that the task yields. A single row may be
larger."""


@dataclass(frozen=True, slots=True)
class UnpackWork:
    """The work of one task of `unpack`. Spark sends this object to the tasks.

    kept: names of the columns to keep. In a batch, these columns come first, under other names, and
    `body` follows. wanted: schema of the rows. fails: True to raise an error for a message that
    cannot be opened, False to return its text in a column. batch_rows: maximum number of rows of a
    record batch. tells: True to add a last column that says why a message cannot be opened.
    """

    kept: tuple[str, ...]
    wanted: pa.Schema
    keeps_body: bool
    fails: bool
    bounds: PackBounds
    batch_rows: int
    tells: bool = False

    def on(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield rows with the columns to keep, `message_row`, and the columns of the schema.

        If `fails` is False, rows also have `_corrupt_record`. Raises UndecodableBody.
        """
        noted = _Noted()
        for batch in batches:
            yield from self._opened(batch, noted)
        noted.report()

    def _opened(self, batch: pa.RecordBatch, noted: _Noted) -> Iterator[pa.RecordBatch]:
        bodies = batch.column(len(self.kept))
        pending = _Pending(self, batch)
        for place in range(batch.num_rows):
            count = 0
            body = _body(bodies[place])
            try:
                opened = rows_of(body, self.wanted, self.bounds)
            except CorruptPack as error:
                if self.fails:
                    raise self._error(batch, place, str(error)) from None
                noted.corrupt(str(error))
                yield from pending.add_corrupt(place, _text(body), str(error))
                continue
            for rows in opened:
                yield from pending.add(place, count, rows, len(body or ""))
                count += rows.num_rows
        yield from pending.rest()

    def _error(self, batch: pa.RecordBatch, place: int, reason: str) -> UndecodableBody:
        named = dict(zip(self.kept, range(len(self.kept)), strict=True))
        which = "a message"
        if "message_id" in named:
            which = f"message {batch.column(named['message_id'])[place].as_py()}"
        if "queue" in named:
            which += f" of queue '{batch.column(named['queue'])[place].as_py()}'"
        return UndecodableBody(
            f"unpack: the body of {which} cannot be opened: {reason}. Take corrupt='column' if"
            " others may send such bodies, or restart until 'maxDequeueCount' dead-letters them",
            condition=Condition.CORRUPT_PACK,
        )


def _body(stored: pa.Scalar) -> str | bytes | None:
    """Return a body.

    Spark allows strings that are not UTF-8. Such a string is returned as bytes.
    """
    try:
        body: str | bytes | None = stored.as_py()
    except UnicodeDecodeError:
        return bytes(stored.as_buffer())
    return body


def _text(body: str | bytes | None) -> str | None:
    """Return a body as text, in the form of the source's `_corrupt_record`."""
    return base64.b64encode(body).decode() if isinstance(body, bytes) else body


class _Noted:
    """Messages that a task could not open, for the log."""

    def __init__(self) -> None:
        self._count = 0
        self._first = ""

    def corrupt(self, reason: str) -> None:
        self._first = self._first or reason
        self._count += 1

    def report(self) -> None:
        if self._count:
            log.warning(
                "unpack: %d messages cannot be opened; their texts are in '%s'. The first: %s",
                *(self._count, CORRUPT, self._first),
            )


class _Pending:
    """Rows from messages of one input batch that the task will yield in one record batch."""

    def __init__(self, work: UnpackWork, batch: pa.RecordBatch) -> None:
        self._work = work
        count = len(work.kept)
        self._kept = batch.select(list(range(count)))
        bodies = batch.column(count)
        self._body = bodies if work.keeps_body else None
        self._places: list[int] = []
        self._numbers: list[int] = []
        self._texts: list[str | None] = []
        self._reasons: list[str | None] = []
        self._rows: list[pa.RecordBatch] = []
        self._size = 0

    def add(
        self, place: int, first: int, rows: pa.RecordBatch, body_size: int
    ) -> Iterator[pa.RecordBatch]:
        """Add rows of a message. first: position of the first of these rows in the message."""
        row_bytes = self._kept.slice(place, 1).nbytes
        row_bytes += body_size if self._body is not None else 0
        own = rows.nbytes // max(1, rows.num_rows)
        at_once = max(1, min(self._work.batch_rows, _GIVEN_AT_MOST // max(1, row_bytes + own)))
        for start in range(0, rows.num_rows, at_once):
            piece = rows.slice(start, at_once)
            size = piece.nbytes + piece.num_rows * row_bytes
            if self._places and not self._has_room(piece.num_rows, size):
                yield from self.rest()
            self._places += [place] * piece.num_rows
            self._numbers += range(first + start, first + start + piece.num_rows)
            self._texts += [None] * piece.num_rows
            if self._work.tells:
                self._reasons += [None] * piece.num_rows
            self._rows.append(piece)
            self._size += size

    def add_corrupt(self, place: int, text: str | None, reason: str) -> Iterator[pa.RecordBatch]:
        """Add a message that cannot be opened, as one row."""
        nulls = [pa.nulls(1, field.type) for field in self._work.wanted]
        fields = [field.with_nullable(True) for field in self._work.wanted]
        row = pa.RecordBatch.from_arrays(nulls, schema=pa.schema(fields))
        yield from self.add(place, 0, row, len(text or ""))
        self._texts[-1] = text
        if self._work.tells:
            self._reasons[-1] = reason
        self._size += len(text or "")

    def _has_room(self, rows: int, size: int) -> bool:
        is_few = len(self._places) + rows <= self._work.batch_rows
        return is_few and self._size + size <= _GIVEN_AT_MOST

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Yield all waiting rows as one batch, if there are any."""
        if not self._places:
            return
        places = pa.array(self._places, pa.int32())
        columns = [column.take(places) for column in self._kept.columns]
        columns.append(pa.array(self._numbers, pa.int32()))
        if self._body is not None:
            columns.append(self._body.take(places))
        for number in range(len(self._work.wanted)):
            columns.append(pa.concat_arrays([rows.column(number) for rows in self._rows]))
        if not self._work.fails:
            self._add_texts(columns)
        if self._work.tells:
            columns.append(pa.array(self._reasons, pa.string()))
        self._places, self._numbers, self._rows, self._size = [], [], [], 0
        self._texts, self._reasons = [], []
        yield pa.RecordBatch.from_arrays(columns, names=[f"_{n}" for n in range(len(columns))])

    def _add_texts(self, columns: list[pa.Array]) -> None:
        """Put the texts into the source's column `_corrupt_record`.

        Without this column, add a last column.
        """
        texts = pa.array(self._texts, pa.string())
        if CORRUPT in self._work.kept:
            place = self._work.kept.index(CORRUPT)
            columns[place] = pc.coalesce(texts.cast(columns[place].type), columns[place])
        else:
            columns.append(texts)
