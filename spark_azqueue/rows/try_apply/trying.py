"""`try_apply`: calls a function on rows, and returns the reason of a failure as a value.

See docs/bad-rows.md.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import Observation
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StringType, StructField, StructType

from spark_azqueue.errors import InvalidOption, InvalidSchema, RowsLost
from spark_azqueue.service.encoding import BodyType
from spark_azqueue.source.columns import source_columns

from ..arguments import check_number
from ..packing.kinds import check_packable
from ..packing.opening import MESSAGE_ROW
from .conversion import is_zone, uses_arrow
from .envelopes import COLUMNS, RowEnvelopes, envelopes
from .pieces import BatchesOfFailures, name_of, outage
from .task import Work

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

BATCH_ROWS = 256
LIMIT = 32


def try_apply(
    df: DataFrame,
    function: Callable[[Any], Any],
    schema: StructType | str,
    *,
    batch_rows: int = BATCH_ROWS,
    error: str = "error",
    limit: int | None = LIMIT,
) -> DataFrame:
    """Call a function on rows. If a row fails, return the reason as a value and continue.

        def score(orders: pd.DataFrame) -> pd.DataFrame:
            return pd.DataFrame({"score": model.predict(orders["body"])})

        scored = try_apply(orders, score, "score DOUBLE")

    df: rows of a stream, a batch or a Connect client. Its columns stay unchanged.
    function: gets a copy of some rows as a pandas DataFrame, as in `mapInPandas`, and returns a
        DataFrame with the same number of rows, the same index and the columns of `schema`. If the
        type hint of its parameter is `pyarrow.Table`, the function gets and returns tables. If the
        function raises, or its result does not convert to `schema`, the function is called again
        for halves of the rows, down to single rows.
    schema: the columns to add, a text or a StructType. A failed row has NULL in these columns.
    batch_rows: maximum number of rows of a call. error: name of the column to add for the error's
        type, short message (without secrets) and line of your code; NULL for a good row.
    limit: the task fails with FunctionFailed if this many consecutive rows fail on the same line,
        or if all rows since the start, at least this many, fail. Earlier batches of a stream count
        while Spark keeps their Python process. None for no limit. ImportError and MemoryError fail
        the task at once.

    Returns one row for each row of `df`, in order. Each action on the result calls the function
    again: see `split_apply`. Raises InvalidOption and InvalidSchema.
    """
    _check_function(function)
    check_number("try_apply", "batch_rows", batch_rows)
    if limit is not None:
        check_number("try_apply", "limit", limit)
    results = _nullable(_parsed(schema))
    fields = [*results.fields, StructField(error, StringType())]
    _check_names(df, [field.name for field in fields], results)
    nulls = [F.lit(None).cast(field.dataType) for field in fields]
    zone = str(df.sparkSession.conf.get("spark.sql.session.timeZone"))
    in_arrow = uses_arrow(function)
    if not in_arrow and "timestamp" in f"{df.dtypes} {results}".lower() and not is_zone(zone):
        raise InvalidOption(
            f"try_apply: pandas does not know the session's time zone '{zone}'. Set"
            " spark.sql.session.timeZone to a name such as Europe/Berlin or +03:00, or take a"
            " function of pyarrow.Table"
        )
    kept = tuple(df.columns)
    added = tuple(field.name for field in fields)
    work = Work(function, in_arrow, kept, added, batch_rows, limit, zone)

    def tried(batches: Iterable[Any]) -> Iterator[Any]:
        return work.on(batches)

    # The names are numbers, because `mapInArrow` allows no name twice, and no dot in a name.
    numbers = [f"_{n}" for n in range(len(kept) + len(added))]
    numbered = [
        StructField(number, field.dataType, field.nullable, field.metadata)
        for number, field in zip(numbers, [*df.schema.fields, *fields], strict=True)
    ]
    given = df.select("*", *nulls).toDF(*numbers)
    return given.mapInArrow(tried, StructType(numbered)).toDF(*kept, *added)


def dead_letters(df: DataFrame, reason: str = "error") -> DataFrame:
    """Make the rows to send to a poison queue, as the source's envelopes.

    df: rows with the source's columns `message_id`, `queue` and `body`. Optional columns are
        `insertion_time`, `dequeue_count` and `_corrupt_record`. Rows of `unpack` need no body: each
        row becomes a packed message of one row, with all its other columns.
    reason: name of the column with the reason. A row with NULL in this column is left out.

    Returns the columns `body` and `time_to_live` (-1: never expires). Write them with
    `messageEncoding` unset. If an envelope would exceed 64 KiB, the body is sent without an
    envelope. Raises InvalidSchema. A row without a body fails its task.
    """
    kinds = dict(df.dtypes)
    is_packed = kinds.get(MESSAGE_ROW) == "int"
    for name in ("message_id", "queue", *([] if is_packed else ["body"]), reason):
        if name not in kinds:
            raise InvalidSchema(
                f"dead_letters needs the column '{name}', and there is none: keep message_id,"
                " queue and body of the source's rows, and name the column with the reason"
            )
    if not is_packed and kinds["body"] not in ("string", "binary"):
        raise InvalidSchema(
            f"dead_letters needs the column 'body' as the source gives it; it is {kinds['body']}."
            " Give what you make of it another name"
        )

    def optional(name: str, kind: str, column: Column) -> Column:
        return column if kinds.get(name) == kind else F.lit(None)

    own = _own_fields(df, reason) if is_packed else []
    body = F.col(MESSAGE_ROW if is_packed else "body")
    rows = df.where(_named(reason).isNotNull()).select(
        *(F.col(name).cast("string").alias(name) for name in ("message_id", "queue")),
        _named(reason).cast("string").alias("reason"),
        body,
        optional(_CORRUPT, "string", F.col(_CORRUPT)).cast("string").alias("stored"),
        optional("insertion_time", "timestamp", F.unix_micros("insertion_time"))
        .cast("bigint")
        .alias("insertion_time"),
        optional("dequeue_count", "int", F.col("dequeue_count")).cast("int").alias("dequeue_count"),
        *(_named(field.name).alias(f"_{place}") for place, field in enumerate(own)),
    )
    if not is_packed:
        return rows.mapInArrow(envelopes, COLUMNS)
    work = RowEnvelopes(tuple(field.name for field in own))

    def enveloped(batches: Iterable[Any]) -> Iterator[Any]:
        return work.on(batches)

    return rows.mapInArrow(enveloped, COLUMNS)


def _own_fields(df: DataFrame, reason: str) -> list[StructField]:
    """Return an unpacked row's own columns. Raises InvalidSchema if a column cannot be packed."""
    of_message = {name for name, _ in source_columns(BodyType.STRING, permissive=True)}
    of_message |= {MESSAGE_ROW, reason}
    own = [field for field in df.schema.fields if field.name not in of_message]
    check_packable(StructType(own).jsonValue(), "dead_letters", as_json=False)
    return own


_CORRUPT = "_corrupt_record"
"""The source's column for the text of a message that could not be decoded."""


@dataclass(frozen=True)
class SplitRows:
    """Numbers of good and of failed rows that `split_apply` wrote."""

    good: int
    dead: int


def split_apply(
    batch: DataFrame,
    function: Callable[[Any], Any],
    schema: StructType | str,
    *,
    good: Callable[[DataFrame], object],
    dead: Callable[[DataFrame], object],
    batch_rows: int = BATCH_ROWS,
    error: str = "error",
    limit: int | None = LIMIT,
) -> SplitRows:
    """Call a function once on a batch of `foreachBatch`; write good and failed rows separately.

    If two writes used one result of `try_apply`, each write would call the function. A row that
    fails only once could then be in neither write. So this function stores the results first
    (`localCheckpoint`). If they are lost, a write fails.

    good: a function that writes the rows without an error, with the columns of the batch and of
        `schema`. dead: a function that writes the failed rows, with the column `error`. Each
        function is called only if there are rows for it, `good` first. Other parameters: see
        `try_apply`. `limit` also counts the rows of consecutive batches without a good row.

    Returns both numbers of rows. Before any write, raises FunctionFailed for an outage, and
    RowsLost if fewer or more rows were stored than the batch has. Also raises InvalidOption, and
    errors of a write.
    """
    if batch.isStreaming:
        raise InvalidOption("split_apply needs the batch that foreachBatch gives, not a stream")
    seen = Observation()
    counted = batch.observe(seen, F.count(F.lit(1)).alias("rows"))
    tried = try_apply(counted, function, schema, batch_rows=batch_rows, error=error, limit=limit)
    stored = _stored(tried)
    failed = _named(error).isNotNull()
    totals = stored.agg(
        F.count(F.lit(1)).alias("rows"),
        F.count_if(failed).alias("dead"),
        F.max(_named(error)).alias("reason"),
    ).first()
    assert totals is not None
    given = seen.get.get("rows")
    if given is None:  # Spark Connect does not return what a checkpoint observed
        given = batch.count()
    if totals.rows != given:
        raise RowsLost(
            f"split_apply stored {totals.rows:,} rows of a batch of {given:,}. Nothing was written."
            " Start the query again"
        )
    split = SplitRows(totals.rows - totals.dead, totals.dead)
    stream = (_query(batch), name_of(function))
    rows = _failed.with_batch(stream, good=split.good, dead=split.dead)
    if limit is not None and rows >= limit:
        raise outage(f"{rows:,} rows of batches in a row failed", totals.reason)
    if split.good:
        good(stored.where(~failed).drop(_named(error)))
    if split.dead:
        dead(stored.where(failed))
    _failed.written(stream, good=split.good, dead=split.dead)
    return split


_failed = BatchesOfFailures()


def _query(batch: DataFrame) -> str:
    """Return the id of the stream's query.

    The id is "" with Spark Connect, where a process has only one query.
    """
    context = getattr(batch.sparkSession, "sparkContext", None)
    return (context and context.getLocalProperty("sql.streaming.queryId")) or ""


def _stored(df: DataFrame) -> DataFrame:
    """Evaluate the rows once, and store them, so that later reads do not evaluate the rows."""
    conf = df.sparkSession.conf
    if str(conf.get("spark.speculation", "false")).lower() != "true":
        return df.localCheckpoint()
    # Two attempts of a task may store different results on two executors.
    if conf.get("spark.checkpoint.dir", None):
        return df.checkpoint()
    raise InvalidOption(
        "split_apply stores results once, and spark.speculation=true runs tasks twice: set"
        " spark.checkpoint.dir to a folder that all executors reach, or switch speculation off"
    )


def _named(column: str) -> Column:
    """Return the column with exactly this name. The name may have any characters."""
    return F.col("`" + column.replace("`", "``") + "`")


def _check_function(function: Callable[[Any], Any]) -> None:
    if not callable(function) or hasattr(function, "evalType"):
        raise InvalidOption("try_apply needs a plain Python function, not a UDF of Spark")
    called = function if inspect.isroutine(function) else getattr(function, "__call__", function)  # noqa: B004
    while isinstance(function, functools.partial):
        function = called = function.func
    if inspect.isgeneratorfunction(called) or inspect.iscoroutinefunction(called):
        raise InvalidOption(
            "try_apply needs a function that returns a DataFrame; this one is a generator or a"
            " coroutine. Return the result in place of yield: it is called for each piece"
        )


def _parsed(schema: StructType | str) -> StructType:
    parsed = DataType.fromDDL(schema) if isinstance(schema, str) else schema
    if not isinstance(parsed, StructType) or not parsed.fields:
        raise InvalidSchema(
            "try_apply needs a schema of the columns to add, such as 'score DOUBLE'"
        )
    return parsed


def _nullable(schema: StructType) -> StructType:
    """Return the schema with all fields nullable.

    Spark does not check a function's results for NULL.
    """

    def opened(node: Any) -> Any:
        if isinstance(node, list):
            return [opened(each) for each in node]
        if not isinstance(node, dict):
            return node
        return {
            name: True if name in _NULLABLE else each if name == "metadata" else opened(each)
            for name, each in node.items()
        }

    return StructType.fromJson(opened(schema.jsonValue()))


_NULLABLE = ("nullable", "containsNull", "valueContainsNull")


def _check_names(df: DataFrame, added: list[str], results: StructType) -> None:
    if not df.columns:
        raise InvalidSchema("try_apply needs a DataFrame with at least one column")
    is_exact = str(df.sparkSession.conf.get("spark.sql.caseSensitive")).lower() == "true"
    taken = {name if is_exact else name.lower() for name in df.columns}
    for name in added:
        key = name if is_exact else name.lower()
        if key in taken:
            which = "the schema" if name in results.names else "error"
            raise InvalidSchema(
                f"try_apply would add the column '{name}', and there is one: rename it, or take"
                f" another name in {which}"
            )
        taken.add(key)
