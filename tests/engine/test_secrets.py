"""A whole run is searched for its secrets: plans, logs, events, offsets, checkpoint.

The logs of executors that are processes of their own: tests/cluster. Connect: tests/connect.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, quote

import pytest
from certificates import make_certificates
from entra import CLIENT_ID, CLIENT_SECRET, TENANT, token_service
from searching import holders

from spark_azqueue.options.account import read_account
from spark_azqueue.service.messages import QueueRef
from spark_azqueue.service.queues.calls import Count
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.testing import FakeQueueService
from spark_azqueue.testing.azurite import Azurite

PROGRAM = """
import json, logging, os, sys
logging.basicConfig(level=logging.DEBUG)
logging.getLogger("py4j").setLevel(logging.INFO)  # repeats every call it makes, options too
from pyspark.sql import SparkSession

folder, queue, other, planted = sys.argv[1:]
options = json.loads(os.environ.pop("OPTIONS"))
leases = json.loads(os.environ.pop("LEASES"))
spark = (
    SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    .config("spark.eventLog.enabled", "true").config("spark.eventLog.dir", folder + "/events")
    .config("spark.eventLog.rolling.enabled", "false")
    .config("spark.eventLog.compress", "false").config("spark.sql.ui.explainMode", "extended")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("INFO")
source = {**options, "queue": queue}
spark.range(5).selectExpr("string(id) AS body").write.format("azqueue").mode("append").options(
    **source).save()
spark.read.format("azqueue").options(**source).load().explain(True)
text = ", ".join(f"`{name}` '{value}'" for name, value in source.items())
spark.sql(f"CREATE TEMPORARY VIEW messages USING azqueue OPTIONS ({text})")
spark.sql("SELECT * FROM messages").collect()
frame = spark.readStream.format("azqueue").options(**source, **leases).load()
frame.explain(True)
query = (
    frame.select("body").writeStream.format("azqueue").options(**options, queue=other)
    .option("checkpointLocation", folder + "/checkpoint").trigger(availableNow=True).start()
)
query.awaitTermination()
query.explain(True)
print(query.lastProgress)
try:
    bad = spark.readStream.format("azqueue").options(**{**source, "queue": queue + "-none"}).load()
    bad.writeStream.format("noop").start().awaitTermination()
except Exception as error:
    print("EXPECTED", error)
try:
    spark.range(1).selectExpr("string(id) AS body").write.format("azqueue").mode("append").options(
        **{**source, "queue": queue + "-none"}).save()
except Exception as error:
    print("EXPECTED TOO", error)
# What must be found, for the search could else find nothing at all.
def say(row):
    print(f"worker {planted}", file=sys.stderr)
spark.sparkContext.setJobDescription(planted)
spark.range(1).foreach(say)
logging.getLogger("spark_azqueue").warning("driver %s", planted)
print("QUERY", query.id)
spark.stop()
"""
PLANTED = "UExBTlRFRC1zZWNyZXQ="


@dataclass
class Given:
    """Options with a secret in them; what must not show; how many messages a queue holds."""

    options: dict[str, str]
    secrets: Callable[[], list[str]]
    create: Callable[[str], object]
    count: Callable[[str], int]
    on_executors: bool = False
    environment: dict[str, str] = field(default_factory=dict)


@contextlib.contextmanager
def entra(folder: Path) -> Iterator[Given]:
    """A service principal: its secret and every token it is given are to stay hidden."""
    certificates = make_certificates(folder)
    azurite = Azurite(
        Path(__file__).resolve().parents[2] / ".azurite",
        certificate=certificates.certificate,
        key=certificates.key,
    )
    with azurite, token_service(certificates) as tokens, pytest.MonkeyPatch.context() as patch:
        patch.setenv("REQUESTS_CA_BUNDLE", str(certificates.authority))
        account = read_account({"secret.connectionString": azurite.connection_string}, {})
        client = QueueClient(account)
        yield Given(
            {
                "accountUrl": azurite.url,
                "credential": "servicePrincipal",
                "tenantId": TENANT,
                "clientId": CLIENT_ID,
                "clientSecret": CLIENT_SECRET,
            },
            lambda: [CLIENT_SECRET, *tokens.tokens],
            lambda queue: client.create(QueueRef(account.name, queue)),
            lambda queue: client.now(Count(QueueRef(account.name, queue))),
            environment={
                "REQUESTS_CA_BUNDLE": str(certificates.authority),
                "AZURE_AUTHORITY_HOST": tokens.authority,
            },
        )
        client.close()
        assert tokens.issued["secret"] >= 3, "the source, the sink and the peek, each by itself"


@pytest.fixture(params=["key", "sas", "entra", "key, executors"])
def given(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Given]:
    if request.param == "entra":
        request.getfixturevalue("azurite_connection_string")  # skips where there is no Azurite
        with entra(tmp_path_factory.mktemp("tls")) as made:
            yield made
        return
    fake: FakeQueueService = request.getfixturevalue("fake")
    text, secret = fake.connection_string, fake.key
    if request.param == "sas":
        sas = fake.sas()
        secret = parse_qs(sas)["sig"][0]
        text = f"QueueEndpoint={fake.url};SharedAccessSignature={sas}"
    yield Given(
        {"secret.connectionString": text},
        lambda: [secret, quote(secret, "")],
        fake.create_queue,
        fake.count,
        "executors" in request.param,
    )


def test_no_secret_shows_anywhere(given: Given, queue: str, tmp_path: Path) -> None:
    other = f"{queue}-other"
    given.create(queue)
    given.create(other)
    (tmp_path / "events").mkdir()
    leases = {"leaseOn": "executors", "deleteAfter": "log", "writeAheadLog": f"file:{tmp_path}/log"}
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, str(program), str(tmp_path), queue, other, PLANTED],
        env={
            **os.environ,
            **given.environment,
            "OPTIONS": json.dumps(given.options),
            "LEASES": json.dumps(leases if given.on_executors else {}),
            "PYSPARK_PYTHON": sys.executable,
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    output = done.stdout + done.stderr
    assert done.returncode == 0, output[-3000:]
    assert "EXPECTED" in output
    assert "EXPECTED TOO" in output
    assert (given.count(queue), given.count(other)) == (0, 5)

    (tmp_path / "output").write_text(output)
    (events,) = (tmp_path / "events").iterdir()
    logs = ["output", str(events.relative_to(tmp_path))]
    assert sorted(holders(tmp_path, PLANTED)) == sorted(logs)
    assert f"driver {PLANTED}" in output
    assert f"worker {PLANTED}" in output
    (query,) = re.findall("^QUERY (.+)$", output, re.MULTILINE)
    assert "checkpoint/metadata" in holders(tmp_path, query)
    assert (tmp_path / "log" / "slots").is_dir() == given.on_executors
    for secret in given.secrets():
        assert holders(tmp_path, secret) == []
