"""One queue to several: each row names its queue, delay and time to live.

python examples/fan_out.py "<connection string>"
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from surroundings import bodies_of, from_command_line, send


# [recipe]
def start(spark: SparkSession, azure: dict[str, str], folder: Path) -> StreamingQuery:
    """Send alerts at once, reminders after an hour, and the rest to the archive."""
    events = spark.readStream.format("azqueue").options(**azure)
    rows = events.option("queue", "example-events").load()
    kind = F.get_json_object("body", "$.kind")
    routed = rows.select(
        "body",
        F.when(kind == "alert", "example-alerts")
        .when(kind == "reminder", "example-reminders")
        .otherwise("example-archive")
        .alias("queue"),
        F.when(kind == "reminder", 3600).alias("visibility_delay"),
        F.when(kind == "alert", 900).otherwise(-1).alias("time_to_live"),  # -1: never
    )
    writer = routed.writeStream.format("azqueue").options(**azure)
    writer = writer.option("createQueue", "true").trigger(availableNow=True)
    return writer.option("checkpointLocation", f"{folder}/checkpoint").start()


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
