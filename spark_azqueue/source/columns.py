"""The columns of the source and of the sink: names and types, and what fits them.

Types are Spark's short names ("string", "timestamp", …). Ring: core (standard library only).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .errors import InvalidSchema
from .messages import BodyType
from .options import Operation

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

    body: int | None = None
    queue: int | None = None
    visibility_delay: int | None = None
    time_to_live: int | None = None
    message_id: int | None = None
    pop_receipt: int | None = None

    @property
    def places(self) -> frozenset[int]:
        """The places of all columns that are there."""
        return frozenset(place for place in vars(self).values() if place is not None)


_WHOLE_NUMBERS = ("int", "bigint", "smallint", "tinyint")
_SINK_TYPES: dict[str, Sequence[str]] = {
    "body": ("string", "binary"),
    "queue": ("string",),
    "visibility_delay": _WHOLE_NUMBERS,
    "time_to_live": _WHOLE_NUMBERS,
    "message_id": ("string",),
    "pop_receipt": ("string",),
}

# Which columns an operation takes, and which of them it cannot do without.
_TAKEN: dict[Operation, Sequence[str]] = {
    Operation.ENQUEUE: ("body", "queue", "visibility_delay", "time_to_live"),
    Operation.UPDATE: ("message_id", "pop_receipt", "queue", "body", "visibility_delay"),
    Operation.DELETE: ("message_id", "pop_receipt", "queue"),
}
_REQUIRED: dict[str, str] = {
    "body": "it is what is sent. To send whole rows, use to_json(struct('*')) AS body",
    "message_id": "take it from the source's rows",
    "pop_receipt": "take it from the source's rows, read with deleteOnCommit=false",
}


def check_supplied(
    supplied: Columns,
    *,
    ignore_extra: bool,
    queue_in_options: bool,
    operation: Operation = Operation.ENQUEUE,
) -> SinkColumns:
    """The columns of what is to be written. Raises InvalidSchema, naming the column."""
    taken = _TAKEN[operation]
    for name in _REQUIRED:
        optional = name == "body" and operation is Operation.UPDATE
        if name in taken and not optional and name not in dict(supplied):
            raise InvalidSchema(f"the column '{name}' is missing: {_REQUIRED[name]}")
    places: dict[str, int] = {}
    for place, (name, kind) in enumerate(supplied):
        if name not in taken:
            if ignore_extra:
                continue
            known = "does not know" if name not in _SINK_TYPES else "has no use for"
            raise InvalidSchema(
                f"the sink {known} the column '{name}'; with operation={operation.value} it takes"
                f" {', '.join(taken)}. Select those, or set ignoreExtraColumns=true"
            )
        allowed = _SINK_TYPES[name]
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
    return SinkColumns(**places)


def _listed(columns: Columns) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in columns)
