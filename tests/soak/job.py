"""The Spark program that is killed: reads the queue, and appends every batch to a folder.

    python job.py settings.json

A file for each (life, micro-batch), written aside, synced and renamed: what is there is whole, and
says which life of the program wrote it. With a write-ahead log there is one file for each
micro-batch: a batch that comes again is compared with it, and skipped. Ends with status 0 when
asked to stop (by a file), 1 when the query fails, and at once when its parent is gone.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from decoding import NOT_DECODED
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.functions import coalesce, concat, lit
from pyspark.sql.streaming import StreamingQuery

_LOOK_AGAIN_S = 0.1
_PARENT = os.getppid()


class Sink:
    """An append-only folder that survives kill -9 at any moment, and repeats what comes again."""

    def __init__(self, folder: Path, life: int, longest_pause_s: float) -> None:
        self._folder = folder
        self._life = life
        self._longest_pause_s = longest_pause_s
        self._random = random.Random(life)

    def append(self, batch: DataFrame, number: int) -> None:
        """Write the rows of one micro-batch, with some work before and after."""
        rows = batch.select("message_id", body(batch), "dequeue_count", "pop_receipt").collect()
        self._work()
        text = json.dumps({"life": self._life, "batch": number, "rows": [list(r) for r in rows]})
        aside = self._folder / f"{self._life:04}-{number:06}-{os.getpid()}.aside"
        with aside.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        self._publish(aside, number)
        self._work()

    def _publish(self, aside: Path, number: int) -> None:
        aside.rename(self._folder / f"{self._life:04}-{number:06}.json")

    def _work(self) -> None:
        """Take no time at all as often as up to the longest pause."""
        time.sleep(max(0.0, self._random.uniform(-1, 1)) * self._longest_pause_s)


class ExactSink(Sink):
    """The same, and it skips the numbers of batches that it has."""

    def _publish(self, aside: Path, number: int) -> None:
        try:
            os.link(aside, self._folder / f"{number:06}.json")
        except FileExistsError:
            had = json.loads((self._folder / f"{number:06}.json").read_text(encoding="utf-8"))
            rows = json.loads(aside.read_text(encoding="utf-8"))["rows"]
            if [*map(kept, had["rows"])] != [*map(kept, rows)]:
                aside.rename(aside.with_suffix(".differs"))
                return
        aside.unlink()


def kept(row: list[str]) -> tuple[str, str]:
    """What of a row is the same in each life: its id, and its body or that it has none."""
    return row[0], NOT_DECODED if row[1].startswith(NOT_DECODED) else row[1]


def body(rows: DataFrame) -> Column:
    """The body as text; of a message that did not decode, a mark, and its text if a column has
    that."""
    text = rows["body"].cast("string")
    mark = lit(NOT_DECODED)
    is_shown = "_corrupt_record" in rows.columns
    return coalesce(text, concat(mark, "_corrupt_record") if is_shown else mark).alias("body")


def start_spark(scratch: str) -> SparkSession:
    """A small Spark that starts quickly and keeps its files in `scratch`."""
    java = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData"
    return (
        SparkSession.builder.master("local[2]")
        .appName("spark-azqueue soak")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.extraJavaOptions", f"{java} -Djava.io.tmpdir={scratch}")
        .config("spark.driver.memory", "1g")
        .config("spark.local.dir", scratch)
        .config("spark.log.level", "ERROR")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", f"{scratch}/warehouse")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )


def run(settings: dict[str, Any]) -> int:
    """Run the query until it is to stop, or fails; return the exit status."""
    spark = start_spark(settings["scratch"])
    kind = ExactSink if settings["exact"] else Sink
    sink = kind(Path(settings["sink"]), settings["life"], settings["pause_s"])
    frame = spark.readStream.format("azqueue").options(**settings["options"]).load()
    Path(settings["starting_file"]).touch()
    query = (
        frame.writeStream.foreachBatch(sink.append)
        .option("checkpointLocation", settings["checkpoint"])
        .start()
    )
    return wait(spark, [query], Path(settings["stop_file"]))


def wait(spark: SparkSession, queries: list[StreamingQuery], stop: Path) -> int:
    """Wait until the queries are to stop (this file appears), or one fails: the exit status."""
    try:
        while not any(query.awaitTermination(_LOOK_AGAIN_S) for query in queries):
            if stop.exists():
                for query in queries:
                    query.stop()
                spark.stop()
                return 0
            if os.getppid() != _PARENT:
                os._exit(1)  # Java and the other processes end as their connections to us close
    except Exception:  # noqa: BLE001 (whatever it is: the log gets it, whoever started us the status)
        traceback.print_exc()
    return 1


if __name__ == "__main__":
    sys.exit(run(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))))
