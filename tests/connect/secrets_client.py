"""A Spark Connect client that gives secrets as options, by the DataFrame API and by SQL.

`secrets_client.py <address> <folder> <queue>`; CREDENTIALS holds the options of each credential by
name, as JSON. Prints what became of each use as one line of JSON.
"""

import json
import os
import sys

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

address, folder, queue = sys.argv[1:]
credentials = json.loads(os.environ["CREDENTIALS"])
spark = SparkSession.builder.remote(address).getOrCreate()


def write(name, options):
    frame = spark.range(2).selectExpr("string(id) AS body")
    frame.write.format("azqueue").mode("append").options(**options).save()


def read(name, options):
    spark.read.format("azqueue").options(**options).load().limit(0).count()


def stream(name, options, **source):
    frame = spark.readStream.format("azqueue").options(**options, **source).load().select("body")
    writer = frame.writeStream.format("azqueue").options(**options)
    writer = writer.option("checkpointLocation", f"{folder}/checkpoint-{name}")
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(180), "the query did not end"


def executors(name, options):
    log = {"writeAheadLog": f"file:{folder}/log-{name}", "deleteAfter": "log"}
    stream(f"executors-{name}", options, leaseOn="executors", **log)


def view(name, options):
    text = ", ".join(f"`{option}` '{value}'" for option, value in options.items())
    spark.sql(f"CREATE TEMPORARY VIEW v_{name} USING azqueue OPTIONS ({text})")
    spark.sql(f"SELECT * FROM v_{name} LIMIT 0").collect()


def insert(name, options):
    text = ", ".join(f'{option} = "{value}"' for option, value in options.items())
    spark.sql("CREATE TABLE IF NOT EXISTS t (body STRING) USING azqueue")
    spark.sql(f"INSERT INTO t WITH ({text}) VALUES ('a')")


seen = {}
for name, options in credentials.items():
    uses = [write, read, view, insert]
    if name == "sas_in_string":  # one is enough: on Connect a stream takes 10 s to end
        uses += [stream, executors]
    for use in uses:
        try:
            use(name, {**options, "queue": queue})
            seen[f"{name} {use.__name__}"] = "done"
        except PySparkException as error:
            seen[f"{name} {use.__name__}"] = str(error)
spark.stop()
print(json.dumps(seen))
