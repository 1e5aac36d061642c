"""Parses a batch's bodies to events, in Spark. The driver collects only a bounded number of
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
"""Maximum number of unreadable events per body that are quarantined. Further events are only
counted.
"""

_CHARACTERS = 6_000
"""Maximum number of characters kept of an unreadable event."""

_PIECES = 8
"""Partitions for a batch's unreadable events, which are partitioned by message to count them."""

_WANTED = (
    *("message_id", "event_index", "reason", "account", "container", "path", "renamed_from"),
    *("change", "etag", "api", "sequencer"),
)


class Broken(NamedTuple):
    """An event that is not readable, or that does not name a file in a trusted container.

    text: beginning of the event. more: number of further unreadable events of the body, set on the
    last event that is kept.
    """

    message_id: str
    text: str
    reason: str
    more: int = 0

    def envelope(self) -> dict[str, Any]:
        """Return the envelope for the quarantine."""
        more = {"more": self.more} if self.more else {}
        return {"event": self.text, "reason": self.reason, **more}


def of_bodies(
    batch: DataFrame, trusted: Sequence[str], now: float
) -> tuple[list[Announced], list[Broken]]:
    """Return the events of files, and the first unreadable events of each body.

    Events of other kinds are left out. now: time that is used for events without a time.
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
    """Return the first events of each body. The last of these events has the number of further
    events.
    """
    of_body = Window.partitionBy("message_id")
    nth, more = F.col("nth"), F.count("*").over(of_body) - F.col("nth")
    return (
        broken.repartition(_PIECES, "message_id")
        .withColumn("nth", F.row_number().over(of_body.orderBy("event_index")))
        .withColumn("more", F.when(nth == OF_A_BODY, more).otherwise(0))
        .where(nth <= OF_A_BODY)
    )
