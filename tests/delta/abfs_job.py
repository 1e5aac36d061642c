"""Files in a container of Azurite, read by Hadoop's own driver for abfs, as events name them.

    python abfs_job.py <folder> <connection string> <container> <host and port of the blobs>

Prints one line of JSON: for each batch, its rows; and what was set aside.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from spark_azqueue import read_new_files
from spark_azqueue.testing.azurite import ACCOUNT, ACCOUNT_KEY

folder, connection, container, endpoint = sys.argv[1:]
azure = {
    # Azurite is one host for all accounts, and has no hierarchical namespace and no TLS.
    "abfs.endpoint": endpoint,
    "always.use.https": "false",
    "account.hns.enabled": "false",
    "fns.account.service.type": "BLOB",
    "ingress.service.type": "BLOB",
    "networking.library": "JDK_HTTP_URL_CONNECTION",
    "ssl.channel.mode": "Default_JSSE",
    "account.auth.type": "SharedKey",
    f"account.key.{ACCOUNT}.dfs.core.windows.net": ACCOUNT_KEY,
    f"account.key.{ACCOUNT}.blob.core.windows.net": ACCOUNT_KEY,
}
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
jars = [str(jar) for jar in Path(os.environ["JARS"]).glob("*.jar")]
builder = builder.config("spark.jars", ",".join(jars))
for name, value in azure.items():
    builder = builder.config(f"spark.hadoop.fs.azure.{name}", value)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
batches: list[list[int]] = []


def each(rows: DataFrame, number: int) -> None:
    """Keep the rows of a batch."""
    batches.append(sorted(row.id for row in rows.collect()))


trusted = f"http://{endpoint}/{ACCOUNT}/{container}"
query = read_new_files(
    spark,
    {"secret.connectionString": connection, "queue": container},
    trusted=trusted,
    paths={trusted: f"abfs://{container}@{ACCOUNT}.dfs.core.windows.net"},
    format="json",
    schema="id INT",
    each=each,
    checkpoint=f"{folder}/checkpoint",
    set_aside_queue=f"{container}-bad",
    available_now=True,
)
query.awaitTermination()
bad = spark.read.format("azqueue").option("secret.connectionString", connection)
letters = [json.loads(row.body) for row in bad.option("queue", f"{container}-bad").load().collect()]
spark.stop()
print(json.dumps([batches, {each["path"]: each["reason"] for each in letters}]))
