"""A quiet Spark in this machine's memory, and gone without trace at the end."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.sql import SparkSession

_STOP_AT_MOST_S = 20
_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For a Java process that lives for a minute: it spends less time on compiling itself."""


@contextlib.contextmanager
def local_spark(folder: Path) -> Iterator[Future[SparkSession]]:
    """Start Spark in the background, and stop it on the way out together with its Java process.

    folder: for Spark's own files. An error of Java becomes a RuntimeError with its text.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("spark-azqueue demo")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.extraJavaOptions", _QUICK)
        .config("spark.local.dir", str(folder))
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.log.level", "ERROR")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        # To compile Java for a plan takes longer than these few rows save by it.
        .config("spark.sql.codegen.wholeStage", "false")
        .config("spark.sql.streaming.numRecentProgressUpdates", "16")
    )
    # In the main thread Spark would put its own handler for Ctrl-C in place of ours.
    thread = ThreadPoolExecutor(1, "start Spark")
    starting = thread.submit(builder.getOrCreate)
    try:
        yield starting
    except Py4JJavaError as error:
        # Java is asked for its text, and Java is about to end.
        raise RuntimeError(f"{error.java_exception.toString()}\n{error}") from None
    finally:
        thread.shutdown()
        if not starting.exception():
            _stop(starting.result())


def _stop(spark: SparkSession) -> None:
    gateway = SparkContext._gateway
    spark.stop()
    if gateway is None:
        return
    # Java would end by itself when this process ends, a little later: wait for it.
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(_STOP_AT_MOST_S)
