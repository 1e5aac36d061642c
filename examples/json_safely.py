"""Read JSON into a table. What is no such JSON goes to a queue of its own.

python examples/json_safely.py "<connection string>"
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from surroundings import bodies_of, from_command_line, send


# [recipe]
def start(spark: SparkSession, azure: dict[str, str], folder: Path) -> StreamingQuery:
    """Read `example-orders` into Parquet, and bad bodies into `example-orders-bad`."""
    schema = "order_id BIGINT, quantity BIGINT, _corrupt STRING"
    order = F.from_json("body", schema, {"columnNameOfCorruptRecord": "_corrupt"})
    reason = F.when(
        F.col("o").isNull() | F.col("o._corrupt").isNotNull(), "not of the schema"
    ).when(F.col("o.order_id").isNull(), "no order_id")

    def take(batch: DataFrame, number: int) -> None:
        rows = batch.withColumn("o", order).withColumn("reason", reason).persist()
        good = rows.where("reason IS NULL").select(
            "message_id", "o.order_id", "o.quantity"
        )
        good.write.mode("append").parquet(str(folder / "orders"))
        bad = rows.where("reason IS NOT NULL")
        envelopes = bad.selectExpr("to_json(struct(reason, message_id, body)) AS body")
        writer = envelopes.write.format("azqueue").mode("append").options(**azure)
        writer.option("queue", "example-orders-bad").option(
            "createQueue", "true"
        ).save()
        rows.unpersist()

    messages = (
        spark.readStream.format("azqueue")
        .options(**azure)
        .option("queue", "example-orders")
    )
    return (
        messages.load()
        .writeStream.foreachBatch(take)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )


# [end]


def main(spark: SparkSession, azure: dict[str, str], folder: Path) -> None:
    """Send two orders and two other texts, and show what becomes of them."""
    orders = [f'{{"order_id": {number}, "quantity": 2}}' for number in (1, 2)]
    send(spark, azure, "example-orders", [*orders, "order 3", '{"quantity": 4}'])
    start(spark, azure, folder).awaitTermination()
    spark.read.parquet(str(folder / "orders")).select("order_id", "quantity").show()
    print(*bodies_of(spark, azure, "example-orders-bad"), sep="\n")


if __name__ == "__main__":
    main(*from_command_line())
