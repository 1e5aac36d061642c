"""Parses bodies to events: Event Grid's schema and CloudEvents 1.0, single events or lists.

No row is lost, whatever its body is, and the body stays unchanged. A row whose event is not
readable has a `reason`. Only short texts without deep nesting are passed to Spark's JSON parsers:
some of them recurse once per level, so a small text of many brackets would crash the process with a
StackOverflowError.
"""

from __future__ import annotations

from collections.abc import Collection

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DataType, StructType, VariantType

MOST_BODY_BYTES = 2**20
"""Maximum size of a body, as JSON. This is Event Grid's own limit for an event."""

MOST_EVENTS = 5_000
"""Maximum number of events in a body. This is Event Grid's own limit for one delivery."""

MOST_LEVELS = 64
"""Maximum depth of nested brackets in a body. .NET's JSON parsers have the same limit."""

COLUMNS = (
    *("event_index", "event", "event_schema", "id", "type", "source", "subject", "time", "data"),
    *("traceparent", "reason"),
)

_DATA = COLUMNS.index("data")

EVENT_GRID, CLOUD_EVENTS = "EventGridSchema", "CloudEventSchemaV1_0"

# Top-level names of both schemas. Their values are read as strings: `data` as JSON, or as the
# original string.
_FIELDS = (
    *("id", "subject", "data"),
    *("eventType", "eventTime", "topic"),
    *("specversion", "type", "source", "time", "data_base64", "traceparent"),
)
_TEXTS = tuple(name for name in _FIELDS if name != "data")
_NEEDED = {
    EVENT_GRID: ("id", "subject", "eventType", "eventTime"),
    CLOUD_EVENTS: ("id", "type", "source"),
}
_STRICT = {"allowSingleQuotes": "false", "allowNonNumericNumbers": "false"}
_RFC_3339 = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?$"
_BLANK = "\ufeff \t\r\n"
_CORRUPT = "_corrupt"


def _nested(levels: int) -> str:
    """Return a regular expression for texts whose brackets outside of strings are balanced, and
    nested at most `levels` deep.

    Every repetition is possessive. So Java scans a text only once, and its stack does not grow with
    the text.
    """
    plain = r'[^\[\]{}"]++|"(?:[^"\\]++|\\.)*+"?+'
    found = f"(?:{plain})*+"
    for _ in range(levels):
        found = rf"(?:{plain}|[\[{{]{found}[\]}}])*+"
    return rf"(?s)\A{found}\z"


_BALANCED = _nested(MOST_LEVELS)


def parsed_events(df: DataFrame, schema: StructType | VariantType | str | None = None) -> DataFrame:
    """Add the events in `body` as columns: one row per event; no row is lost.

    `df` is any DataFrame, streaming or not, with a column `body` (string or binary): JSON, or
    base64 of JSON, of one event or of a list of events. All its columns stay; only the first row
    of a list has the `body`. `schema` is the schema of `data`: a StructType or DDL such as
    ``"api STRING, contentLength BIGINT"``, or ``"variant"``.

    ==============  =========  ================================================================
    column          type       what it is
    ==============  =========  ================================================================
    `event_index`   INT        the event's place in its body, from 0; null if the body has no event
    `event`         STRING     this event alone, as JSON
    `event_schema`  STRING     `EventGridSchema`, `CloudEventSchemaV1_0`, or null for neither
    `id`            STRING     unique within `source`; an event that was sent twice keeps its id
    `type`          STRING     such as `Microsoft.Storage.BlobCreated`
    `source`        STRING     who sent it; in Event Grid's schema this is `topic`
    `subject`       STRING     what it is about
    `time`          TIMESTAMP  when it happened; without a zone it counts as UTC
    `data`          STRING     its data: JSON, or the text itself if it is a string. With `schema` a
                               struct of that schema, or a VARIANT
    `traceparent`   STRING     W3C trace context (CloudEvents only)
    `reason`        STRING     null if the event was read in full, else its fault
    ==============  =========  ================================================================

    A row with a `reason` has the readable values in its columns. A body of more than 1 MiB, 5,000
    events or 64 levels of nested JSON is not read, and gives one row with its reason. Raises
    ValueError if `df` has one of these columns already, and TypeError if `schema` is neither a
    struct nor `variant`.
    """
    check_free(df, COLUMNS)
    # Each step is a separate projection, so that Spark computes each column once. Otherwise Spark
    # would copy the fields of a new struct into every expression that uses them.
    names = ", ".join(f"`{name}` STRING" for name in _FIELDS)
    text, value, event = F.col("_text"), F.col("_value"), bounded(F.col("event"))
    read = (
        df.withColumn("_text", _text(F.col("body")))
        .withColumn("_one", _one(text))
        .withColumn("_events", _events(text, F.col("_one")))
        .withColumn("_why", _unread(F.col("body"), text, F.col("_events")))
        .withColumn("_rows", _rows(F.col("body"), F.col("_events"), F.col("_why")))
        .select(*quoted(_others(df)), "_why", F.inline("_rows"))
        .select(*_as_before(df), "_why", "event_index", "event")
    )
    found = (
        read.withColumns(
            {"_value": F.try_parse_json(event), "_fields": F.from_json(event, names, _STRICT)}
        )
        .withColumns({"_schema": _schema_of(F.col("_fields")), "_wrong": _wrong(value)})
        .withColumn("_time", _time(F.col("_fields"), F.col("_schema")))
        .withColumns(
            {
                "time": _timestamp(F.col("_time")),
                "_binary": _unbase64(F.col("_fields.data_base64")),
            }
        )
    )
    columns = [F.col(name) for name in ("event_index", "event")] + _columns(F.col("_fields"))
    reason = F.coalesce(F.col("_why"), _reason(F.col("_fields"), value))
    asked = None if schema is None else _type_of(schema)
    if isinstance(asked, VariantType):
        columns = [*columns[:_DATA], _variant(value).alias("data"), *columns[_DATA + 1 :]]
    typed = found.select(*quoted(df.columns), *columns, reason.alias("reason"))
    return _with_schema(typed, asked) if isinstance(asked, StructType) else typed


def bounded(text: Column) -> Column:
    """Return the text, or null if its brackets are unbalanced or nested deeper than MOST_LEVELS."""
    return F.when(text.rlike(_BALANCED), text)


def bounded_json(text: Column, longest: int = MOST_BODY_BYTES) -> Column:
    """Return the text if a JSON parser may read it, else null.

    Use as `F.try_parse_json(bounded_json(…))`. Null for a text that is longer than `longest` bytes,
    has unbalanced brackets outside of strings, or is nested deeper than 64 levels. Some of Spark's
    functions recurse once per level. The text may be invalid JSON.
    """
    return F.when(F.octet_length(text) <= longest, bounded(text))


def check_free(df: DataFrame, columns: Collection[str]) -> None:
    """Raise ValueError if the DataFrame has one of these columns."""
    taken = [name for name in df.columns if name.lower() in columns]
    if taken:
        raise ValueError(f"the DataFrame has {', '.join(taken)} already: rename or drop it")


def quoted(names: list[str]) -> list[Column]:
    """Return columns by name. The names may have any characters."""
    return [F.col("`" + name.replace("`", "``") + "`") for name in names]


def _others(df: DataFrame) -> list[str]:
    return [name for name in df.columns if name.lower() != "body"]


def _as_before(df: DataFrame) -> list[Column]:
    """Return the DataFrame's columns in their order, with the body that `_rows` returns."""
    columns = zip(df.columns, quoted(df.columns), strict=True)
    return [F.col("_body").alias(n) if n.lower() == "body" else column for n, column in columns]


def _rows(body: Column, events: Column, why: Column) -> Column:
    """Return an array of rows for a body. Each row has an event and its index; only the first row
    has the body."""
    listed = F.transform(
        events, lambda event, at: _row(at, event, F.when(at == 0, body).otherwise(F.lit(None)))
    )
    unread = _row(F.lit(None).cast("int"), F.lit(None).cast("string"), body)
    return F.when(why.isNull(), listed).otherwise(F.array(unread))


def _row(index: Column, event: Column, body: Column) -> Column:
    return F.struct(index.alias("event_index"), event.alias("event"), body.alias("_body"))


def _text(body: Column) -> Column:
    """Return the JSON text of a body, decoded from base64 if needed; null if the body has no JSON
    text or is too long.
    """
    short = F.when(~_is_too_long(body), body)
    plain = F.trim(F.try_validate_utf8(short.cast("string")), F.lit(_BLANK))
    decoded = F.trim(_unbase64(plain), F.lit(_BLANK))
    # A JSON object or list begins with a character that base64 does not have.
    return F.when(_begins_json(plain), plain).when(_begins_json(decoded), decoded)


def _is_too_long(body: Column) -> Column:
    return F.octet_length(body) > MOST_BODY_BYTES


def _begins_json(text: Column) -> Column:
    return text.startswith("{") | text.startswith("[")


def _unbase64(text: Column) -> Column:
    """Decode base64 to a string; null if the input is not base64 of UTF-8."""
    return F.try_validate_utf8(F.try_to_binary(text, F.lit("base64")).cast("string"))


def _one(text: Column) -> Column:
    """Return the JSON value of a text; null if the text is not exactly one value.

    Spark ignores text after a JSON value, such as a second value. So the text is parsed as the
    content of a JSON list. The added brackets enclose the whole text, because the text's own
    brackets are balanced.
    """
    values = F.from_json(F.concat(F.lit("["), bounded(text), F.lit("]")), "ARRAY<STRING>", _STRICT)
    return F.when(F.size(values) == 1, F.get(values, F.lit(0)))


def _events(text: Column, one: Column) -> Column:
    """Return the events of a text, each as JSON, in an array."""
    listed = F.from_json(one, "ARRAY<STRING>", _STRICT)
    return F.when(text.startswith("["), listed).when(one.isNotNull(), F.array(one))


def _unread(body: Column, text: Column, events: Column) -> Column:
    """Return the reason why a body has no event; null if the body has an event."""
    return (
        F.when(body.isNull(), "the body is null")
        .when(_is_too_long(body), f"the body is longer than {MOST_BODY_BYTES:,} bytes")
        .when(text.isNull(), "the body is neither JSON nor base64 of JSON")
        .when(
            events.isNull(),
            f"the body is not one JSON value, or has more than {MOST_LEVELS} levels",
        )
        .when(F.size(events) > MOST_EVENTS, f"the body has more than {MOST_EVENTS:,} events")
        .when(F.size(events) == 0, "the body is an empty list")
    )


def _schema_of(fields: Column) -> Column:
    return F.when(fields["specversion"] == "1.0", CLOUD_EVENTS).when(
        fields["specversion"].isNull() & fields["eventType"].isNotNull(), EVENT_GRID
    )


def _of_schema(schema: Column, event_grid: Column, cloud_events: Column) -> Column:
    return F.when(schema == EVENT_GRID, event_grid).otherwise(cloud_events)


def _time(fields: Column, schema: Column) -> Column:
    return F.upper(_of_schema(schema, fields["eventTime"], fields["time"]))


def _timestamp(text: Column) -> Column:
    """Parse an RFC 3339 time; null if the time is invalid. The zone may be missing, as in some
    Azure events.
    """
    zoned = F.when(text.rlike(r"(Z|[+-]\d\d:\d\d)$"), text).otherwise(F.concat(text, F.lit("Z")))
    return F.when(text.rlike(_RFC_3339), zoned.try_cast("timestamp"))


def _wrong(value: Column) -> Column:
    """Return the names of an event's fields that are not strings, but should be."""
    found = {n: F.to_json(F.try_variant_get(value, f"$.{n}", "variant")) for n in _TEXTS}
    wrong = [
        F.when(~(json.startswith('"') | (json == "null")), F.lit(name))
        for name, json in found.items()
    ]
    return F.concat_ws(", ", *wrong)


def _columns(fields: Column) -> list[Column]:
    schema = F.col("_schema")
    return [
        schema.alias("event_schema"),
        fields["id"].alias("id"),
        _of_schema(schema, fields["eventType"], fields["type"]).alias("type"),
        _of_schema(schema, fields["topic"], fields["source"]).alias("source"),
        fields["subject"].alias("subject"),
        F.col("time"),
        F.coalesce(fields["data"], "_binary").alias("data"),
        fields["traceparent"].alias("traceparent"),
    ]


def _reason(fields: Column, value: Column) -> Column:
    """Return the reason why an event is not valid, or null if the event is valid."""
    missing = [
        F.when(F.coalesce(F.col("_schema") == schema, F.lit(False)) & _is_empty(fields[name]), name)
        for schema, names in _NEEDED.items()
        for name in names
    ]
    no_text = fields["data_base64"].isNotNull() & F.col("_binary").isNull()
    is_object = value.isNotNull() & F.col("event").startswith("{")
    return (
        F.when(
            ~F.coalesce(is_object, F.lit(False)),
            "the event is not a JSON object, or has a name twice",
        )
        .when(F.col("_wrong") != "", F.concat(F.lit("not a string: "), "_wrong"))
        .when(F.col("_schema").isNull(), "neither Event Grid's schema nor CloudEvents 1.0")
        .when(
            F.concat_ws("", *missing) != "",
            F.concat(F.lit("missing: "), F.concat_ws(", ", *missing)),
        )
        .when(F.col("_time").isNotNull() & F.col("time").isNull(), "the time is not as in RFC 3339")
        .when(no_text & fields["data"].isNull(), "data_base64 is not base64 of UTF-8")
    )


def _is_empty(text: Column) -> Column:
    return F.coalesce(text, F.lit("")) == ""


def _variant(event: Column) -> Column:
    """Return the data of an event as a variant. The data is JSON in the event, or is decoded from
    base64.
    """
    data = F.try_variant_get(event, "$.data", "variant")
    binary = F.col("_binary")
    as_text = F.variant_get(F.parse_json(F.to_json(F.array(binary))), "$[0]", "variant")
    decoded = F.coalesce(F.try_parse_json(bounded(binary)), F.when(binary.isNotNull(), as_text))
    return F.coalesce(F.when(~F.is_variant_null(data), data), decoded)


def _type_of(schema: StructType | VariantType | str) -> StructType | VariantType:
    if isinstance(schema, str) and schema.strip().lower() == "variant":
        return VariantType()
    found = schema if isinstance(schema, DataType) else DataType.fromDDL(schema)
    if not isinstance(found, StructType | VariantType):
        raise TypeError(f"the schema of data is a struct or variant, not {found.simpleString()}")
    return found


def _with_schema(events: DataFrame, schema: StructType) -> DataFrame:
    noted = StructType([*schema.fields]).add(_CORRUPT, "string")
    read = F.from_json(
        bounded(F.col("data")), noted, {**_STRICT, "columnNameOfCorruptRecord": _CORRUPT}
    )
    found = events.withColumn("_data", read)
    differs = F.col("data").isNotNull() & (
        F.col("_data").isNull() | F.col(f"_data.{_CORRUPT}").isNotNull()
    )
    reason = F.coalesce("reason", F.when(differs, F.lit("the data is not of the given schema")))
    return (
        found.withColumn("reason", reason)
        .withColumn("data", F.col("_data").dropFields(_CORRUPT))
        .drop("_data")
    )
