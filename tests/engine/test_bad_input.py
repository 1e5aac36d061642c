"""What is wrong is refused in plain words, before anything is sent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import SparkSession

from spark_azqueue import explain
from spark_azqueue.testing import FakeQueueService

from .conftest import Streams
from .test_stream import PATIENCE_S

SECRET = "AccountName=myaccount;AccountKey=c2VjcmV0LXZhbHVl"  # decodes to "secret-value"
GOOD = {"secret.connectionString": SECRET, "queue": "orders"}

SOURCE_OPTIONS: list[tuple[dict[str, str], str]] = [
    ({**GOOD, "visiblityTimeout": "60"}, "did you mean 'visibilityTimeout'?"),
    (
        {**GOOD, "visibilityTimeout": "0"},
        "'0' is not allowed; expected auto, or whole seconds from 1 sec",
    ),
    ({**GOOD, "visibilityTimeout": "8 days"}, "from 1 second to 7 days"),
    ({**GOOD, "timeToLive": "60"}, "'timeToLive' is for the sink, not for the source"),
    ({**GOOD, "queue": "Orders"}, "'Orders' is not allowed; expected a queue name"),
    ({"secret.connectionString": SECRET}, "option 'queue' is missing"),
    ({"queue": "orders"}, "no credential: set 'secret.connectionString'"),
    ({**GOOD, "sasToken": "sig=x"}, "more than one credential"),
    ({"queue": "orders", "accountUrl": "https://a.queue.core.windows.net"}, "no credential with"),
    ({**GOOD, "path": "orders"}, "azqueue takes no path"),
    ({**GOOD, "secret.connectionString": "no such thing"}, "value not shown"),
]

SINK_OPTIONS: list[tuple[dict[str, str], str]] = [
    ({**GOOD, "timToLive": "60"}, "did you mean 'timeToLive'?"),
    ({**GOOD, "visibilityDelay": "60", "timeToLive": "60"}, "is not below the time to live"),
    ({**GOOD, "maxPollInterval": "60"}, "is for the source, not for the sink"),
    ({**GOOD, "queue": "orders,others"}, "the sink takes one"),
]


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_STORAGE_CONNECTION_STRING", raising=False)


@pytest.mark.parametrize(("options", "expected"), SOURCE_OPTIONS)
@pytest.mark.parametrize("kind", ["read", "readStream"])
def test_options_of_the_source(
    spark: SparkSession, options: dict[str, str], expected: str, kind: str
) -> None:
    with pytest.raises(AnalysisException) as caught:
        getattr(spark, kind).format("azqueue").options(**options).load()
    assert expected in str(caught.value)
    assert "c2VjcmV0" not in str(caught.value)


@pytest.mark.parametrize(("options", "expected"), SINK_OPTIONS)
def test_options_of_the_sink(spark: SparkSession, options: dict[str, str], expected: str) -> None:
    frame = spark.createDataFrame([("a",)], "body string")
    with pytest.raises(AnalysisException) as caught:
        frame.write.format("azqueue").mode("append").options(**options).save()
    assert expected in str(caught.value)
    assert "c2VjcmV0" not in str(caught.value)


WITH_A_SCHEMA: list[tuple[str, dict[str, str], str]] = [
    ("body string", {"queue": "orders", "maxPollInterval": "x"}, "'x' is not allowed; expected"),
    ("body string", {}, "option 'queue' is missing"),
    ("colour string", {"queue": "orders"}, "asks for a column 'colour', which the source does not"),
]


@pytest.mark.parametrize(("schema", "options", "expected"), WITH_A_SCHEMA)
def test_options_of_a_stream_with_a_schema(
    spark: SparkSession,
    fake: FakeQueueService,
    tmp_path: Path,
    schema: str,
    options: dict[str, str],
    expected: str,
) -> None:
    """Spark asks for no schema then, so the stream reader is the first to refuse them."""
    account = {"secret.connectionString": fake.connection_string}
    with pytest.raises((AnalysisException, StreamingQueryException)) as caught:
        (
            spark.readStream.format("azqueue")
            .schema(schema)
            .options(**options, **account)
            .load()
            .writeStream.format("noop")
            .option("checkpointLocation", str(tmp_path))
            .start()
            .awaitTermination(PATIENCE_S)
        )
    assert expected in explain(caught.value).sentence
    assert "UnboundLocalError" not in str(caught.value)


SINK_COLUMNS = [
    ("body string, extra int", ("a", 1), "does not know the column 'extra'"),
    ("text string", ("a",), "the column 'body' is missing"),
    ("body int", (1,), "'body' is int; the sink takes string or binary"),
    ("body string, time_to_live string", ("a", "1"), "'time_to_live' is string"),
]


@pytest.mark.parametrize(("schema", "row", "expected"), SINK_COLUMNS)
def test_columns_of_the_sink(
    spark: SparkSession, schema: str, row: tuple[Any, ...], expected: str
) -> None:
    frame = spark.createDataFrame([row], schema)
    with pytest.raises(AnalysisException) as caught:
        frame.write.format("azqueue").mode("append").options(**GOOD).save()
    assert expected in str(caught.value)


def test_modes_of_the_sink(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("a",)], "body string")
    with pytest.raises(AnalysisException, match=r"mode\('append'\)"):
        frame.write.format("azqueue").mode("overwrite").options(**GOOD).save()


def test_extra_columns_can_be_ignored(
    spark: SparkSession, fake: FakeQueueService, queue: str
) -> None:
    fake.create_queue(queue)
    frame = spark.createDataFrame([("a", 1)], "body string, extra int")
    write = frame.write.format("azqueue").mode("append").option("ignoreExtraColumns", "true")
    write = write.option("secret.connectionString", fake.connection_string)
    write.option("queue", queue).save()
    assert [view.text for view in fake.messages(queue)] == ["a"]


SERVICE_SAYS_NO: list[tuple[Callable[[FakeQueueService], None], str]] = [
    (lambda fake: setattr(fake, "revoked", True), "does not accept this credential"),
    (lambda fake: setattr(fake, "permissions", "rp"), "needs the SAS letter 'u' or the role"),
    (lambda fake: setattr(fake, "permissions", "ru"), "needs the SAS letter 'p' or the role"),
]


@pytest.mark.parametrize(("change", "expected"), SERVICE_SAYS_NO)
def test_a_credential_that_may_not(
    streams: Streams,
    fake: FakeQueueService,
    queue: str,
    change: Callable[[FakeQueueService], None],
    expected: str,
) -> None:
    fake.create_queue(queue)
    fake.put(queue, "m")
    change(fake)
    query = streams.collect(streams.read(fake.connection_string, queue))
    with pytest.raises(StreamingQueryException, match=expected) as caught:
        query.awaitTermination(PATIENCE_S)
    assert (fake.visible(queue), streams.rows) == (1, [])
    explanation = explain(caught.value)
    assert explanation.error == "AccessDenied"
    assert explanation.sentence.startswith(f"could not read from queue '{queue}'") or (
        "dequeue" in explanation.sentence
    )
    assert explanation.sentence in str(caught.value).splitlines()[0], "nothing stands before it"
    assert "Traceback" not in str(caught.value)
