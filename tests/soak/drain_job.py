"""The Spark program that `drain_run.py` kills: it drains the queue into a folder.

    python drain_job.py settings.json

It drains again each time that the one that watches has removed the result, until it is to stop.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from job import ExactSink, start_spark
from pyspark.sql.streaming import StreamingQuery

from spark_azqueue import DrainResult, drain

_LOOK_AGAIN_S = 0.05
_PARENT = os.getppid()


def run(settings: dict[str, Any]) -> int:
    """Drain the queue; return the exit status."""
    spark = start_spark(settings["scratch"])
    options = settings["options"]

    def start(name: str = "") -> StreamingQuery:
        sink = ExactSink(Path(settings["sink"] + name), settings["life"], settings["pause_s"])
        given = options if not name else options | {"queue": name, "writeAheadLog": ""}
        given = {key: value for key, value in given.items() if value}
        frame = spark.readStream.format("azqueue").options(**given).load()
        writer = frame.writeStream.foreachBatch(sink.append)
        writer = writer.option("checkpointLocation", settings["checkpoint"] + name)
        return writer.trigger(availableNow=True).start()

    if warm := settings["warm_up"]:
        Path(settings["sink"] + warm).mkdir()
        start(warm).awaitTermination()
    Path(settings["starting_file"]).touch()
    said, stop = Path(settings["result"]), Path(settings["stop_file"])
    while not stop.exists():
        called, began = time.time(), time.monotonic()
        if settings["plain"]:
            start().awaitTermination()
            result = DrainResult(True, 0)
        else:
            result = drain(start, options, **settings["limits"])
        took_s = time.monotonic() - began
        figures = dataclasses.asdict(dataclasses.replace(result, error=None))
        figures |= {"error": str(result.error)[:400], "called": called, "took_s": took_s}
        aside = said.with_suffix(".aside")
        aside.write_text(json.dumps(figures), encoding="utf-8")
        aside.rename(said)
        while said.exists() and not stop.exists():
            if os.getppid() != _PARENT:
                os._exit(1)
            time.sleep(_LOOK_AGAIN_S)
    return 0


if __name__ == "__main__":
    sys.exit(run(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))))
