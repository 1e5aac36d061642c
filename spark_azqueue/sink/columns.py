"""Columns of the sink: names, types, and positions in a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spark_azqueue.errors import InvalidSchema
from spark_azqueue.options.choices import MessageFormat, Operation

GivenColumns = tuple[tuple[str, str], ...]
Row = tuple[object, ...]
"""A row that Spark passes to a task."""


def value_of(row: Row, place: int | None) -> object:
    """Return the value at this position of a row, or None if the position is None."""
    return None if place is None else row[place]


@dataclass(frozen=True)
class SinkColumns:
    """Positions of the sink's columns in a row; None if the column is missing."""

    body: int | None = None
    queue: int | None = None
    visibility_delay: int | None = None
    time_to_live: int | None = None
    message_id: int | None = None
    pop_receipt: int | None = None
    visible_at: int | None = None
    id: int | None = None
    type: int | None = None
    source: int | None = None
    time: int | None = None
    subject: int | None = None
    datacontenttype: int | None = None
    traceparent: int | None = None

    @property
    def places(self) -> frozenset[int]:
        """Positions of all columns that the row has."""
        return frozenset(place for place in vars(self).values() if place is not None)


_WHOLE_NUMBERS = ("int", "bigint", "smallint", "tinyint")


_SINK_TYPES: dict[str, Sequence[str]] = {
    "body": ("string", "binary"),
    "queue": ("string",),
    "visibility_delay": _WHOLE_NUMBERS,
    "visible_at": ("timestamp",),
    "time_to_live": _WHOLE_NUMBERS,
    "message_id": ("string",),
    "pop_receipt": ("string",),
}

# Columns for the attributes of an event, with messageFormat=cloudevents.
EVENT_TYPES: dict[str, Sequence[str]] = {
    "id": ("string",),
    "type": ("string",),
    "source": ("string",),
    "time": ("timestamp",),
    "subject": ("string",),
    "datacontenttype": ("string",),
    "traceparent": ("string",),
}


# Columns that each operation accepts. Below: why an operation requires a column.
_TAKEN: dict[Operation, Sequence[str]] = {
    Operation.ENQUEUE: ("body", "queue", "visibility_delay", "visible_at", "time_to_live"),
    Operation.UPDATE: (
        *("message_id", "pop_receipt", "queue", "body", "visibility_delay", "visible_at"),
    ),
    Operation.DELETE: ("message_id", "pop_receipt", "queue"),
}


# Columns that only rows of the source have.
_OF_THE_SOURCE = ("pop_receipt", "dequeue_count", "insertion_time")

_REQUIRED: dict[str, str] = {
    "body": "it holds the text to send. To send whole rows, use to_json(struct(*)) AS body",
    "message_id": "take it from the source's rows",
    "pop_receipt": "take it from the source's rows, read with deleteOnCommit=false",
    "id": "an event needs an id, such as an order number, that is the same if it is sent twice",
    "type": "an event needs a type, such as 'com.example.order.created'",
    "source": "an event needs a source: its sender as a URI, such as '/shop/orders'",
}


def check_supplied(
    supplied: GivenColumns,
    *,
    ignore_extra: bool,
    queue: str | None,
    default_queue: str | None = None,
    operation: Operation = Operation.ENQUEUE,
    message_format: MessageFormat = MessageFormat.TEXT,
) -> SinkColumns:
    """Find the sink's columns in the schema of the rows to write.

    message_format: CLOUD_EVENTS also accepts the attributes of an event, and requires some of them.
    ignore_extra: allow unknown columns. queue, default_queue: values of the options `queue` and
    `defaultQueue`. Raises InvalidSchema; the error names the column.
    """
    events = message_format is MessageFormat.CLOUD_EVENTS
    types = {**_SINK_TYPES, **EVENT_TYPES} if events else _SINK_TYPES
    taken = (*_TAKEN[operation], *EVENT_TYPES) if events else _TAKEN[operation]
    for name in _REQUIRED:
        optional = name == "body" and operation is Operation.UPDATE
        if name in taken and not optional and name not in dict(supplied):
            raise InvalidSchema(f"the column '{name}' is missing: {_REQUIRED[name]}")
    if operation is Operation.ENQUEUE:
        _check_not_sent_back(dict(supplied))
    places: dict[str, int] = {}
    for place, (name, kind) in enumerate(supplied):
        if name not in taken:
            if ignore_extra:
                continue
            known = "does not know" if name not in types else "has no use for"
            raise InvalidSchema(
                f"the sink {known} the column '{name}'; with operation={operation.value} it takes"
                f" {', '.join(taken)}. Select those, or set ignoreExtraColumns=true"
            )
        allowed = types[name]
        if kind not in allowed:
            raise InvalidSchema(
                f"the column '{name}' is {kind}; the sink takes {' or '.join(allowed)}:"
                f" {_conversion(name, kind, allowed[0])} AS {name}"
            )
        if name in places:
            raise InvalidSchema(f"the column '{name}' occurs twice; keep one")
        places[name] = place
    if {"visibility_delay", "visible_at"} <= places.keys():
        raise InvalidSchema(
            "the columns 'visibility_delay' and 'visible_at' both say when a message is visible;"
            " keep one"
        )
    _check_target("queue" in places, queue, default_queue, operation)
    return SinkColumns(**places)


def _conversion(name: str, kind: str, wanted: str) -> str:
    """Return the SQL expression that converts this column to the wanted type."""
    if kind.startswith(("struct", "array", "map", "variant")) and wanted == "string":
        return f"to_json({name})"
    if kind == "binary" and wanted == "string":
        return f"decode({name}, 'UTF-8')"
    return f"cast({name} AS {wanted})"


def _check_target(
    by_row: bool, queue: str | None, default_queue: str | None, operation: Operation
) -> None:
    """Raise InvalidSchema for rows without a target queue, or with two target queues.

    Rows to update or delete may have both a column 'queue' and an option, because the column is the
    queue that has the message.
    """
    if by_row and queue and operation is Operation.ENQUEUE:
        raise InvalidSchema(
            f"the option 'queue' is '{queue}', and the column 'queue' names a queue for each row."
            " Which one is meant? To send all rows to the queue of the option, leave the column"
            " out, as in select('body'). To send each row to its own queue, leave the option out;"
            " for rows whose column is null set 'defaultQueue'"
        )
    if not by_row and default_queue:
        raise InvalidSchema(
            "'defaultQueue' is for rows whose column 'queue' is null, and there is no such column:"
            " set 'queue' instead"
        )
    if not by_row and not queue:
        raise InvalidSchema(
            "no queue to write to: set the option 'queue', or add a column 'queue' (string)"
        )


def _check_not_sent_back(types: Mapping[str, str]) -> None:
    """Raise InvalidSchema for unchanged rows of the source: their `queue` is the queue from which
    they were read."""
    found = [name for name in _OF_THE_SOURCE if name in types]
    if "queue" in types and found:
        raise InvalidSchema(
            f"these are rows of the source (they have the column '{found[0]}'), and their column"
            " 'queue' is the queue that each row came from: it would be sent back there. Select the"
            " columns to send, as in select('body'), and name the target in the option 'queue'"
        )
