"""Removal of duplicates by a key of the sender: the public import path.

`without_duplicates` uses only Spark's own functions, so it works on Spark Connect, and the
executors need no package for it.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from spark_azqueue.errors import InvalidOption
from spark_azqueue.options.parsers import duration

__all__ = ["without_duplicates"]

_LONGEST_S = 10 * 365 * 86_400
_SEEN_AT = "_azqueue_seen_at"
_KEY = "_azqueue_key"


def without_duplicates(messages: DataFrame, *keys: str, within: str = "7 days") -> DataFrame:
    """Keep one row for each key, of the rows that come within some time of the first.

    messages: a stream with the source's column `message_id`. keys: names of columns that the sender
    fills, such as an order's number, of types that Spark can compare. A row with NULL in a key
    column has no key, and is kept. Rows of `unpack` need the column `message_row` for this. within:
    shortest time for which a key is remembered, such as "7 days" or "12 hours". The time counts
    from the batch that had the key first, not from a time in the message, so an old message is
    kept, however late it comes. The first batch after a pause still knows older keys, so never use
    a key again for something else. Returns the same columns.

    Spark's state store in the checkpoint has the keys, so they survive a restart, and need the
    space of all keys of that time. Time is the driver's clock: if the clock goes back by more than
    half of `within`, Spark drops rows as late (`numRowsDroppedByWatermark` in the progress). Raises
    InvalidOption for a missing column or an invalid time.
    """
    if not keys:
        raise InvalidOption("without_duplicates needs at least one column as the key")
    for name in (*keys, "message_id"):
        if name not in messages.columns:
            raise InvalidOption(
                f"without_duplicates needs the column '{name}', and there is none: there are"
                f" {', '.join(messages.columns)}. Keep it until then, or name another key"
            )
    try:
        seconds = int(duration(1, _LONGEST_S, whole=True)(within))
    except ValueError as error:
        raise InvalidOption(f"without_duplicates(within='{within}'): {error}") from None
    key = [sf.col(f"`{name}`") for name in keys]
    has_key = sf.lit(True)
    for each in key:
        has_key &= each.isNotNull()
    own = sf.when(~has_key, _row(messages.columns))
    # A row's time is the start of its batch, so no row is late, whatever its message says. Spark
    # keeps a key for the delay, and then until the watermark, which is the same delay behind, has
    # passed.
    seen = messages.withColumn(_KEY, sf.struct(*key, own)).withColumn(
        _SEEN_AT, sf.current_timestamp()
    )
    return (
        seen.withWatermark(_SEEN_AT, f"{seconds * 500} milliseconds")
        .dropDuplicatesWithinWatermark([_KEY])
        .drop(_KEY, _SEEN_AT)
    )


def _row(columns: list[str]) -> Column:
    """Return the identity of a row without a key: its message and its place in the message."""
    message = sf.col("message_id")
    return sf.concat_ws(" ", message, "message_row") if "message_row" in columns else message
