"""Run jobs that show something in every panel of the dashboard, and draw it.

    python tools/dashboard_run.py [--minutes 8]         or: make dashboard-picture

Starts the fake service, Prometheus, the job of examples/compose with poison among its orders, and a
chain of two queries with write-ahead logs and transactions. Halfway it kills the first job and,
two minutes later, starts it again; a third job is killed for good, and a fourth fails in its first
batch again and again. Needs `prometheus` on the path.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from spark_azqueue.testing import FakeQueueService, Fault

REPOSITORY = Path(__file__).resolve().parent.parent
JOB, CHAIN, GONE, FAILS, PROMETHEUS = 29464, 29465, 29466, 29467, 29090
"""Ports on this machine."""

CONFIG = f"""
global: {{scrape_interval: 5s, evaluation_interval: 5s}}
rule_files: [{REPOSITORY / "conf" / "alerts.rules.yml"}]
scrape_configs:
  - job_name: spark
    static_configs:
      - targets: ["127.0.0.1:{JOB}", "127.0.0.1:{CHAIN}", "127.0.0.1:{GONE}", "127.0.0.1:{FAILS}"]
"""


def chain(folder: str, port: str, name: str) -> None:
    """A job: <name>s from queue to queue by transactions, and on into files, with logs of both."""
    import prometheus_client
    from pyspark.sql import DataFrame, SparkSession

    from spark_azqueue import AzQueueListener, export_to_prometheus, queue_watch, transaction_reader

    spark = SparkSession.builder.master("local[1]").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    sink = {"queue": f"{name}-done", "createQueue": "true"}
    sink["transactionLog"] = f"file:{folder}/{name}-transactions"
    watch = queue_watch({name: {"queue": f"{name}s"}})
    export_to_prometheus(
        AzQueueListener.attach(spark, transactions=transaction_reader(sink), watch=watch)
    )
    prometheus_client.start_http_server(int(port), addr="127.0.0.1")

    def read(queue: str, **options: str) -> DataFrame:
        log = {"writeAheadLog": f"file:{folder}/{queue}-log", "createQueue": "true"}
        frame = spark.readStream.format("azqueue").options(queue=queue, **log, **options)
        return frame.load().select("body")

    first = read(f"{name}s").writeStream.format("azqueue").options(**sink)
    second = read(f"{name}-done", isolationLevel="readCommitted").writeStream.format("parquet")
    second = second.option("path", f"{folder}/{name}-files")
    for query, called in ((first, name), (second, f"{name}-files")):
        query = query.option("checkpointLocation", f"{folder}/{called}-checkpoint")
        query.queryName(called).trigger(processingTime="5 seconds").start()
    spark.streams.awaitAnyTermination()


def fails(folder: str, port: str) -> None:
    """A job whose query fails in its first batch, again and again: its queue is watched."""
    import prometheus_client
    from pyspark.sql import DataFrame, SparkSession

    from spark_azqueue import AzQueueListener, export_to_prometheus, queue_watch, run_until_done

    options = {"queue": "refunds", "poisonQueue": "refunds-poison", "maxDequeueCount": "99"}
    options["createQueue"] = "true"
    spark = SparkSession.builder.master("local[1]").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    export_to_prometheus(AzQueueListener.attach(spark, watch=queue_watch({"refunds": options})))
    prometheus_client.start_http_server(int(port), addr="127.0.0.1")

    def refuse(batch: DataFrame, number: int) -> None:
        raise ConnectionError("the target is down")

    def start() -> object:
        stream = spark.readStream.format("azqueue").options(**options).load().writeStream
        stream = stream.option("checkpointLocation", f"{folder}/refunds-checkpoint")
        return stream.queryName("refunds").foreachBatch(refuse).start()

    run_until_done(start, longest_wait=20, restarts=1_000)


def feed(service: FakeQueueService, over: threading.Event) -> None:
    """Messages, a few of which are poison, in a wave of four minutes."""
    for number in range(10**9):
        if over.wait(0.5):
            return
        for _ in range(2 if number % 480 < 240 else 8):
            service.put("invoices", f'{{"invoice": {number}}}')
        if number in (200, 900):
            service.put("orders", "no order")
        if number % 10 == 0:
            service.put("refunds", f'{{"refund": {number}}}', ttl=7_200)
        if number == 60:
            service.put("audits", "{}")


def main() -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(description="Run jobs, and draw the dashboard of them.")
    parser.add_argument("--minutes", type=float, default=8, help="how long (%(default)s)")
    parser.add_argument(
        "--failing", metavar="FILE", help="also draw the query that fails alone, into this file"
    )
    arguments = parser.parse_args()
    minutes, failing = arguments.minutes, arguments.failing
    prometheus = shutil.which("prometheus")
    if prometheus is None:
        print("prometheus is not on the path (Debian: apt install prometheus)", file=sys.stderr)
        return 1
    folder = tempfile.mkdtemp(prefix="azqueue-dashboard-")
    config = Path(folder, "prometheus.yml")
    config.write_text(CONFIG, encoding="utf-8")
    running: list[subprocess.Popen[bytes]] = []

    def start(*command: str, port: int = 0) -> subprocess.Popen[bytes]:
        account = {"AZURE_STORAGE_CONNECTION_STRING": service.connection_string}
        more = {
            "DATA": folder,
            "METRICS_PORT": str(port),
            "BAD_SHARE": "0",
            "PYSPARK_PYTHON": sys.executable,
        }
        # A group of its own: Spark's Java ends with it.
        job = subprocess.Popen(command, env=os.environ | account | more, start_new_session=True)
        running.append(job)
        return job

    def kill(job: subprocess.Popen[bytes]) -> None:
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()
        running.remove(job)

    over = threading.Event()
    with FakeQueueService() as service:
        for queue in ("orders", "invoices", "audits", "refunds", "refunds-poison"):
            service.create_queue(queue)
        service.put("refunds-poison", "of last week")
        service.faults.add(Fault("delete", "busy_503", every=40))
        threading.Thread(target=feed, args=(service, over), daemon=True).start()
        try:
            start(
                *(prometheus, f"--config.file={config}", f"--storage.tsdb.path={folder}/tsdb"),
                *(f"--web.listen-address=127.0.0.1:{PROMETHEUS}", "--log.level=error"),
            )
            me = (sys.executable, __file__, "chain", folder)
            stream = str(REPOSITORY / "examples" / "compose" / "stream.py")
            start(*me, str(CHAIN), "invoice")
            start(sys.executable, __file__, "fails", folder, str(FAILS))
            gone = start(*me, str(GONE), "audit")
            job = start(sys.executable, stream, port=JOB)
            time.sleep(20 * minutes)
            kill(gone)
            time.sleep(10 * minutes)
            kill(job)
            time.sleep(min(120, 10 * minutes))
            start(sys.executable, stream, port=JOB)
            time.sleep(max(10, 30 * minutes - 120))
            picture = str(REPOSITORY / "tools" / "dashboard_picture.py")
            url = f"http://127.0.0.1:{PROMETHEUS}"
            draw = [sys.executable, picture, url, "--minutes", str(minutes)]
            if failing:
                subprocess.call([*draw, "--query", "refunds", "--to", failing])
            return subprocess.call(draw)
        finally:
            over.set()
            for each in list(running):
                kill(each)
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["chain"]:
        chain(*sys.argv[2:])
    elif sys.argv[1:2] == ["fails"]:
        fails(*sys.argv[2:])
    else:
        sys.exit(main())
