"""Parses the bodies of a batch to events, in Spark. The driver collects only a limited number of
unreadable events.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812

from spark_azqueue.files.events.blobs import blob_events

from .decide import Announced, announced

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OF_A_BODY = 3
"""Maximum number of unreadable events that are quarantined for each body. Further unreadable events
are only counted.
"""

_CHARACTERS = 6_000
"""Maximum number of characters that are kept of an unreadable event."""

_PIECES = 8
"""Number of partitions into which unreadable events are grouped by message, to count them."""

_WANTED = (
    *("message_id", "event_index", "reason", "account", "container", "path", "renamed_from"),
    *("change", "etag", "api", "sequencer"),
)


class Broken(NamedTuple):
    """An event that is not readable, or that does not name a file in a trusted container.

    text: beginning of the event. more: number of further unreadable events of the body; set only in
    the last event of the body that is kept.
    """

    message_id: str
    text: str
    reason: str
    more: int = 0

    def envelope(self) -> dict[str, Any]:
        """Return the envelope that quarantines this event."""
        more = {"more": self.more} if self.more else {}
        return {"event": self.text, "reason": self.reason, **more}


def of_bodies(
    batch: DataFrame, trusted: Sequence[str], now: float
) -> tuple[list[Announced], list[Broken]]:
    """Return the events about files, and the unreadable events (at most `OF_A_BODY` of each body).

    Events about anything else are left out. now: time for events that have no time.
    """
    seen = blob_events(batch.select("message_id", "body"), trusted=trusted).where(
        "reason IS NOT NULL OR NOT is_directory AND change IN ('created', 'renamed', 'deleted')"
    )
    at = F.coalesce(F.unix_micros("time") / 1e6, F.lit(now))
    text = F.substring(F.coalesce("event", F.col("body").cast("string")), 1, _CHARACTERS)
    is_broken = F.col("reason").isNotNull()
    rows = seen.select(*_WANTED, at.alias("at"), F.when(is_broken, text).alias("text")).persist()
    try:
        found = rows.where(~is_broken).collect()
        broken = _first_of_each(rows.where(is_broken)).collect()
    finally:
        rows.unpersist()
    return (
        [event for row in found for event in announced(row)],
        [Broken(*(row[name] for name in Broken._fields)) for row in broken],
    )


def _first_of_each(broken: DataFrame) -> DataFrame:
    """Return the first unreadable events of each body. The last of them has the number of further
    unreadable events.
    """
    of_body = Window.partitionBy("message_id")
    nth, more = F.col("nth"), F.count("*").over(of_body) - F.col("nth")
    return (
        broken.repartition(_PIECES, "message_id")
        .withColumn("nth", F.row_number().over(of_body.orderBy("event_index")))
        .withColumn("more", F.when(nth == OF_A_BODY, more).otherwise(0))
        .where(nth <= OF_A_BODY)
    )
