"""The columns of the source and of the sink: names and types, and what fits them.

Types are Spark's short names ("string", "timestamp", …). Ring: core (standard library only).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .errors import InvalidSchema
from .messages import BodyType

Columns = tuple[tuple[str, str], ...]

CORRUPT = "_corrupt_record"


def source_columns(body_type: BodyType, *, permissive: bool) -> Columns:
    """All columns of the source, in order."""
    corrupt = ((CORRUPT, "string"),) if permissive else ()
    return (
        ("message_id", "string"),
        ("body", body_type.value),
        ("queue", "string"),
        ("insertion_time", "timestamp"),
        ("expiration_time", "timestamp"),
        ("next_visible_time", "timestamp"),
        ("dequeue_count", "int"),
        ("pop_receipt", "string"),
        *corrupt,
    )


def check_requested(requested: Columns, available: Columns) -> Columns:
    """A user's schema: a subset of the columns in any order. Raises InvalidSchema otherwise."""
    types = dict(available)
    for name, kind in requested:
        if name not in types:
            raise InvalidSchema(
                f"the schema asks for a column '{name}', which the source does not have;"
                f" it has {_listed(available)}"
            )
        if types[name] != kind:
            hint = "; bodies are binary with bodyType=binary" if name == "body" else ""
            raise InvalidSchema(
                f"the schema asks for '{name}' as {kind}; the source gives {types[name]}{hint}."
                " Leave the schema out, or convert the column afterwards"
            )
    if not requested:
        raise InvalidSchema(f"the schema is empty; choose among {_listed(available)}")
    return requested


@dataclass(frozen=True)
class SinkColumns:
    """Where the sink finds its values in a row; None = the column is not there."""

    body: int
    queue: int | None
    visibility_delay: int | None
    time_to_live: int | None


_SINK_TYPES: dict[str, Sequence[str]] = {
    "body": ("string", "binary"),
    "queue": ("string",),
    "visibility_delay": ("int", "bigint", "smallint", "tinyint"),
    "time_to_live": ("int", "bigint", "smallint", "tinyint"),
}


def check_supplied(supplied: Columns, *, ignore_extra: bool, queue_in_options: bool) -> SinkColumns:
    """The columns of what is to be written. Raises InvalidSchema, naming the column."""
    if "body" not in dict(supplied):
        raise InvalidSchema(
            "the column 'body' is missing: it is what is sent. To send whole rows, use"
            " to_json(struct('*')) AS body"
        )
    places: dict[str, int] = {}
    for place, (name, kind) in enumerate(supplied):
        allowed = _SINK_TYPES.get(name)
        if allowed is None:
            if ignore_extra:
                continue
            raise InvalidSchema(
                f"the sink does not know the column '{name}'; it takes"
                f" {', '.join(_SINK_TYPES)}. Select those, or set ignoreExtraColumns=true"
            )
        if kind not in allowed:
            raise InvalidSchema(
                f"the column '{name}' is {kind}; the sink takes {' or '.join(allowed)}"
            )
        if name in places:
            raise InvalidSchema(f"the column '{name}' is there twice; keep one")
        places[name] = place
    if "queue" not in places and not queue_in_options:
        raise InvalidSchema(
            "no queue to write to: set the option 'queue', or add a column 'queue' (string)"
        )
    return SinkColumns(
        places["body"],
        places.get("queue"),
        places.get("visibility_delay"),
        places.get("time_to_live"),
    )


def _listed(columns: Columns) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in columns)
