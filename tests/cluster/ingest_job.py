"""An IngestJob on a cluster, that takes what is in a queue and ends.

`ingest_job.py <folder> <queue> hold`; MASTER, TEXT, CONF and the file `hold` as in `job.py`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import pandas as pd
from asked_session import session
from pyspark import TaskContext

from spark_azqueue import IngestJob

folder, queue = Path(sys.argv[1]), sys.argv[2]
spark = session()


def parsed(messages: pd.DataFrame) -> pd.DataFrame:
    """The numbers of bodies such as `m7`; raises for all others."""
    context = TaskContext.get()
    assert context
    (folder / f"holding-{context.partitionId()}-{context.attemptNumber()}").touch()
    while (folder / "hold").exists():
        time.sleep(0.05)
    return pd.DataFrame({"number": [int(body.removeprefix("m")) for body in messages["body"]]})


job = IngestJob(
    {
        "secret.connectionString": os.environ["TEXT"],
        "queue": queue,
        "maxMessagesPerTrigger": "1000",
        "messagesPerPartition": "250",
    },
    apply=parsed,
    returns="number BIGINT",
    folder=str(folder / "job"),
    into=str(folder / "table"),
)
result = job.drain(spark)
rows = spark.read.parquet(str(folder / "table")).collect()
print(
    json.dumps(
        {
            "finished": result.finished,
            "rows": len(rows),
            "ids": len({row.message_id for row in rows}),
            "numbers": len({row.number for row in rows if row.error is None}),
            "bad": sorted(row.body for row in rows if row.error is not None),
        }
    )
)
spark.stop()
