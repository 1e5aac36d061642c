"""The examples of the pages do what the pages say, on real Spark."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_azqueue.commands.command_line import main
from spark_azqueue.testing import FakeQueueService

from .test_stream import PATIENCE_S

REPOSITORY = Path(__file__).resolve().parents[2]


def examples(page: str, *, begin: str = "", end: str = "") -> list[str]:
    """The Python blocks of a page, between two texts of it."""
    text = (REPOSITORY / page).read_text(encoding="utf-8")
    text = text[text.index(begin) :] if begin else text
    text = text[: text.index(end)] if end else text
    return re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def local(code: str, fake: FakeQueueService, folder: Path) -> str:
    """The example with an account and folders of this test."""
    code = re.sub(
        r'"DefaultEndpointsProtocol=https;AccountName=…"', repr(fake.connection_string), code
    )
    return re.sub(r'"/(data|checkpoints)/', f'"{folder}/\\1/', code)


def test_the_quickstart_pasted_block_by_block(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-i", "-W", "ignore"],
        input="\n".join(examples("docs/quickstart.md")),
        cwd=tmp_path,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )

    assert "Traceback" not in done.stderr, done.stderr[-3000:]
    shown = [line.removeprefix(">>> ").replace(" ", "") for line in done.stdout.split("\n")]
    printed = "\n".join(line.lstrip(">.") for line in shown)
    assert "|300|897|" in printed, done.stdout
    assert "|itisneitherapacknoraJSONobject|noorder|" in printed, done.stdout
    assert printed.rstrip().endswith("(350,0)"), done.stdout


def test_the_ten_lines_of_the_readme(tmp_path: Path) -> None:
    """As pasted, in an empty folder: they make their own service, and print what the page says."""
    ten, _ = examples("README.md")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", ten],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )

    assert done.returncode == 0, done.stderr[-3000:]
    printed = done.stdout.strip().splitlines()[-1]
    assert printed == "300 rows; 0 left"
    assert f"It prints `{printed}`." in (REPOSITORY / "README.md").read_text(encoding="utf-8")


def test_the_first_production_job(
    spark: SparkSession, fake: FakeQueueService, tmp_path: Path
) -> None:
    """With the account and folders of this test, until it is stopped; bad rows are sent again."""
    job, again = examples("docs/production.md")
    access = '"accountUrl": "https://shopqueues.queue.core.windows.net",\n'
    access += '    "credential": "managedIdentity",'
    assert access in job
    job = local(job, fake, tmp_path)
    job = job.replace(access, f'"secret.connectionString": {fake.connection_string!r},')
    job = job.replace("folder=", 'every="1 second", folder=')
    job = job.replace("SparkSession.builder.getOrCreate()", "spark")
    fake.create_queue("orders")
    fake.put_many("orders", [f'{{"order_id": {number}}}' for number in range(50)])
    fake.put_many("orders", ["no JSON", '{"order_id": "seven"}', '{"sum": 1}'])
    names: dict[str, Any] = {"spark": spark}

    def stop() -> None:
        fake.wait_until(lambda: fake.count("orders") == 0, PATIENCE_S)
        for query in spark.streams.active:
            query.stop()

    stopping = threading.Thread(target=stop)
    stopping.start()
    try:
        exec(job, names)
    finally:
        stopping.join(PATIENCE_S)

    assert names["result"].finished
    rows = spark.read.parquet(f"{tmp_path}/data/orders").collect()
    assert sorted(row.order_id for row in rows if row.error is None) == list(range(50))
    bad = {row.body for row in rows if row.error is not None}
    assert bad == {"no JSON", '{"order_id": "seven"}', '{"sum": 1}'}
    exec(local(again, fake, tmp_path), names)
    assert {view.text for view in fake.messages("orders")} == bad


def test_redrive(spark: SparkSession, fake: FakeQueueService, tmp_path: Path) -> None:
    for name in ("orders", "orders-poison"):
        fake.create_queue(name)
    fake.put_many("orders-poison", ["eyJhIjoxfQ==", "plain"])
    azure = {"secret.connectionString": fake.connection_string}
    (code,) = examples("docs/poison.md", begin="## Redrive")

    exec(local(code, fake, tmp_path), {"spark": spark, "azure": azure})
    (query,) = spark.streams.active or [None]
    try:
        fake.wait_until(lambda: fake.count("orders") == 2, PATIENCE_S)
        assert query is None or query.awaitTermination(PATIENCE_S)
    finally:
        if query:
            query.stop()

    assert sorted(view.text for view in fake.messages("orders")) == ["eyJhIjoxfQ==", "plain"]


def test_transactions(spark: SparkSession, fake: FakeQueueService, tmp_path: Path) -> None:
    """A stream, a `df.write` and a `foreachBatch`, each done again, and the reader behind them."""
    for name in ("orders", "invoices", "audit"):
        fake.create_queue(name)
    fake.put_many("orders", [f"order {number}" for number in range(10)])
    names: dict[str, Any] = {
        "spark": spark,
        "azure": {"secret.connectionString": fake.connection_string},
    }
    blocks = [
        local(code, fake, tmp_path).replace('"blob:logs/', f'"file:{tmp_path}/logs/')
        for code in [*examples("docs/transactions.md"), BOTH, INVOICES]
    ]
    stream, write, both, read = blocks
    (tmp_path / "logs").mkdir()

    for _ in range(2):
        exec(stream, names)
        try:
            fake.wait_until(lambda: fake.count("orders") == 0, PATIENCE_S)
        finally:
            names["query"].stop()
    for _ in range(2):
        exec(write, names)
    exec(both, names)
    for _ in range(2):
        names["both"](names["invoices"], 0)

    orders = [f"order {number}" for number in range(10)]
    sent = sorted([*orders, "first", "second", "first", "second"])
    assert sorted(view.text for view in fake.messages("invoices")) == sent
    assert sorted(view.text for view in fake.messages("audit")) == ["first", "second"]
    assert (fake.visible("invoices"), fake.visible("audit")) == (14, 2)
    exec(read, names)
    invoices = names["invoices"].writeStream.format("memory").queryName("booked")
    invoices.trigger(availableNow=True).start().awaitTermination(PATIENCE_S)
    assert spark.table("booked").count() == 14


def test_a_batch_job_takes_messages(
    spark: SparkSession, fake: FakeQueueService, tmp_path: Path
) -> None:
    """All that is there, more than a peek gives; then so many of them at most, as the page says."""
    code = local(BATCH_JOB, fake, tmp_path)
    names: dict[str, Any] = {
        "spark": spark,
        "azure": {"secret.connectionString": fake.connection_string},
    }
    fake.create_queue("orders")

    def taken(code: str) -> list[str]:
        exec(code, names)
        assert names["query"].exception() is None
        return sorted(row.body for row in names["new"].collect())

    first = sorted(f"order {number}" for number in range(100))
    fake.put_many("orders", first)
    assert taken(code) == first
    assert fake.count("orders") == 0

    second = sorted(f"more {number}" for number in range(100))
    fake.put_many("orders", second)
    bounded = code.replace("availableNow=True", "once=True").replace(
        ".load()", '.option("maxMessagesPerTrigger", "40").load()'
    )
    found = taken(bounded)
    assert len(found) == 140
    assert fake.visible("orders") == 60, "the others are still there for anybody"
    assert len(set(taken(bounded))) == 180
    assert fake.count("orders") - fake.visible("orders") <= 40, "those of the run before are gone"
    assert taken(code) == sorted([*first, *second])
    assert fake.count("orders") == 0


def test_one_batch_to_two_outputs(spark: SparkSession, fake: FakeQueueService) -> None:
    fake.create_queue("next")
    names: dict[str, Any] = {"azure": {"secret.connectionString": fake.connection_string}}
    (code,) = examples("docs/delivery.md", begin="## Two queries on one queue")
    exec(code, names)
    batch = spark.createDataFrame([("1", "a"), ("2", "b")], "message_id string, body string")

    try:
        names["both"](batch, 0)
        rows = spark.table("orders").collect()
    finally:
        spark.sql("DROP TABLE IF EXISTS orders")

    assert sorted(row.body for row in rows) == ["a", "b"]
    assert sorted(view.text for view in fake.messages("next")) == ["a", "b"]


def test_bad_rows_are_quarantined_and_sent_again(
    spark: SparkSession, fake: FakeQueueService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies = {
        '{"order_id": 7, "quantity": 1}': None,
        "": "not one JSON value",
        "order 7": "not one JSON value",
        '{"order_id": 7} {"order_id": 8}': "not one JSON value",
        "[1]": "not of the schema",
        "null": "not of the schema",
        '{"order_id": "seven"}': "not of the schema",
        '{"quantity": 1}': "no order_id",
    }
    fake.create_queue("orders")
    fake.put_many("orders", list(bodies))
    names: dict[str, Any] = {
        "spark": spark,
        "azure": {"secret.connectionString": fake.connection_string},
    }
    check, route, split, _ = examples("docs/bad-rows.md")

    exec(local(check, fake, tmp_path), names)
    exec(local(route, fake, tmp_path), names)
    try:
        fake.wait_until(lambda: fake.count("orders") == 0, PATIENCE_S)
    finally:
        names["query"].stop()
    (good,) = spark.read.parquet(f"{tmp_path}/data/orders").collect()
    bad = [json.loads(view.text) for view in fake.messages("orders-poison")]

    assert (good.body, good.order_id, good.quantity) == (next(iter(bodies)), 7, 1)
    assert {row["body"]: row["reason"] for row in bad} == dict([*bodies.items()][1:])

    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", fake.connection_string)
    assert main(["redrive", "orders-poison", "--execute"]) == 0
    assert fake.count("orders-poison") == 0
    assert sorted(view.text for view in fake.messages("orders")) == sorted([*bodies][1:])

    exec(local(split, fake, tmp_path), names)
    names["take"](spark.createDataFrame([("1", "orders", "{}")], SOURCE), 0)
    (letter,) = (json.loads(view.text) for view in fake.messages("orders-poison"))
    assert letter["reason"].startswith("KeyError: 'order_id'")


SOURCE = "message_id STRING, queue STRING, body STRING"


def test_what_notices_a_bad_body(spark: SparkSession) -> None:
    """The rows of the page's table: `order_id`, `_corrupt`, the reason, and if a key is twice."""
    table = {
        "order 7": (None, "order 7", "not one JSON value", None),
        '{"order_id": 7': (None, '{"order_id": 7', "not one JSON value", None),
        "[1]": (None, "[1]", "not of the schema", None),
        '{"order_id": "seven"}': (None, '{"order_id": "seven"}', "not of the schema", False),
        "": (None, None, "not one JSON value", None),
        '{"quantity": 1}': (None, None, "no order_id", False),
        '{"order_id": 7} {"order_id": 8}': (7, None, "not one JSON value", False),
        '{"order_id": 7, "order_id": 8}': (8, None, None, True),
    }
    names: dict[str, Any] = {}
    check, *_ = examples("docs/bad-rows.md")
    exec(check + TWICE, names)
    bodies = spark.createDataFrame([(body,) for body in table], "body string")

    rows = names["checked"](bodies).withColumn("twice", names["twice"]).collect()

    order = [(row.o.order_id, row.o["_corrupt"]) if row.o else (None, None) for row in rows]
    found = {
        row.body: (*parsed, row.reason, row.twice) for row, parsed in zip(rows, order, strict=True)
    }
    assert found == table


def test_texts_that_do_not_decode_are_there_in_a_json_output(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = [("good", None), (None, "not base64!")]
    names: dict[str, Any] = {
        "messages": spark.createDataFrame(rows, "body string, _corrupt_record string")
    }
    (code,) = examples("docs/bad-rows.md", begin="## Texts", end="## Send")
    exec(code, names)
    for name in ("messages", "renamed"):
        names[name].write.json(f"{tmp_path}/{name}")

    as_it_was = spark.read.json(f"{tmp_path}/messages").collect()
    renamed = spark.read.json(f"{tmp_path}/renamed").collect()

    assert {row["_corrupt_record"] for row in as_it_was} == {None}, "what the page warns of"
    assert {(row.body, row.raw_text) for row in renamed} == set(rows)


# Jobs that pages describe in words.

BOTH = """
def both(batch, number):
    batch = batch.select("body").persist()
    for queue in ("invoices", "audit"):
        (
            batch.write.format("azqueue")
            .mode("append")
            .options(**azure)
            .option("queue", queue)
            .option("transactionLog", "blob:logs/both")
            .option("txnAppId", "both")
            .option("txnVersion", str(number))
            .save()
        )
    batch.unpersist()
"""

INVOICES = """
invoices = (
    spark.readStream.format("azqueue")
    .options(**azure)
    .option("queue", "invoices")
    .option("writeAheadLog", "blob:logs/booking")
    .option("isolationLevel", "readCommitted")
    .load()
)
"""

BATCH_JOB = """
query = (
    spark.readStream.format("azqueue")
    .options(**azure)
    .option("queue", "orders")
    .load()
    .writeStream.format("parquet")
    .option("checkpointLocation", "/data/checkpoints/orders")
    .trigger(availableNow=True)
    .start("/data/orders")
)
query.awaitTermination()
new = spark.read.parquet("/data/orders")
"""

TWICE = """
names = F.json_object_keys("body")
twice = F.size(F.array_distinct(names)) < F.size(names)
"""
