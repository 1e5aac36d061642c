"""Orders into a table of Postgres, each once: rows and batch number in one transaction.

python examples/into_postgres.py "<connection string>"

The address of the database is in DATABASE_URL. It needs psycopg.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import psycopg
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from surroundings import from_command_line, send

SCHEMA = """
CREATE TABLE IF NOT EXISTS batches (
    query TEXT, batch BIGINT, PRIMARY KEY (query, batch)
);
CREATE TABLE IF NOT EXISTS orders (message_id TEXT, body TEXT);
"""


# [recipe]
def into_postgres(address: str, query: str) -> Callable[[DataFrame, int], None]:
    """Return a function for `foreachBatch`. query: a name for this checkpoint."""
    note = "INSERT INTO batches VALUES (%s, %s) ON CONFLICT DO NOTHING RETURNING 1"
    copy = "COPY orders (message_id, body) FROM STDIN"

    def write(batch: DataFrame, number: int) -> None:
        rows = batch.select("message_id", "body").toLocalIterator()
        with psycopg.connect(address) as connection:  # commits at its end, or nothing
            cursor = connection.execute(note, (query, number))
            if cursor.fetchone() is None:  # an earlier attempt has committed it
                return
            with cursor.copy(copy) as into:
                for row in rows:
                    into.write_row(row)

    return write


# [end]


def start(
    spark: SparkSession, azure: dict[str, str], folder: Path, address: str
) -> StreamingQuery:
    """Read `example-orders` into the table."""
    orders = spark.readStream.format("azqueue").options(**azure)
    orders = orders.option("writeAheadLog", f"file:{folder}/log")
    writer = orders.option("queue", "example-orders").load().writeStream
    writer = writer.foreachBatch(into_postgres(address, "orders"))
    writer = writer.option("checkpointLocation", f"{folder}/checkpoint")
    return writer.trigger(availableNow=True).start()


def main(spark: SparkSession, azure: dict[str, str], folder: Path) -> None:
    """Send orders, and count the rows."""
    address = os.environ["DATABASE_URL"]
    with psycopg.connect(address) as connection:
        connection.execute(SCHEMA)
    send(spark, azure, "example-orders", [f"order {number}" for number in range(50)])
    start(spark, azure, folder, address).awaitTermination()
    with psycopg.connect(address) as connection:
        print(connection.execute("SELECT count(*) FROM orders").fetchone())


if __name__ == "__main__":
    main(*from_command_line())
