"""IngestJobs in a process of their own, to be killed by tests.

QUERIES is a JSON list of {"folder", "queue", "options", "format", "way"}. Each job has its
checkpoint and its log in its folder, and appends to the table `output` there. way: `run`, or
`drain` again and again. The body of every message passes through a Python worker, which waits while
a file `hold` stands in the job's folder. The process ends in good order when a file `stop` appears
in its own folder, and leaves in the folder of each job `rows.json`: what the table has; and
`results.json`: what each call returned.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from held_rows import passing, session
from pyspark.sql import DataFrame

from spark_azqueue import IngestJob
from spark_azqueue.running import ingest_rows

own = Path(sys.argv[1])
asked: list[dict[str, Any]] = json.loads(os.environ["QUERIES"])
master = os.environ.get("SPARK_MASTER") or f"local[{len(asked) + 1},4]"
spark = session(master, {})
spark.sparkContext.setLogLevel("ERROR")


class Stop(threading.Event):
    """Set when the file `stop` appears."""

    def is_set(self) -> bool:
        return (own / "stop").exists()

    def wait(self, timeout: float | None = None) -> bool:
        until = time.monotonic() + (timeout or 0)
        while not self.is_set() and time.monotonic() < until:
            time.sleep(0.1)
        return self.is_set()


of = ingest_rows.TableRows.of


def held(self: ingest_rows.TableRows, messages: DataFrame) -> DataFrame:
    """The rows, behind what holds them."""
    options = jobs[threading.current_thread().name]
    return of(self, messages.mapInArrow(passing(Path(options["folder"])), messages.schema))


ingest_rows.TableRows.of = held  # type: ignore[method-assign]
jobs = {each["queue"]: each for each in asked}
results: dict[str, list[str]] = {each["queue"]: [] for each in asked}


def work(given: dict[str, Any]) -> None:
    """Run one job."""
    folder = given["folder"]
    account = {"secret.connectionString": os.environ["CONNECTION_STRING"], "queue": given["queue"]}
    job = IngestJob(
        {**account, **given["options"]},
        "order_id BIGINT",
        folder=folder,
        into=f"{folder}/output",
        format=given["format"],
        every="1 second",
    )
    stop = Stop()
    while not stop.is_set():
        result = getattr(job, given["way"])(spark, stop=stop)
        results[given["queue"]].append(repr(result))


threads = [threading.Thread(target=work, args=(each,), name=each["queue"]) for each in asked]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
for each in asked:
    folder = Path(each["folder"])
    rows = spark.read.format(each["format"]).load(str(folder / "output"))
    found = [
        [row.message_id, row.message_row, row.order_id, row.error, row.body]
        for row in rows.collect()
    ]
    (folder / "rows.json").write_text(json.dumps(found))
    (folder / "results.json").write_text(json.dumps(results[each["queue"]]))
spark.stop()
