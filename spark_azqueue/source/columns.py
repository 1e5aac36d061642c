"""The columns of the source: their names and types, and the check of a user's schema.

Types are Spark's short names ("string", "timestamp", …).
"""

from __future__ import annotations

from spark_azqueue.errors import InvalidSchema
from spark_azqueue.errors.conditions import Condition
from spark_azqueue.service.encoding import BodyType
from spark_azqueue.service.message_fields import Form
from spark_azqueue.service.messages import FIELDS
from spark_azqueue.service.redaction import shown

Columns = tuple[tuple[str, str], ...]

BODY = "body"
CORRUPT = "_corrupt_record"

IS_REFERENCE = "_is_reference"
"""Column that only partitions have: true if `body` is a reference to a blob (see
`large_bodies.py`)."""

_LONGEST_SCHEMA = 500


_TYPES = {
    Form.QUEUE: "string",
    Form.ID: "string",
    Form.RECEIPT: "string",
    Form.TEXT: "string",
    Form.TIME: "timestamp",
    Form.MAYBE_TIME: "timestamp",
    Form.COUNT: "int",
    Form.FLAG: "boolean",
}
_FIRST = (
    *("message_id", BODY, "queue", "insertion_time", "expiration_time", "next_visible_time"),
    *("dequeue_count", "pop_receipt"),
)
"""The first columns, in an order that never changes. Columns that were added later follow them."""


def source_columns(body_type: BodyType, *, permissive: bool) -> Columns:
    """Return all columns of the source, in order."""
    types = {
        each.column: body_type.value if each.column == BODY else _TYPES[each.form]
        for each in FIELDS
        if each.column
    }
    corrupt = ((CORRUPT, "string"),) if permissive else ()
    first = tuple((name, types.pop(name)) for name in _FIRST)
    return (*first, *corrupt, *types.items())


def check_requested(requested: Columns, available: Columns) -> Columns:
    """Return a user's schema if it is a subset of the columns, in any order.

    Raises InvalidSchema otherwise. The error names the column.
    """
    types = dict(available)
    for name, kind in requested:
        if name not in types:
            raise InvalidSchema(
                f"the schema asks for a column '{name}', which the source does not have;"
                f" it has {_listed(available)}. {_parse(requested, types)}",
                condition=Condition.INVALID_SOURCE_SCHEMA,
            )
        if types[name] != kind:
            hint = "; bodies are binary with bodyType=binary" if name == "body" else ""
            raise InvalidSchema(
                f"the schema asks for '{name}' as {kind}; the source gives {types[name]}{hint}."
                " Leave the schema out, or convert the column afterwards",
                condition=Condition.INVALID_SOURCE_SCHEMA,
            )
    if not requested:
        raise InvalidSchema(
            f"the schema is empty; choose among {_listed(available)}",
            condition=Condition.INVALID_SOURCE_SCHEMA,
        )
    return requested


def _parse(requested: Columns, types: dict[str, str]) -> str:
    fields = _listed(tuple(column for column in requested if column[0] not in types))
    return (
        "A schema does not parse bodies: if these are fields of a JSON body, leave it out, and add"
        f" .withColumn('parsed', from_json('body', '{shown(fields, _LONGEST_SCHEMA)}')), with"
        " from_json of pyspark.sql.functions"
    )


def _listed(columns: Columns) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in columns)
