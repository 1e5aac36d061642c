"""Answer each request in another queue, with data from a table.

python examples/enrich_and_answer.py "<connection string>"
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from surroundings import bodies_of, from_command_line, send


# [recipe]
def start(
    spark: SparkSession, azure: dict[str, str], folder: Path, prices: DataFrame
) -> StreamingQuery:
    """Look up the price of each request's item. prices: with `item` and `price`."""
    requests = spark.readStream.format("azqueue").options(**azure)
    asked = requests.option("queue", "example-requests").load()
    asked = asked.withColumn("request", F.from_json("body", "id STRING, item STRING"))
    asked = asked.select("request.*", F.col("message_id").alias("in_reply_to"))
    answers = asked.join(F.broadcast(prices), "item", "left")
    writer = answers.select(F.to_json(F.struct("*")).alias("body")).writeStream
    writer = writer.format("azqueue").options(**azure).option("createQueue", "true")
    writer = writer.option("queue", "example-answers").trigger(availableNow=True)
    return writer.option("checkpointLocation", f"{folder}/checkpoint").start()


# [end]


def main(spark: SparkSession, azure: dict[str, str], folder: Path) -> None:
    """Ask for a known item and an unknown one, and show the answers."""
    items = ("tea", "unicorn")
    send(
        spark,
        azure,
        "example-requests",
        [f'{{"id": "{i}", "item": "{i}"}}' for i in items],
    )
    prices = spark.createDataFrame(
        [("tea", 3.5), ("coffee", 4.0)], "item string, price double"
    )
    start(spark, azure, folder, prices).awaitTermination()
    print(*bodies_of(spark, azure, "example-answers"), sep="\n")


if __name__ == "__main__":
    main(*from_command_line())
