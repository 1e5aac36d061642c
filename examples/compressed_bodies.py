"""Compressed bodies: several times more text in a message, on both sides.

python examples/compressed_bodies.py "<connection string>"
"""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from surroundings import from_command_line


# [recipe]
def packed(text):
    """Return the text as gzip."""
    return gzip.compress(text.encode())


def unpacked(body):
    """Return the text; None if it is not gzip of UTF-8, or over 1 MiB."""
    unzip = zlib.decompressobj(wbits=31)
    try:
        text = unzip.decompress(body, 1 << 20).decode()
        return text if unzip.eof else None
    except (zlib.error, UnicodeDecodeError):
        return None


def put(rows: DataFrame, azure: dict[str, str]) -> None:
    """Send the rows, compressed."""
    body = F.udf(packed, "binary")("body").alias("body")
    writer = rows.select(body).write.format("azqueue").mode("append")
    writer.options(**azure, messageEncoding="base64").save()


# [end]


def main(spark: SparkSession, azure: dict[str, str], folder: Path) -> None:
    """Send 300 KB in one message, and a body that is not compressed; read both."""
    azure = {**azure, "queue": "example-packed", "createQueue": "true"}
    line = '{"order_id": 1, "text": "so many words that are much alike"}\n'
    put(spark.createDataFrame([(line * 5_000,)], "body string"), azure)
    plain = spark.createDataFrame([(b"not compressed",)], "body binary")
    writer = plain.write.format("azqueue").mode("append").options(**azure)
    writer.option("messageEncoding", "base64").save()

    messages = spark.readStream.format("azqueue").options(**azure)
    messages = messages.option("messageEncoding", "base64")
    rows = messages.option("bodyType", "binary").load()
    text = F.udf(unpacked, "string")("body").alias("text")
    rows = rows.select(text, F.octet_length("body"))
    writer = rows.writeStream.option("checkpointLocation", f"{folder}/checkpoint")
    writer = writer.trigger(availableNow=True)
    writer.start(f"{folder}/texts").awaitTermination()
    for text, size in sorted(spark.read.parquet(f"{folder}/texts").collect(), key=str):
        print(f"{size} bytes:", "not compressed" if text is None else len(text))


if __name__ == "__main__":
    main(*from_command_line())
