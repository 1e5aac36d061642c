"""Duplicates by a key of the sender: the public import path.

    from spark_azqueue.rows.duplicates import without_duplicates

It uses Spark's own functions alone, so it works on Spark Connect, and the executors need nothing
for it.
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
    """Keep one row for each key, of those that come within some time of it.

    messages: a stream with the column `message_id`, as the source gives it. keys: names of columns
    that the sender fills, such as an order's number; of the types that Spark can compare. A row in
    which one of them is NULL has no key, and is kept; rows of `unpack` keep `message_row` for that.
    within: for how long a key is remembered at least, as "7 days" or "12 hours", counted from the
    batch that had it first, not from a time in the message: an old message is kept, however late it
    comes. The first batch after a pause still knows older keys, so a key names one thing for ever.
    Returns the same columns.

    The keys are in Spark's state store, in the checkpoint, so they survive a restart, and take as
    much as all keys of that time. Time is the driver's clock: if it goes back by more than half of
    `within`, Spark drops rows as late (`numRowsDroppedByWatermark` in the progress). Raises
    InvalidOption for a column that is not there, or a time that is none.
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
    # Time is when a batch begins, so no row is too late, whatever its message says. Spark keeps a
    # key for the delay, and then until the watermark, which is as far behind, has passed that.
    seen = messages.withColumn(_KEY, sf.struct(*key, own)).withColumn(
        _SEEN_AT, sf.current_timestamp()
    )
    return (
        seen.withWatermark(_SEEN_AT, f"{seconds * 500} milliseconds")
        .dropDuplicatesWithinWatermark([_KEY])
        .drop(_KEY, _SEEN_AT)
    )


def _row(columns: list[str]) -> Column:
    """What a row is known by, whatever it holds: its message, and its place in a packed one."""
    message = sf.col("message_id")
    return sf.concat_ws(" ", message, "message_row") if "message_row" in columns else message
