"""A Spark Connect client that has the package, and uses its functions.

`helpers_client.py <address> <folder> <queue> <dead letters>`; the connection string is in TEXT.
Prints one line of JSON: what became of each.
"""

import json
import os
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

from spark_azqueue import AzQueueListener, pack, read_new_files, run_until_done, split_apply, unpack

address, folder, queue, dead = sys.argv[1:]
azure = {"secret.connectionString": os.environ["TEXT"], "queue": queue}
spark = SparkSession.builder.remote(address).getOrCreate()
listener = AzQueueListener.attach(spark)


def settled(batch, number):
    """Run by the server's Python."""
    from pyspark.sql import functions as F  # noqa: N812

    from spark_azqueue import DeadLetter, Retry, settle

    body = F.col("body").cast("int")
    out = settle(
        batch, azure, done=body < 3, retry=Retry(body < 6, 600), dead=DeadLetter(body >= 6, dead)
    )
    with open(f"{folder}/writing", "w") as file:
        file.write(f"{out.done} {out.retry} {out.dead} {out.left}")
    os.rename(f"{folder}/writing", f"{folder}/settled")


def start():
    """A run to the end, whose messages the source deletes."""
    writer = spark.readStream.format("azqueue").options(**azure).load().writeStream.format("noop")
    writer = writer.queryName("orders").option("checkpointLocation", f"{folder}/checkpoint")
    return writer.trigger(availableNow=True).start()


run = run_until_done(start, listener=listener, restarts=0)
assert run.finished, run.error

seen = {}
seen["delivered"] = listener.totals("orders").counters.delivered
seen["rows"] = listener.as_dataframe(spark, "orders").count()
try:
    read_new_files(spark, azure, trusted="a/b", format="text", each=print, checkpoint=folder)
except ValueError as error:
    seen["files"] = str(error)
orders = spark.readStream.format("azqueue").options(**azure).option("deleteOnCommit", "false")
frame = spark.range(9).selectExpr("string(id) AS body")
frame.write.format("azqueue").mode("append").options(**azure).save()
writer = orders.load().writeStream.foreachBatch(settled)
query = writer.option("checkpointLocation", f"{folder}/settling").start()
while not (done := Path(f"{folder}/settled")).exists():
    assert query.isActive, query.exception()
    time.sleep(0.1)
query.stop()
seen["settled"] = done.read_text()


def halved(rows):
    """Fails on odd numbers."""
    if (rows["id"] % 2).any():
        raise ValueError("odd")
    return rows.assign(half=rows["id"] // 2)[["half"]]


split = split_apply(
    spark.range(10),
    halved,
    "half BIGINT",
    good=lambda rows: seen.update(good=[row.half for row in rows.collect()]),
    dead=lambda rows: seen.update(bad={row.error.partition(" (")[0] for row in rows.collect()}),
)
packs = azure | {"queue": f"{queue}-packs"}
sink = pack(spark.range(500)).write.format("azqueue").options(**packs, createQueue="true")
sink.mode("append").save()
stream = spark.readStream.format("azqueue").options(**packs).load()
stream = unpack(stream, "id BIGINT").writeStream.format("parquet").trigger(availableNow=True)
stream = stream.option("checkpointLocation", f"{folder}/unpacking").start(f"{folder}/unpacked")
stream.awaitTermination()
rows = spark.read.parquet(f"{folder}/unpacked")
seen["unpacked"] = [rows.count(), rows.select("id").distinct().count()]
seen["split"] = [split.good, split.dead]
seen["bad"] = sorted(seen["bad"])
print(json.dumps(seen), flush=True)
# Spark's client may wait for itself for ever if an event comes while the last listener is removed.
os._exit(0)
