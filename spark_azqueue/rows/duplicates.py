"""Drops duplicates by a key that the sender sets. Users import this module.

`without_duplicates` uses only Spark's own functions. So the function works on Spark Connect, and
executors do not need this package.
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
    """Keep the first row of each key, and drop rows with the same key for some time.

    messages: a stream with the source's column `message_id`. keys: names of columns that the sender
    fills, such as an order number, of types that Spark can compare. A row with NULL in a key column
    has no key, and is kept. Rows of `unpack` need the column `message_row` for this. within:
    shortest time for which a key is stored, such as "7 days" or "12 hours". The time begins with
    the batch that first had the key, and does not depend on times in the message. So the first
    message with a key is kept, however late it arrives. The first batch after a pause still knows
    older keys, so never reuse a key. Returns the same columns.

    Spark's state store in the checkpoint has the keys, so they survive a restart. The store needs
    space for all keys of the time `within`. All times are by the driver's clock. If this clock is
    set back by more than half of `within`, Spark drops rows as late (`numRowsDroppedByWatermark` in
    the progress). Raises InvalidOption for a missing column or an invalid time.
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
    # A row's event time is the start of its batch, so no row is late. Spark keeps a key until the
    # watermark passes the key's event time plus the delay. The watermark is behind by the same
    # delay, so a key is kept for up to twice the delay.
    seen = messages.withColumn(_KEY, sf.struct(*key, own)).withColumn(
        _SEEN_AT, sf.current_timestamp()
    )
    return (
        seen.withWatermark(_SEEN_AT, f"{seconds * 500} milliseconds")
        .dropDuplicatesWithinWatermark([_KEY])
        .drop(_KEY, _SEEN_AT)
    )


def _row(columns: list[str]) -> Column:
    """Return a column that identifies a row without a key by message id and position in the
    message."""
    message = sf.col("message_id")
    return sf.concat_ws(" ", message, "message_row") if "message_row" in columns else message
