"""Each script of examples/ does what the cookbook says."""

from __future__ import annotations

import gzip
import importlib
import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from clocks import Clock
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as sf

from spark_azqueue.testing import FakeQueueService

from .conftest import EXAMPLES

SCRIPTS = sorted(path.stem for path in EXAMPLES.glob("*.py") if path.stem != "surroundings")

Azure = dict[str, str]
EVOLUTION = "spark.sql.streaming.queryEvolution.enableSourceEvolution"
FORMAT = "spark.sql.streaming.offsetLog.formatVersion"


def test_each_script_has_a_test() -> None:
    tests = Path(__file__).parent.glob("test_*.py")
    text = "".join(path.read_text(encoding="utf-8") for path in tests)

    assert [name for name in SCRIPTS if f'main("{name}"' not in text] == []


def bodies(fake: FakeQueueService, queue: str) -> list[str]:
    return sorted(view.text for view in fake.messages(queue))


def test_any_json(main, spark: SparkSession, fake: FakeQueueService) -> None:
    folder = main("any_json")

    rows = spark.read.parquet(str(folder / "reports"))
    reports = rows.where("reason IS NULL").selectExpr("to_json(report) AS text").collect()
    assert sorted(row.text for row in reports) == [
        "null",
        '{"place":{"room":"[A]"},"sensor":2,"values":[20,21]}',
        '{"sensor":1,"value":20.5}',
    ]
    bad = rows.where("reason IS NOT NULL").select("body", "reason").collect()
    assert {row.body: row.reason for row in bad} == {
        '{"sensor": 3, "value":': "brackets that do not match, or over 64 levels",
        "no JSON": "not JSON",
        "[" * 9_000 + "]" * 9_000: "brackets that do not match, or over 64 levels",
        f'"{"x" * 20_000}"': "longer than 20,000 bytes",
    }
    assert fake.count("example-reports") == 0


def test_protobuf_bodies(main, spark: SparkSession, fake: FakeQueueService) -> None:
    folder = main("protobuf_bodies")

    rows = spark.read.parquet(str(folder / "prices")).collect()
    assert {(row.currency, row.units, row.reason) for row in rows} == {
        ("EUR", 7, None),
        ("EUR", 9, None),
        (None, None, "not Protobuf"),
    }
    assert [bytes(row.body) for row in rows if row.reason] == [b"\xff no price"]
    assert fake.count("example-prices") == 0


def test_compressed_bodies(main, capsys: pytest.CaptureFixture[str]) -> None:
    main("compressed_bodies")

    size, length = re.findall(r"^(\d+) bytes: (\d+)$", capsys.readouterr().out, re.MULTILINE)[0]
    assert int(length) > 300_000
    assert int(size) < 48 * 1024, "which makes 64 KiB in base64"


def test_a_compressed_body_is_bounded() -> None:
    unpacked = importlib.import_module("compressed_bodies").unpacked

    assert unpacked(gzip.compress(b"x" * (1 << 20))) == "x" * (1 << 20)
    assert unpacked(gzip.compress(b"x" * ((1 << 20) + 1))) is None
    assert unpacked(gzip.compress(b"text")[:-9]) is None, "cut off"
    assert unpacked(gzip.compress(b"\xff")) is None
    assert unpacked(b"text") is None


def test_paced_calls(main, fake: FakeQueueService, capsys: pytest.CaptureFixture[str]) -> None:
    main("paced_calls")

    assert capsys.readouterr().out.startswith("20 calls in ")
    assert fake.count("example-calls") == 0


def test_calls_of_a_task_keep_their_distance(monkeypatch: pytest.MonkeyPatch) -> None:
    example = importlib.import_module("paced_calls")
    clock, begins = Clock(), []
    start = clock.now

    def call(body: str) -> None:
        begins.append(clock.now - start)
        clock.now += float(body)

    monkeypatch.setattr(example, "call", call)
    monkeypatch.setattr(example, "time", clock)
    example.paced([Row(body=body) for body in ("0.03", "0", "0.5", "0.1", "0")])

    # Two tasks make ten calls a second each.
    assert begins == pytest.approx([0, 0.1, 0.2, 0.7, 0.8], abs=1e-3)
    assert clock.now - start > 0.899, "and the next batch begins later, too"


def test_two_queues(main, capsys: pytest.CaptureFixture[str]) -> None:
    main("two_queues")

    assert capsys.readouterr().out.split("\n")[-3:-1] == ["payments 5", "refunds 3"]


def test_chain_of_queues(main, spark: SparkSession, fake: FakeQueueService) -> None:
    folder = main("chain_of_queues")

    rows = spark.read.parquet(str(folder / "invoices")).collect()
    assert sorted(row.body for row in rows) == sorted(f"invoice for order {n}" for n in range(50))
    fake.wait_until(lambda: fake.count("example-orders") == 0, 60)


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


def test_shadow_run(main, capsys: pytest.CaptureFixture[str]) -> None:
    main("shadow_run")

    said = capsys.readouterr().out
    assert said.endswith("6 rows differ\n")
    assert said.count("|    old|") == said.count("|    new|     0|") == 3


def test_supervised(
    main, spark: SparkSession, fake: FakeQueueService, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = main("supervised")

    assert "finished: True" in capsys.readouterr().out
    rows = spark.read.parquet(str(folder / "numbers")).collect()
    assert Counter(row.number for row in rows).keys() == {1, 2, 4}
    assert [*reasons(fake, "example-jobs-poison")] == ["seven"]
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


def reasons(fake: FakeQueueService, queue: str) -> dict[str, str]:
    """Of the envelopes in a queue: the body, and its reason up to the line of code."""
    letters = [json.loads(view.text) for view in fake.messages(queue)]
    return {letter["body"]: letter["reason"].partition(" (")[0] for letter in letters}


def test_a_model_that_raises(main, spark: SparkSession, fake: FakeQueueService) -> None:
    folder = main("a_model_that_raises")

    scores = [row.score for row in spark.read.parquet(f"{folder}/out").collect()]
    assert Counter(scores) == {0.3: 2, 0.4: 1, 0.1: 95}
    assert reasons(fake, "example-texts-poison") == {
        "3": "ValueError: only letters, please",
        "!": "ValueError: only letters, please",
    }
    assert fake.count("example-texts") == 0


def test_parse_or_dead_letter(main, spark: SparkSession, fake: FakeQueueService) -> None:
    folder = main("parse_or_dead_letter")

    rows = spark.read.parquet(f"{folder}/orders").collect()
    assert sorted((row.number, row.due.day) for row in rows) == [(n, n) for n in range(10, 31)]
    found = reasons(fake, "example-orders-poison")
    assert len(found) == 6
    assert found["no JSON"].startswith("json.decoder.JSONDecodeError: Expecting value")
    assert found['{"number": 36}'] == "KeyError: 'due'"
    assert found['{"number": 31, "due": "2026-11-31"}'].startswith("ValueError: day ")
    assert fake.count("example-orders") == 0
