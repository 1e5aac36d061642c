"""`pack` and `unpack`, for many rows in one message. See docs/packing.md.

Both functions accept DataFrames of streams, of batches, and of Spark Connect clients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructField,
    StructType,
)

from spark_azqueue.errors import InvalidOption, InvalidSchema

from ..arguments import check_number
from .bodies import FORMATS
from .bounds import MAX_BYTES, MAX_ROWS, PackBounds
from .filling import PackWork
from .kinds import arrow_schema, check_packable
from .opening import CORRUPT, MESSAGE_ROW, UnpackWork

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["pack", "unpack"]

Through = Callable[[Iterator[Any]], Iterator[Any]]
"""A function that takes and returns the record batches of a task."""

_BODIES = {"text": StringType(), "binary": BinaryType()}
_ROUTES = ("queue", "visibility_delay", "visible_at", "time_to_live")
_OF_THE_SOURCE = ("pop_receipt", "dequeue_count", "insertion_time", MESSAGE_ROW)
_BATCH_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"


def pack(
    df: DataFrame,
    *,
    format: str = "arrow",
    body: str = "text",
    route: Sequence[str] = (),
    max_rows: int = MAX_ROWS,
) -> DataFrame:
    """Pack rows into as few messages as possible, to write with `format("azqueue")`.

        pack(orders).writeStream.format("azqueue").options(**azure).option("queue", "orders")

    df: rows with any columns; docs/packing.md lists the types.
    format: "arrow", or "json" (lines of JSON in gzip) for readers without Arrow.
    body: "text" for a sink without `messageEncoding`, "binary" for a sink with base64.
    route: columns for the sink: `queue`, `visibility_delay`, `visible_at`, `time_to_live`. These
        columns are not packed. All rows of a message have the same route.
    max_rows: maximum number of rows in a message, up to 100,000, the limit of `unpack`.

    A task fills each message up to 44 KiB before base64. The last message of a task has its
    remaining rows, so fewer tasks (`coalesce`) make fuller messages. Returns `body` and the columns
    of the route. Raises InvalidOption and InvalidSchema. A value that readers would refuse fails
    its task with InvalidRow.
    """
    _check_choice("pack", "format", format, FORMATS)
    _check_choice("pack", "body", body, _BODIES)
    check_number("pack", "max_rows", max_rows)
    if max_rows > MAX_ROWS:
        raise InvalidOption(
            f"pack(max_rows={max_rows}): `unpack` opens {MAX_ROWS:,} rows of a message at most"
        )
    routed = _checked_route(df, route)
    fields = [field for field in df.schema.fields if field.name not in routed]
    if not fields:
        raise InvalidSchema("pack: there is no column to pack, beside those of the route")
    check_packable(StructType(fields).jsonValue(), "pack", as_json=format == "json")
    names = tuple(field.name for field in fields)
    work = PackWork(format, body == "text", names, max_rows)

    def packed(batches: Iterable[Any]) -> Iterator[Any]:
        return work.on(batches)

    own = [df.schema[name] for name in routed]
    given = _numbered(df, [*names, *routed], [*fields, *own])
    columns = [StructField("body", _BODIES[body]), *_numbers(own, len(names))]
    return given.mapInArrow(packed, StructType(columns)).toDF("body", *routed)


def unpack(
    df: DataFrame,
    schema: StructType | str,
    *,
    corrupt: str = "fail",
    keep_body: bool = False,
    max_bytes: int = MAX_BYTES,
    max_rows: int = MAX_ROWS,
) -> DataFrame:
    """Open packed messages: return one row for each packed row, in order.

        unpack(spark.readStream.format("azqueue")….load(), "order_id BIGINT, total DECIMAL(10,2)")

    df: rows with the source's column `body`. Both formats are recognized, as text or binary. A body
        that is a JSON object is a message of one row.
    schema: columns of the rows, as text or StructType. Columns are found by name, ignoring case. A
        value must fit its type unchanged.
    corrupt: "fail": a message that cannot be opened fails its task with UndecodableBody. "column":
        such a message becomes one row of NULLs with its text in `_corrupt_record`.
    keep_body: True to keep `body`, which is the same for all rows of a message.
    max_bytes, max_rows: limits of one opened message. A larger message cannot be opened.

    Returns all columns of `df` except `body`, then `message_row` and the columns of `schema`.
    **`(message_id, message_row)` identifies a row**; `message_id` alone identifies the message. Set
    a watermark after `unpack`, because `unpack` drops an earlier watermark. Raises InvalidOption
    and InvalidSchema.
    """
    _check_choice("unpack", "corrupt", corrupt, ("fail", "column"))
    check_number("unpack", "max_bytes", max_bytes)
    check_number("unpack", "max_rows", max_rows)
    bounds = PackBounds(max_bytes, max_rows)
    return _unpacked(df, schema, bounds, fails=corrupt == "fail", keep_body=keep_body)


def unpack_telling(
    df: DataFrame, schema: StructType | str, reason: str, through: Through
) -> DataFrame:
    """Open packed messages like `unpack(corrupt="column")`, and add a last column for the reason.

    reason: name of the added column, which says why a message cannot be opened. through: called
    with the record batches that a task yields; returns the record batches to yield in their place.
    """
    return _unpacked(df, schema, PackBounds(), reason=reason, through=through)


def _unpacked(
    df: DataFrame,
    schema: StructType | str,
    bounds: PackBounds,
    *,
    fails: bool = False,
    keep_body: bool = False,
    reason: str = "",
    through: Through | None = None,
) -> DataFrame:
    parsed = DataType.fromDDL(schema) if isinstance(schema, str) else schema
    if not isinstance(parsed, StructType):
        raise InvalidSchema("unpack needs a schema of the rows, such as 'order_id BIGINT'")
    wanted = arrow_schema(parsed.jsonValue(), "unpack")
    kinds = dict(df.dtypes)
    if kinds.get("body") not in ("string", "binary"):
        raise InvalidSchema(
            "unpack needs the column 'body' as the source gives it, string or binary; it is"
            f" {kinds.get('body', 'not there')}"
        )
    kept = [field for field in df.schema.fields if field.name != "body"]
    added = [StructField(MESSAGE_ROW, IntegerType())]
    added += [df.schema["body"]] if keep_body else []
    added += [StructField(each.name, each.dataType) for each in parsed.fields]
    if not fails and kinds.get(CORRUPT, "") != "string":
        added.append(StructField(CORRUPT, StringType()))
    added += [StructField(reason, StringType())] if reason else []
    _check_names([*kept, *added])
    names = [field.name for field in kept]
    rows = int(str(df.sparkSession.conf.get(_BATCH_ROWS, "10000")))
    at_once = rows if rows > 0 else 10_000
    work = UnpackWork(tuple(names), wanted, keep_body, fails, bounds, at_once, bool(reason))

    def opened(batches: Iterable[Any]) -> Iterator[Any]:
        return work.on(batches) if through is None else through(work.on(batches))

    given = _numbered(df, [*names, "body"], [*kept, df.schema["body"]])
    columns = StructType(_numbers([*kept, *added], 0))
    return given.mapInArrow(opened, columns).toDF(*names, *(field.name for field in added))


def _numbered(df: DataFrame, names: Sequence[str], fields: Sequence[StructField]) -> DataFrame:
    """Select these columns, and rename them to numbers.

    `mapInArrow` allows no name twice, and no dot in a name.
    """
    quoted = ["`" + name.replace("`", "``") + "`" for name in names]
    return df.select(*quoted).toDF(*(field.name for field in _numbers(fields, 0)))


def _numbers(fields: Sequence[StructField], first: int) -> list[StructField]:
    return [
        StructField(f"_{number}", field.dataType, True, field.metadata)
        for number, field in enumerate(fields, first)
    ]


def _checked_route(df: DataFrame, route: Sequence[str]) -> list[str]:
    if isinstance(route, str):
        raise InvalidOption(f"pack(route='{route}'): give a list of names, as in route=['queue']")
    for name in route:
        if name not in _ROUTES:
            raise InvalidOption(
                f"pack(route=…): '{name}' is no column that the sink reads beside a body; it reads"
                f" {', '.join(_ROUTES)}"
            )
        if df.columns.count(name) != 1:
            raise InvalidSchema(f"pack: the route names the column '{name}', and there is none")
    if len(set(route)) < len(route):
        raise InvalidOption("pack(route=…) names a column twice")
    found = [name for name in _OF_THE_SOURCE if name in df.columns]
    if "queue" in route and found:
        raise InvalidSchema(
            f"pack: these are rows of the source (they have the column '{found[0]}'), and their"
            " column 'queue' says where each came from: they would be sent back there. Select what"
            " is to be sent, and name the target in the option 'queue' or in a column of your own"
        )
    return list(route)


def _check_names(fields: Sequence[StructField]) -> None:
    seen: set[str] = set()
    for field in fields:
        if field.name.lower() in seen:
            raise InvalidSchema(
                f"unpack would give the column '{field.name}' twice (capitals do not count): rename"
                " it, or leave it out of the schema"
            )
        seen.add(field.name.lower())


def _check_choice(call: str, name: str, value: object, allowed: Iterable[str]) -> None:
    if value not in tuple(allowed):
        raise InvalidOption(f"{call}({name}={value!r}): it is one of {', '.join(allowed)}")
