"""A Spark Connect client that reads events.

`events_client.py <address> <file> <queue>`; the file holds bodies, as JSON, and the connection
string is in TEXT. Prints one line of JSON: for each body, in order, what its first event is and how
many there are; then an event that the sink put into the queue, as it was read back.
"""

import json
import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from spark_azqueue import blob_events, parsed_events

address, file, queue = sys.argv[1:]
bodies = json.loads(Path(file).read_text())
spark = SparkSession.builder.remote(address).getOrCreate()
frame = spark.createDataFrame(list(enumerate(bodies)), "number INT, body STRING")
seen = (
    blob_events(frame, trusted="shopdata/landing")
    .groupBy("number", "type", "event_schema", "change", "path", "reason")
    .count()
    .orderBy("number")
    .drop("number")
)
rows = [list(row) for row in seen.collect()]

# An event of our own.
options = {"secret.connectionString": os.environ["TEXT"], "queue": queue}
own = spark.sql("SELECT 'order-7' AS id, 'order' AS type, '/shop' AS source, '7' AS body")
sink = own.write.format("azqueue").mode("append").options(**options)
sink.option("messageFormat", "cloudevents").save()
peek = spark.read.format("azqueue").options(**options).load()
rows += [
    list(row) for row in parsed_events(peek).select("id", "source", "data", "reason").collect()
]
spark.stop()
print(json.dumps(rows))
