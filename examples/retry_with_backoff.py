"""Call a service that may fail: delete, retry with a growing delay, or dead-letter.

python examples/retry_with_backoff.py "<connection string>"
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery
from spark_azqueue import DeadLetter, Retry, backoff, settle

from surroundings import bodies_of, from_command_line, send


def call(messages: DataFrame) -> DataFrame:
    """Stand in for your service: add the status of its answer, as a UDF would."""
    return messages.withColumn(
        "status", F.get_json_object("body", "$.answer").cast("int")
    )


# [recipe]
def start(spark: SparkSession, azure: dict[str, str], folder: Path) -> StreamingQuery:
    """Call the service for each message, and settle the message by the answer."""

    def work(batch: DataFrame, number: int) -> None:
        is_bad = (F.col("status") == 400) | (F.col("dequeue_count") >= 8)
        reason = F.concat(F.lit("answer "), F.col("status"))
        counts = settle(
            call(batch),  # adds the column status
            {**azure, "createQueue": "true"},
            done=F.col("status") == 200,
            dead=DeadLetter(is_bad, queue="example-calls-dead", reason=reason),
            retry=Retry(F.lit(True), delay=backoff(first=30, longest=3600)),
        )
        print(f"batch {number}: {counts}")

    calls = spark.readStream.format("azqueue").options(**azure)
    calls = calls.option("queue", "example-calls").option("deleteOnCommit", "false")
    calls = calls.option("visibilityTimeout", "30 minutes")  # over twice a batch
    writer = calls.load().writeStream.trigger(availableNow=True)
    writer = writer.option("checkpointLocation", f"{folder}/checkpoint")
    return writer.foreachBatch(work).start()


# [end]


def main(spark: SparkSession, azure: dict[str, str], folder: Path) -> None:
    """Send calls with three kinds of answers, and show the one that is given up."""
    send(
        spark,
        azure,
        "example-calls",
        [f'{{"answer": {answer}}}' for answer in (200, 503, 400)],
    )
    start(spark, azure, folder).awaitTermination()
    print(*bodies_of(spark, azure, "example-calls-dead"), sep="\n")


if __name__ == "__main__":
    main(*from_command_line())
