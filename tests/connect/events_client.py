"""A Spark Connect client that reads events.

`events_client.py <address> <file>`; the file holds bodies, as JSON. Prints for each body, in order,
what its first event is and how many there are, as one line of JSON.
"""

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from spark_azqueue.events import blob_events

address, file = sys.argv[1:]
bodies = json.loads(Path(file).read_text())
spark = SparkSession.builder.remote(address).getOrCreate()
frame = spark.createDataFrame(list(enumerate(bodies)), "number INT, body STRING")
seen = (
    blob_events(frame)
    .groupBy("number", "type", "event_schema", "change", "path", "reason")
    .count()
    .orderBy("number")
    .drop("number")
)
rows = [list(row) for row in seen.collect()]
spark.stop()
print(json.dumps(rows))
