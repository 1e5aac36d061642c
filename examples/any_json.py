"""JSON of any shape into a VARIANT, with limits. Unreadable bodies keep their reason.

python examples/any_json.py "<connection string>"
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery
from spark_azqueue import bounded_json

from surroundings import from_command_line, send


# [recipe]
def start(spark: SparkSession, azure: dict[str, str], folder: Path) -> StreamingQuery:
    """Write each report as a VARIANT; a body that is not JSON gets a reason."""
    text = bounded_json(F.col("body"), longest=20_000)  # bytes; 1 MiB without it
    reason = (
        F.when(F.octet_length("body") > 20_000, "longer than 20,000 bytes")
        .when(text.isNull(), "brackets that do not match, or over 64 levels")
        .when(F.col("report").isNull(), "not JSON")
    )
    messages = spark.readStream.format("azqueue").options(**azure)
    rows = messages.option("queue", "example-reports").load()
    rows = rows.withColumn("report", F.try_parse_json(text))
    rows = rows.select("message_id", "report", reason.alias("reason"), "body")
    writer = rows.writeStream.option("checkpointLocation", f"{folder}/checkpoint")
    return writer.trigger(availableNow=True).start(f"{folder}/reports")


# [end]


def main(spark: SparkSession, azure: dict[str, str], folder: Path) -> None:
    """Send reports of several shapes, and texts that are none, and show both."""
    bodies = [
        '{"sensor": 1, "value": 20.5}',
        '{"sensor": 2, "values": [20, 21], "place": {"room": "[A]"}}',
        "null",
        '{"sensor": 3, "value":',
        "no JSON",
        "[" * 9_000 + "]" * 9_000,
        f'"{"x" * 20_000}"',
    ]
    send(spark, azure, "example-reports", bodies)
    start(spark, azure, folder).awaitTermination()
    reports = spark.read.parquet(str(folder / "reports"))
    reports.where("reason IS NULL").selectExpr(
        "try_variant_get(report, '$.sensor', 'INT') AS sensor",
        "schema_of_variant(report) AS shape",
    ).orderBy("sensor").show(truncate=False)
    bad = reports.where("reason IS NOT NULL")
    bad.selectExpr("reason", "left(body, 25) AS body").orderBy("reason", "body").show(
        truncate=False
    )


if __name__ == "__main__":
    main(*from_command_line())
