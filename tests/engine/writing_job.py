"""A batch write of one task in a process of its own, to be killed by tests.

Each body is `<row>:<attempt>`: which attempt of the task has sent it.
"""

from __future__ import annotations

import os
import sys

from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

spark = (
    SparkSession.builder.master(os.environ["MASTER"])
    .config("spark.ui.enabled", "false")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("ERROR")


@udf("string")
def tagged(row: int) -> str:
    context = TaskContext.get()
    assert context
    return f"{row}:{context.attemptNumber()}"


(
    spark.range(600)
    .coalesce(1)
    .select(tagged("id").alias("body"))
    .write.format("azqueue")
    .mode("append")
    .option("secret.connectionString", os.environ["CONNECTION_STRING"])
    .option("queue", sys.argv[2])
    .save()
)
spark.stop()
