"""One query over queues of several regions, which come and go under one checkpoint.

python examples/loads_come_and_go.py "<connection string>"
"""

from __future__ import annotations

from functools import reduce
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from surroundings import from_command_line, send

Regions = dict[str, dict[str, str]]


# [recipe]
def start(spark: SparkSession, regions: Regions, folder: Path) -> StreamingQuery:
    """Read the queue of each region. regions: name -> options of account and log."""
    spark.conf.set("spark.sql.streaming.queryEvolution.enableSourceEvolution", "true")
    spark.conf.set("spark.sql.streaming.offsetLog.formatVersion", "2")

    def load(region: str) -> DataFrame:
        messages = spark.readStream.format("azqueue").name(region)
        messages = messages.option("queue", f"example-orders-{region}")
        return messages.options(**regions[region]).load()

    return (
        reduce(DataFrame.unionByName, map(load, regions))
        .select("queue", "message_id", "body")
        .writeStream.format("parquet")
        .option("path", str(folder / "orders"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)  # without this line it never ends
        .start()
    )


# [end]


def main(spark: SparkSession, azure: dict[str, str], folder: Path) -> None:
    """West and east; then west has gone and north has come; then all three."""
    for run in (("west", "east"), ("north", "east"), ("west", "east", "north")):
        regions = {}
        for region in run:
            send(spark, azure, f"example-orders-{region}", [f"order of {region}"])
            regions[region] = {**azure, "writeAheadLog": f"file:{folder}/{region}"}
        start(spark, regions, folder).awaitTermination()
    orders = spark.read.parquet(str(folder / "orders"))
    for row in orders.groupBy("body").count().orderBy("body").collect():
        print(row.body, row["count"])


if __name__ == "__main__":
    main(*from_command_line())
