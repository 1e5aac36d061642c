"""Protobuf bodies in columns. An unreadable body is kept, with the reason.

python examples/protobuf_bodies.py "<connection string>"
"""

from __future__ import annotations

import base64
from pathlib import Path

from google.protobuf.message import DecodeError
from google.type.money_pb2 import Money
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from surroundings import from_command_line, send


# [recipe]
def price(body):
    """Return the columns of a price, or the reason why the body is not a price."""
    try:
        money = Money.FromString(body)  # your class, from protoc
    except DecodeError:
        return None, None, "not Protobuf"
    return money.currency_code, money.units, None


def start(spark: SparkSession, azure: dict[str, str], folder: Path) -> StreamingQuery:
    """Read `example-prices` into columns, and keep the body."""
    messages = spark.readStream.format("azqueue").options(**azure)
    messages = messages.option("queue", "example-prices").option("bodyType", "binary")
    rows = messages.option("messageEncoding", "base64").load()
    columns = F.udf(price, "currency STRING, units BIGINT, reason STRING")("body")
    rows = rows.withColumn("price", columns).select("body", "price.*")
    writer = rows.writeStream.option("checkpointLocation", f"{folder}/checkpoint")
    return writer.trigger(availableNow=True).start(f"{folder}/prices")


# [end]


def main(spark: SparkSession, azure: dict[str, str], folder: Path) -> None:
    """Send two prices and a body that is none, and show the rows."""
    prices = (Money(currency_code="EUR", units=units) for units in (7, 9))
    bodies = [*(each.SerializeToString() for each in prices), b"\xff no price"]
    texts = [base64.b64encode(body).decode() for body in bodies]
    send(spark, azure, "example-prices", texts)
    start(spark, azure, folder).awaitTermination()
    spark.read.parquet(f"{folder}/prices").show(truncate=False)


if __name__ == "__main__":
    main(*from_command_line())
