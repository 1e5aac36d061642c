"""Writes each line of a folder's files into a queue by transactions, a file in each batch.

`copied_job.py <folder> <checkpoint>`: in a process of its own, beside another query with the same
id. Options of the sink are in SINK (JSON). Prints the error that ended it, if one did; ends in good
order when a file `stop` appears.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

folder, checkpoint = Path(sys.argv[1]), sys.argv[2]
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("OFF")
lines = spark.readStream.option("maxFilesPerTrigger", 1).text(f"{folder}/lines")
query = (
    lines.selectExpr("value AS body")
    .writeStream.format("azqueue")
    .options(**json.loads(os.environ["SINK"]))
    .option("checkpointLocation", checkpoint)
    .start()
)
(folder / "running").touch()
try:
    while not query.awaitTermination(0.1):
        if (folder / "stop").exists():
            query.stop()
except StreamingQueryException as error:
    print(error)
spark.stop()
