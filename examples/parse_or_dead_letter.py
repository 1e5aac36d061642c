"""Parse bodies with Python, and dead-letter the others with the reason.

python examples/parse_or_dead_letter.py "<connection string>"
"""

from __future__ import annotations

import datetime
import json
from functools import partial
from pathlib import Path

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery
from spark_azqueue import dead_letters, split_apply

from surroundings import bodies_of, from_command_line, send


# [recipe]
def parse(messages: pd.DataFrame) -> pd.DataFrame:
    """Return the columns of the orders. An exception costs only its own row."""
    orders = [json.loads(body) for body in messages["body"]]
    due = [datetime.date.fromisoformat(order["due"]) for order in orders]
    return pd.DataFrame({"number": [order["number"] for order in orders], "due": due})


def take(batch: DataFrame, number: int, azure: dict[str, str], folder: Path) -> None:
    """Overwrite the files of this batch, and dead-letter bad messages."""

    def write_good(rows: DataFrame) -> None:
        rows.write.mode("overwrite").parquet(f"{folder}/orders/batch={number}")

    def write_dead(rows: DataFrame) -> None:
        writer = dead_letters(rows).write.format("azqueue").options(**azure)
        writer = writer.option("queue", "example-orders-poison")
        writer.option("createQueue", "true").mode("append").save()

    # no limit: parse calls nothing that could be down
    schema, limit = "number BIGINT, due DATE", None
    split_apply(batch, parse, schema, good=write_good, dead=write_dead, limit=limit)


# [end]


def start(spark: SparkSession, azure: dict[str, str], folder: Path) -> StreamingQuery:
    """Read `example-orders` into a table of files; the others go to a queue."""
    messages = spark.readStream.format("azqueue").options(**azure)
    messages = messages.option("writeAheadLog", f"file:{folder}/log")
    writer = messages.option("queue", "example-orders").load().writeStream
    writer = writer.foreachBatch(partial(take, azure=azure, folder=folder))
    writer = writer.option("checkpointLocation", f"{folder}/checkpoint")
    return writer.trigger(availableNow=True).start()


def main(spark: SparkSession, azure: dict[str, str], folder: Path) -> None:
    """Send orders, six of which are bad, and show where each went."""
    bodies = [f'{{"number": {n}, "due": "2026-11-{n}"}}' for n in range(10, 35)]
    send(spark, azure, "example-orders", [*bodies, "no JSON", '{"number": 36}'])
    start(spark, azure, folder).awaitTermination()
    spark.read.parquet(f"{folder}/orders").orderBy("number").show(30)
    for body in bodies_of(spark, azure, "example-orders-poison"):
        print(body)


if __name__ == "__main__":
    main(*from_command_line())
