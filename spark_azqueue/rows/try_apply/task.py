"""The work of the tasks of `try_apply` on Spark's record batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext

from .conversion import Function, called_with_arrow, called_with_pandas
from .pieces import EarlierTasks, Failures, StreamTask, Tried, isolated, name_of

_earlier = EarlierTasks()


def stream_task(name: str) -> StreamTask | None:
    """Return the stream's task in which this code runs; None outside of streams.

    name: name of the function.
    """
    context = TaskContext.get()
    batch = context and context.getLocalProperty("streaming.sql.batchId")
    if context is None or not batch:
        return None
    run = context.getLocalProperty("spark.jobGroup.id") or ""
    return StreamTask((run, name), batch, context.partitionId())


@dataclass(frozen=True, slots=True)
class Work:
    """The work of one task of `try_apply`. Spark sends this object to the tasks.

    uses_arrow: True if the function takes and returns a pyarrow Table. kept: names of the columns
    to keep. added: names of the columns to add; the last of them is for the error. In a batch, the
    columns to keep come first, under other names, and a column of NULLs for each column to add
    follows. The columns of NULLs have Spark's types. zone: the session's time zone. limit: see
    `Failures`.
    """

    function: Function
    uses_arrow: bool
    kept: tuple[str, ...]
    added: tuple[str, ...]
    batch_rows: int
    limit: int | None
    zone: str

    def on(
        self,
        batches: Iterable[pa.RecordBatch],
        earlier: EarlierTasks = _earlier,
        task: StreamTask | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the same rows in the same order, with the columns to keep and the columns to add.

        If the last rows failed, they are yielded only after a later row succeeds. So rows that
        failed because of an outage are not yielded before the task fails. Raises FunctionFailed
        (see `Failures`).

        earlier: failures of earlier tasks in this process, which count toward the limit. task: the
        stream's task; by default the task in which this code runs.
        """
        task = task or stream_task(name_of(self.function))
        failures = earlier.before(task, self.limit)
        held: list[pa.RecordBatch] = []
        for batch in batches:
            for start in range(0, batch.num_rows, self.batch_rows):
                piece = batch.slice(start, self.batch_rows)
                done = self._done(piece, failures)
                if failures.in_a_row < piece.num_rows:
                    yield from held
                    held = []
                held.append(done)
                if not failures.in_a_row:
                    yield from held
                    held = []
        failures.ended()
        earlier.ended(task, failures)
        yield from held

    def _done(self, piece: pa.RecordBatch, failures: Failures) -> pa.RecordBatch:
        names = (*self.kept, *self.added)
        fields = [field.with_name(name) for field, name in zip(piece.schema, names, strict=True)]
        first = len(self.kept)
        *results, error = fields[first:]
        columns = piece.columns[:first]
        given = pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields[:first]))
        call = called_with_arrow if self.uses_arrow else called_with_pandas

        def attempt(start: int, count: int) -> list[pa.Array]:
            return call(self.function, given.slice(start, count), results, self.zone)

        parts = list(isolated(piece.num_rows, attempt, failures))
        added = [
            pa.concat_arrays([_of(part, number, piece.column(first + number)) for part in parts])
            for number in range(len(results))
        ]
        reasons = [part.failed for part in parts for _ in range(part.count)]
        added.append(pa.array(reasons, error.type))
        return pa.RecordBatch.from_arrays([*columns, *added], schema=piece.schema)


def _of(part: Tried[list[pa.Array]], number: int, nulls: pa.Array) -> pa.Array:
    return nulls.slice(part.start, part.count) if part.result is None else part.result[number]
