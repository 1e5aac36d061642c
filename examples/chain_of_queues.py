"""Orders become invoices in a second queue and a table, each once, despite kills.

python examples/chain_of_queues.py "<connection string>"
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery as Query

from surroundings import from_command_line, send


# [recipe]
def start(spark: SparkSession, azure: dict[str, str], folder: Path) -> list[Query]:
    """From `example-orders` to `example-invoices`, and from there into a table."""
    logs, azure = f"file:{folder}/logs", azure | {"createQueue": "true"}
    reader = spark.readStream.format("azqueue").options(**azure)
    orders = reader.options(queue="example-orders", writeAheadLog=f"{logs}/1").load()
    sent = orders.selectExpr("concat('invoice for ', body) AS body").writeStream
    sent = sent.format("azqueue").options(**azure, queue="example-invoices")
    sent = sent.option("transactionLog", f"{logs}/sent")
    sent = sent.option("checkpointLocation", f"{folder}/checkpoints/sent")

    reader = spark.readStream.format("azqueue").options(**azure)
    reader = reader.options(queue="example-invoices", writeAheadLog=f"{logs}/2")
    invoices = reader.option("isolationLevel", "readCommitted").load()
    table = invoices.select("message_id", "body").writeStream
    table = table.option("checkpointLocation", f"{folder}/checkpoints/booked")
    return [sent.start(), table.start(f"{folder}/invoices")]


# [end]


def main(spark: SparkSession, azure: dict[str, str], folder: Path) -> None:
    """Send orders, and count the invoices when both queries have done their work."""
    send(spark, azure, "example-orders", [f"order {number}" for number in range(50)])
    queries = start(spark, azure, folder)
    while not (folder / "invoices").exists() or count(spark, folder) < 50:
        for query in queries:
            query.awaitTermination(0.5)
    for query in queries:
        query.stop()
    print(count(spark, folder), "invoices")


def count(spark: SparkSession, folder: Path) -> int:
    """How many invoices the table has."""
    found = list((folder / "invoices").glob("_spark_metadata/*"))
    return spark.read.parquet(str(folder / "invoices")).count() if found else 0


if __name__ == "__main__":
    main(*from_command_line())
