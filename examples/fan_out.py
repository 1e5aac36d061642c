"""One queue to several: the row says which queue, when, and for how long.

python examples/fan_out.py "<connection string>"
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from surroundings import bodies_of, from_command_line, send


# [recipe]
def start(spark: SparkSession, azure: dict[str, str], folder: Path) -> StreamingQuery:
    """Send alerts on at once, reminders in an hour, and the others to the archive."""
    events = (
        spark.readStream.format("azqueue")
        .options(**azure)
        .option("queue", "example-events")
    )
    routed = events.load().selectExpr(
        "body",
        """CASE get_json_object(body, '$.kind')
             WHEN 'alert' THEN 'example-alerts'
             WHEN 'reminder' THEN 'example-reminders'
             ELSE 'example-archive' END AS queue""",
        "IF(get_json_object(body, '$.kind') = 'reminder', 3600, 0) AS visibility_delay",
        # An alert is good for 15 minutes, the others for ever.
        "IF(get_json_object(body, '$.kind') = 'alert', 900, -1) AS time_to_live",
    )
    return (
        routed.writeStream.format("azqueue")
        .options(**azure)
        .option("createQueue", "true")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )


# [end]


def main(spark: SparkSession, azure: dict[str, str], folder: Path) -> None:
    """Send three kinds of events, and peek into the queues that they went to."""
    kinds = ("alert", "reminder", "other")
    send(spark, azure, "example-events", [f'{{"kind": "{kind}"}}' for kind in kinds])
    start(spark, azure, folder).awaitTermination()
    for queue in ("example-alerts", "example-reminders", "example-archive"):
        print(
            queue, *bodies_of(spark, azure, queue)
        )  # a reminder is invisible for an hour


if __name__ == "__main__":
    main(*from_command_line())
