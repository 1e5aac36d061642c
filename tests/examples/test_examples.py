"""Each script of examples/ does what the cookbook says."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from spark_azqueue.testing import FakeQueueService

from .conftest import EXAMPLES

SCRIPTS = sorted(path.stem for path in EXAMPLES.glob("*.py") if path.stem != "surroundings")

Azure = dict[str, str]
EVOLUTION = "spark.sql.streaming.queryEvolution.enableSourceEvolution"
FORMAT = "spark.sql.streaming.offsetLog.formatVersion"


def test_each_script_has_a_test() -> None:
    here = Path(__file__).read_text(encoding="utf-8")

    assert [name for name in SCRIPTS if f'main("{name}"' not in here] == []


@pytest.fixture
def main(spark: SparkSession, azure: Azure, tmp_path: Path):
    """Run an example's `main` by its name, and return its folder."""

    def run(name: str) -> Path:
        importlib.import_module(name).main(spark, azure, tmp_path)
        return tmp_path

    return run


def bodies(fake: FakeQueueService, queue: str) -> list[str]:
    return sorted(view.text for view in fake.messages(queue))


def test_json_safely(main, spark: SparkSession, fake: FakeQueueService) -> None:
    folder = main("json_safely")

    rows = spark.read.parquet(str(folder / "orders")).collect()
    assert sorted((row.order_id, row.quantity) for row in rows) == [(1, 2), (2, 2)]
    bad = map(json.loads, bodies(fake, "example-orders-bad"))
    assert {letter["body"]: letter["reason"] for letter in bad} == {
        "order 3": "not of the schema",
        '{"quantity": 4}': "no order_id",
    }
    assert fake.count("example-orders") == 0


def test_any_json(main, spark: SparkSession, fake: FakeQueueService) -> None:
    folder = main("any_json")

    reports = spark.read.parquet(str(folder / "reports")).selectExpr("to_json(report) AS text")
    assert sorted(row.text for row in reports.collect()) == [
        "null",
        '{"place":{"room":"[A]"},"sensor":2,"values":[20,21]}',
        '{"sensor":1,"value":20.5}',
    ]
    bad = spark.read.parquet(str(folder / "bad")).collect()
    assert {row.body: row.reason for row in bad} == {
        '{"sensor": 3, "value":': "brackets that do not match, or over 64 levels",
        "no JSON": "not JSON",
        "[" * 9_000 + "]" * 9_000: "brackets that do not match, or over 64 levels",
        f'"{"x" * 20_000}"': "longer than 20,000 bytes",
    }
    assert fake.count("example-reports") == 0


def test_two_queues(main, capsys: pytest.CaptureFixture[str]) -> None:
    main("two_queues")

    assert capsys.readouterr().out.split("\n")[-3:-1] == ["payments 5", "refunds 3"]


def test_many_queues(main, fake: FakeQueueService, capsys: pytest.CaptureFixture[str]) -> None:
    main("many_queues")

    said = capsys.readouterr().out.split("\n")[-7:-1]
    assert said == [f"example-many-{number} {10 + number}" for number in range(6)]
    assert [fake.count(f"example-many-{number}") for number in range(6)] == [0] * 6


def test_one_of_each(main, capsys: pytest.CaptureFixture[str]) -> None:
    main("one_of_each")

    assert capsys.readouterr().out.split("\n")[-2] == "orders: 1 2 3"


def test_few_full_files(main, spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    folder = main("few_full_files")

    *full, _ = sizes = [int(size) for size in capsys.readouterr().out.split(":")[-1].split()]
    assert sum(sizes) == 230
    assert all(size >= 100 for size in full)
    files = spark.read.parquet(str(folder / "readings")).groupBy(sf.input_file_name()).count()
    assert sorted(row["count"] for row in files.collect()) == sorted(sizes)


def test_fan_out(main, fake: FakeQueueService) -> None:
    main("fan_out")

    queues = {kind: f"example-{kind}" for kind in ("alerts", "reminders", "archive")}
    assert [fake.count(queue) for queue in queues.values()] == [1, 1, 1]
    assert fake.visible(queues["alerts"]) == 1
    assert fake.visible(queues["reminders"]) == 0
    fake.clock.advance(901)
    assert fake.visible(queues["alerts"]) == 0  # expired
    fake.clock.advance(2700)
    assert fake.visible(queues["reminders"]) == 1
    fake.clock.advance(30 * 86_400)
    assert fake.visible(queues["archive"]) == 1  # never expires


def test_retry_with_backoff(
    main, fake: FakeQueueService, capsys: pytest.CaptureFixture[str]
) -> None:
    main("retry_with_backoff")

    assert (
        "Settled(done=1, retry=1, dead=1, left=0, not_copied=0, stale=0)" in capsys.readouterr().out
    )
    (dead,) = map(json.loads, bodies(fake, "example-calls-dead"))
    assert (dead["reason"], dead["body"]) == ("answer 400", '{"answer": 400}')
    assert bodies(fake, "example-calls") == ['{"answer": 503}']
    assert fake.visible("example-calls") == 0
    fake.clock.advance(31)
    assert fake.visible("example-calls") == 1


def test_scheduled_job(main, capsys: pytest.CaptureFixture[str]) -> None:
    main("scheduled_job")

    assert capsys.readouterr().out.split("\n")[-3:-1] == ["monday 10", "tuesday 20"]


def test_replay_a_log(main, capsys: pytest.CaptureFixture[str]) -> None:
    main("replay_a_log")

    assert capsys.readouterr().out.split("\n")[-4:-1] == [
        "wrong 20 of 20",
        f"sum {sum(range(10, 30))}",
        "audit 20",
    ]


def test_supervised(
    main, spark: SparkSession, fake: FakeQueueService, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = main("supervised")

    assert "finished: True" in capsys.readouterr().out
    rows = spark.read.parquet(str(folder / "numbers")).collect()
    assert Counter(row.number for row in rows).keys() == {1, 2, 4}
    assert bodies(fake, "example-jobs-poison") == ["seven"]
    assert fake.count("example-jobs") == 0


def test_priorities_and_accounts(
    main, spark: SparkSession, azure: Azure, fake: FakeQueueService, tmp_path: Path
) -> None:
    main("priorities_and_accounts")

    with FakeQueueService() as other:
        for queue in ("example-urgent", "example-usual"):
            other.create_queue(queue)
        other.put_many("example-usual", ["of the other"])
        accounts = {
            "shop": azure,
            "depot": {"secret.connectionString": other.connection_string},
        }
        example = importlib.import_module("priorities_and_accounts")
        example.start(spark, accounts, tmp_path / "both").awaitTermination()

    first = spark.read.parquet(str(tmp_path / "all")).collect()
    assert sorted(row.body for row in first) == ["a", "b", "now"]
    (row,) = spark.read.parquet(str(tmp_path / "both" / "all")).collect()
    assert (row.account, row.queue, row.body) == ("depot", "example-usual", "of the other")


def test_loads_come_and_go(
    main, spark: SparkSession, fake: FakeQueueService, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        main("loads_come_and_go")
    finally:
        for name in (EVOLUTION, FORMAT):
            spark.conf.unset(name)

    said = capsys.readouterr().out.split("\n")[-4:-1]
    assert said == ["order of east 3", "order of north 2", "order of west 2"]
    assert [fake.count(f"example-orders-{region}") for region in ("west", "east", "north")] == [
        0
    ] * 3


def test_new_files(main, fake: FakeQueueService, capsys: pytest.CaptureFixture[str]) -> None:
    folder = main("new_files")

    said = capsys.readouterr().out.split("\n")
    assert said[-3].startswith("broken.json | the file cannot be read as json: [FAILED_READ_FILE")
    assert said[-2] == "gone.json | the file is gone"
    assert [line.split("|")[1].strip() for line in said if line.count("|") == 3][1:] == [*"012"]
    assert sorted(path.name for path in (folder / "orders").iterdir()) == ["batch=0", "batch=1"]
    assert fake.count("example-files") == 0


def test_enrich_and_answer(main, fake: FakeQueueService) -> None:
    main("enrich_and_answer")

    answers = [json.loads(text) for text in bodies(fake, "example-answers")]
    assert {answer["item"]: answer.get("price") for answer in answers} == {
        "tea": 3.5,
        "unicorn": None,
    }
    assert all(answer["in_reply_to"] for answer in answers)


def test_drain_with_progress(main, capsys: pytest.CaptureFixture[str]) -> None:
    main("drain_with_progress")

    said = capsys.readouterr()
    assert f"[{'#' * 40}] 1,000 of 1,000" in said.err
    assert said.out.endswith("1000 messages, 0 left; 1000 rows\n")


@pytest.mark.parametrize("given", [[], ["no connection string"], ["a=b", "c"]])
def test_alone_without_a_connection_string_a_script_says_how(given: list[str]) -> None:
    environment = {k: v for k, v in os.environ.items() if k != "AZURE_STORAGE_CONNECTION_STRING"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(EXAMPLES / "two_queues.py"), *given],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 1
    assert done.stderr.startswith("usage: python")


def test_a_script_runs_alone(fake: FakeQueueService, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(EXAMPLES / "two_queues.py"), fake.connection_string],
        env=os.environ | {"TMPDIR": str(tmp_path), "SPARK_LOCAL_IP": "127.0.0.1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == 0, done.stderr[-3000:]
    assert "payments 5" in done.stdout


def test_the_job_of_the_compose_file(
    spark: SparkSession,
    azure: Azure,
    fake: FakeQueueService,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES / "compose"))
    monkeypatch.setenv("DATA", str(tmp_path))
    job = importlib.import_module("stream")

    queries = [
        job.send(spark, azure, rows_per_second=50, bad_share=0),
        job.read(spark, azure, every="0 seconds"),
    ]
    try:
        fake.wait_until(lambda: fake.requests["delete"] > 5, 120)
    finally:
        for query in queries:
            query.stop()

    assert spark.read.parquet(f"{tmp_path}/orders").count() > 5
