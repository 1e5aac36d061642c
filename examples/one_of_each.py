"""A sender that sends twice: one row for each order number of the last seven days.

python examples/one_of_each.py "<connection string>"
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery
from spark_azqueue import without_duplicates

from surroundings import from_command_line, send


# [recipe]
def start(spark: SparkSession, azure: dict[str, str], folder: Path) -> StreamingQuery:
    """Keep the first message of each order number within seven days."""
    messages = spark.readStream.format("azqueue").options(**azure)
    order = F.from_json("body", "id INT, quantity INT").alias("order")
    orders = messages.option("queue", "example-orders").load()
    orders = orders.select("message_id", order).select("message_id", "order.*")
    rows = without_duplicates(orders, "id", within="7 days")
    writer = rows.writeStream.option("checkpointLocation", f"{folder}/checkpoint")
    return writer.trigger(availableNow=True).start(f"{folder}/orders")


# [end]


def main(spark: SparkSession, azure: dict[str, str], folder: Path) -> None:
    """Send orders, some of them again a run later, and show the rows."""
    for numbers in ((1, 2, 2), (2, 3)):
        bodies = [f'{{"id": {number}, "quantity": 1}}' for number in numbers]
        send(spark, azure, "example-orders", bodies)
        start(spark, azure, folder).awaitTermination()
    rows = spark.read.parquet(str(folder / "orders")).select("id").collect()
    print("orders:", *sorted(row.id for row in rows))


if __name__ == "__main__":
    main(*from_command_line())
