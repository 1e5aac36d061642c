"""Makes the rows of an IngestJob's table from messages.

A good message becomes one or several rows with the job's schema. A bad message becomes one row with
a reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DataType, StructType

from spark_azqueue.errors import FunctionFailed, InvalidSchema
from spark_azqueue.errors.conditions import Condition
from spark_azqueue.rows.arguments import check_number
from spark_azqueue.rows.packing.dataframes import unpack_telling
from spark_azqueue.rows.packing.opening import CORRUPT, MESSAGE_ROW
from spark_azqueue.rows.try_apply.pieces import EarlierTasks
from spark_azqueue.rows.try_apply.task import stream_task
from spark_azqueue.rows.try_apply.trying import try_apply

from .ingest_rules import BEHIND, KEPT, Columns, check_names

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_ERROR = "_azqueue_error"
_UNDECODED = "its text is not as messageEncoding and bodyType say, or its blob is lost"

_earlier = EarlierTasks()


@dataclass(frozen=True, slots=True)
class CountedRows:
    """Yields rows unchanged, and stops the job if too many consecutive rows are bad.

    Spark sends this object to the tasks. limit: number of consecutive bad rows; None for no limit.
    The last column of the rows is NULL for a good row.
    """

    limit: int | None

    def through(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Yield the record batches unchanged.

        Raises FunctionFailed after too many consecutive bad rows. Bad rows of earlier tasks of the
        query count as well.
        """
        task = stream_task("IngestJob")
        failures = _earlier.before(task, self.limit)
        for batch in batches:
            reasons = batch.column(batch.num_columns - 1)
            if reasons.null_count == batch.num_rows:
                failures.succeeded(batch.num_rows)
            else:
                for reason in reasons.to_pylist():
                    self._count(reason, failures)
            yield batch
        _earlier.ended(task, failures)

    def _count(self, reason: str | None, failures: Any) -> None:
        if reason is None:
            failures.succeeded(1)
            return
        try:
            failures.failed("", reason)
        except FunctionFailed:
            raise FunctionFailed(
                f"{self.limit:,} messages in a row are bad, so the cause is not one message. The"
                f" last: {reason}. Correct the schema of the job or 'messageEncoding', and start it"
                " again: no message is lost. Those of committed batches are in the table, and the"
                " others come again. If so many may be bad, raise limit of IngestJob, or set"
                " limit=None",
                condition=Condition.NOT_OF_THE_SCHEMA,
            ) from None


def parsed_schema(schema: StructType | str) -> StructType:
    """Return a schema as a StructType.

    Raises InvalidSchema if the schema has no columns, or uses names of the table's own columns.
    """
    try:
        parsed = DataType.fromDDL(schema) if isinstance(schema, str) else schema
    except Exception as error:  # noqa: BLE001 (errors of Spark and Py4J have no common base)
        first = str(error).strip().partition("\n")[0]
        raise InvalidSchema(
            f"IngestJob(schema={schema!r}): Spark cannot read it ({first}). Write columns and"
            " types, as in 'order_id BIGINT, quantity INT'",
        ) from None
    if not isinstance(parsed, StructType) or not parsed.fields:
        raise InvalidSchema(
            f"IngestJob(schema={schema!r}): expected columns and types, as in 'order_id BIGINT,"
            " quantity INT'",
        )
    check_names([(field.name, field.dataType.simpleString()) for field in parsed.fields])
    return parsed


@dataclass(frozen=True)
class TableRows:
    """Converts messages to rows of the table.

    schema: schema of the bodies, or of the results of `apply`; None for unchanged bodies. apply:
    function as for `try_apply`, or None. limit: see `CountedRows`.
    """

    schema: StructType | None
    apply: Callable[[Any], Any] | None
    limit: int | None

    def of(self, messages: DataFrame) -> DataFrame:
        """Return the rows of the table for these messages of the source. Raises InvalidSchema."""
        if CORRUPT not in messages.columns:
            messages = messages.withColumn(CORRUPT, F.lit(None).cast("string"))
        if self.apply is not None:
            return self._applied(messages)
        wanted = [name for name in KEPT if name != MESSAGE_ROW]
        given = messages.select(*wanted, "body", CORRUPT)
        counted = CountedRows(self.limit)
        if self.schema is not None:
            rows = unpack_telling(given, self.schema, _ERROR, counted.through)
            return rows.select(*self._columns(rows, _named(_ERROR), _named(CORRUPT)))
        rows = given.withColumn(_ERROR, _undecoded())
        if self.limit is not None:
            rows = rows.mapInArrow(counted.through, rows.schema)
        return rows.select(*self._columns(rows, _named(_ERROR), _body_of(rows)))

    def _applied(self, messages: DataFrame) -> DataFrame:
        assert self.apply is not None
        assert self.schema is not None
        rows = try_apply(messages, self.apply, self.schema, error=_ERROR, limit=self.limit or None)
        error = F.coalesce(_undecoded(), _named(_ERROR))
        kind = dict(messages.dtypes)["body"]
        text = F.base64("body") if kind == "binary" else F.col("body")
        body = F.when(error.isNotNull(), F.coalesce(text, _named(CORRUPT)))
        return rows.select(*self._columns(rows, error, body))

    def _columns(self, rows: DataFrame, error: Column, body: Column) -> list[Column]:
        row = F.col(MESSAGE_ROW) if MESSAGE_ROW in rows.columns else F.lit(0)
        kept = [F.col(name) if name != MESSAGE_ROW else row.alias(name) for name in KEPT]
        own = [
            F.when(error.isNull(), _named(field.name)).alias(field.name)
            for field in (self.schema.fields if self.schema else ())
        ]
        return [*kept, *own, error.alias(BEHIND[0]), body.alias(BEHIND[1])]


def columns_of(rows: DataFrame) -> Columns:
    """Return names and types of the table's columns."""
    return [(field.name, field.dataType.simpleString()) for field in rows.schema.fields]


def observed(table: DataFrame, name: str) -> DataFrame:
    """Add an observation to the table that counts good and bad rows. name: name of the observation
    in Spark's progress."""
    good, bad = F.count_if(F.isnull(BEHIND[0])), F.count(BEHIND[0])
    return table.observe(name, good.alias("good"), bad.alias("bad"))


def check_limit(limit: object) -> None:
    """Raise InvalidOption unless the limit is a number of messages or None."""
    if limit is not None:
        check_number("IngestJob", "limit", limit, ", or None for any number of bad messages")


def _undecoded() -> Column:
    return F.when(F.col(CORRUPT).isNotNull(), F.lit(_UNDECODED))


def _body_of(rows: DataFrame) -> Column:
    """Return a column with the unchanged body or, if the body does not decode, the message's
    text."""
    kind = dict(rows.dtypes)["body"]
    return F.coalesce(F.col("body"), F.col(CORRUPT).cast(kind))


def _named(column: str) -> Column:
    """Return the column with exactly this name. The name may contain any characters."""
    return F.col("`" + column.replace("`", "``") + "`")
