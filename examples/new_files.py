"""Files as they arrive: each is read once, and unreadable files are quarantined.

python examples/new_files.py "<connection string>"

The files are in a folder of this machine, so it needs no container; the events are
what Event Grid would send.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery
from spark_azqueue import read_new_files

from surroundings import bodies_of, from_command_line, send


# [recipe]
def start(
    spark: SparkSession, azure: dict[str, str], folder: Path, **without_azure: Any
) -> StreamingQuery:
    """Read the new files of `shopdata/landing` that the queue announces."""

    def take(orders: DataFrame, number: int) -> None:
        orders.write.mode("overwrite").parquet(f"{folder}/orders/batch={number}")

    return read_new_files(
        spark,
        {**azure, "queue": "example-files"},
        trusted="shopdata/landing",  # no file of any other container is opened
        format="json",
        schema="order_id BIGINT, quantity INT",
        each=take,
        checkpoint=f"{folder}/checkpoint",
        set_aside_queue="example-files-bad",  # unreadable files, with the reason
        **without_azure,
    )


# [end]


def event(name: str) -> str:
    """What Event Grid says of a new blob."""
    url = f"https://shopdata.blob.core.windows.net/landing/{quote(name)}"
    return json.dumps(
        {
            "id": name,
            "topic": "shopdata",
            "subject": f"/blobServices/default/containers/landing/blobs/{name}",
            "eventType": "Microsoft.Storage.BlobCreated",
            "eventTime": "2026-11-20T18:41:00Z",
            "data": {"api": "PutBlob", "url": url, "eTag": "0x1"},
        }
    )


def main(spark: SparkSession, azure: dict[str, str], folder: Path) -> None:
    """One file from before, two announced, one broken, and one that is gone."""
    landing = folder / "landing"
    landing.mkdir()
    # On Azure the files are in abfss://landing@shopdata.dfs.…, and the query runs on.
    local = {"paths": {"shopdata/landing": str(landing)}, "available_now": True}
    (landing / "0.json").write_text('{"order_id": 0, "quantity": 1}\n')
    send(spark, azure, "example-files", [event("0.json")])  # and it is listed, too
    start(spark, azure, folder, **local).awaitTermination()

    (landing / "1 of 2.json").write_text('{"order_id": 1, "quantity": 2}\n')
    (landing / "2 of 2.json").write_text('{"order_id": 2, "quantity": 3}\n')
    (landing / "broken.json").write_text('{"order_id": 3, "quan')
    names = ["1 of 2.json", "2 of 2.json", "1 of 2.json", "broken.json", "gone.json"]
    send(spark, azure, "example-files", map(event, names))
    start(spark, azure, folder, **local).awaitTermination()

    orders = spark.read.parquet(str(folder / "orders"))
    orders.select("order_id", "quantity").orderBy("order_id").show()
    for text in bodies_of(spark, azure, "example-files-bad"):
        envelope = json.loads(text)
        print(envelope["path"], "|", envelope["reason"][:60])


if __name__ == "__main__":
    main(*from_command_line())
