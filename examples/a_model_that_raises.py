"""A model that raises on some messages: they are dead-lettered, the others scored.

python examples/a_model_that_raises.py "<connection string>"
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery
from spark_azqueue import dead_letters, split_apply

from surroundings import bodies_of, from_command_line, send


class Model:
    """Stand in for your model."""

    def predict(self, texts: list[str]) -> list[float]:
        """Return a score for each text; it knows letters only."""
        if not all(text.isalpha() for text in texts):
            raise ValueError("only letters, please")
        return [len(text) / 10 for text in texts]


model = Model()


# [recipe]
def score(messages: pa.Table) -> pa.Table:
    """Score a piece of a batch. The type hint asks for Arrow in place of pandas."""
    return pa.table({"score": model.predict(messages["body"].to_pylist())})


def start(spark: SparkSession, azure: dict[str, str], folder: Path) -> StreamingQuery:
    """Score `example-texts`. If the model raises on a text, dead-letter it."""

    def write_good(rows: DataFrame) -> None:
        rows.select("message_id", "score").write.mode("append").parquet(f"{folder}/out")

    def write_dead(rows: DataFrame) -> None:
        writer = dead_letters(rows).write.format("azqueue").mode("append")
        writer = writer.options(**azure).option("createQueue", "true")
        writer.option("queue", "example-texts-poison").save()

    def take(batch: DataFrame, number: int) -> None:
        print(
            split_apply(batch, score, "score DOUBLE", good=write_good, dead=write_dead)
        )

    messages = spark.readStream.format("azqueue").options(**azure)
    messages = messages.option("messagesPerPartition", "64")  # a task each
    writer = messages.option("queue", "example-texts").load().writeStream
    writer = writer.foreachBatch(take).trigger(availableNow=True)
    return writer.option("checkpointLocation", f"{folder}/checkpoint").start()


# [end]


def main(spark: SparkSession, azure: dict[str, str], folder: Path) -> None:
    """Send texts, two of which the model does not know, and show where each went."""
    send(spark, azure, "example-texts", ["one", "two", "3", "four", "!", *["x"] * 95])
    start(spark, azure, folder).awaitTermination()
    spark.read.parquet(f"{folder}/out").groupBy("score").count().show()
    for body in bodies_of(spark, azure, "example-texts-poison"):
        print(body)


if __name__ == "__main__":
    main(*from_command_line())
