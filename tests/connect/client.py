"""A Spark Connect client: run by a Python that has pyspark-client, and nothing of ours.

`client.py <address> <folder> <queue> <other queue>`; the connection string is in TEXT. Prints what
it saw as one line of JSON.
"""

import importlib.util
import json
import os
import sys

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

address, folder, queue, other = sys.argv[1:]
options = {"secret.connectionString": os.environ["TEXT"]}
seen = {"ours": importlib.util.find_spec("spark_azqueue") is not None}

spark = SparkSession.builder.remote(address).getOrCreate()

# The batch sink, and a peek.
frame = spark.range(20).selectExpr("concat('m', id) AS body")
frame.write.format("azqueue").mode("append").options(**options).option("queue", queue).save()
peek = spark.read.format("azqueue").options(**options).option("queue", queue).load()
seen["peeked"] = peek.count()
seen["columns"] = peek.columns


def run(writer, name):
    query = writer.option("checkpointLocation", f"{folder}/{name}").trigger(availableNow=True)
    query = query.start()
    assert query.awaitTermination(180), "the query did not end"


# A write that comes twice, by transactions.
later = spark.range(20, 22).selectExpr("concat('m', id) AS body")
named = {"transactionLog": f"file:{folder}/named", "txnAppId": "client", "txnVersion": "1"}
for _ in range(2):
    again = later.write.format("azqueue").mode("append").options(**options, **named)
    again.option("queue", queue).save()

# A stream from one queue into another, on the server alone, by transactions.
logged = {"writeAheadLog": f"file:{folder}/wal", "queue": queue}
stream = spark.readStream.format("azqueue").options(**options, **logged).load()
sink = stream.select("body").writeStream.format("azqueue").options(**options)
run(sink.options(queue=other, transactionLog=f"file:{folder}/transactions"), "first")


# A stream whose tasks lease, and whose batches are worked on by a function of the client, which the
# server runs.
def take(batch, number):
    batch.select("body").write.mode("append").json(f"{folder}/rows")


leased = {"leaseOn": "executors", "deleteAfter": "log", "writeAheadLog": f"file:{folder}/slots"}
answers = spark.readStream.format("azqueue").options(**options, **leased, queue=other).load()
run(answers.writeStream.foreachBatch(take), "second")
seen["bodies"] = sorted(row.body for row in spark.read.json(f"{folder}/rows").collect())

# An error of ours arrives with its words.
try:
    spark.read.format("azqueue").options(**options).option("quue", queue).load().schema  # noqa: B018
except PySparkException as error:
    seen["error"] = str(error)

spark.stop()
print(json.dumps(seen))
