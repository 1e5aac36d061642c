"""Bodies survive from sink to source, byte for byte, and a broken one hides no other."""

from __future__ import annotations

import base64

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from spark_azqueue.testing import FakeQueueService

from .conftest import Streams
from .test_stream import PATIENCE_S

TEXTS = [
    "plain",
    "",
    "😀 naïve 漢字 \U0001f468\u200d\U0001f469\u200d\U0001f467",
    "<&>\"' ]]> <!-- --> &amp; &#13;",
    "line\nbreak\ttab",
    "carriage\rreturn\r\nboth",
    "  leading and trailing blanks  ",
    "\n\nblank lines around\n\n",
    "\ufeffwith a byte order mark",
    "x" * 65_536,
    "ü" * 32_768,
]
BYTES = [b"", b"\x00\x01\xff", bytes(range(256)), b"\r\n", b"z" * 49_152]


@pytest.mark.parametrize("encoding", ["none", "base64"])
def test_texts(
    spark: SparkSession, streams: Streams, connection_string: str, queue: str, encoding: str
) -> None:
    # 64 KiB of text are 48 KiB before base64.
    texts = [text for text in TEXTS if encoding == "none" or len(text.encode()) <= 49_152]
    if "devstoreaccount1" in connection_string:
        # Azurite spoils a character whose bytes arrive in two of its reads; small bodies never do.
        texts = [text for text in texts if text.isascii() or len(text) < 1_000]
    frame = spark.createDataFrame([(text,) for text in texts], "body string")
    options = {
        "secret.connectionString": connection_string,
        "queue": queue,
        "messageEncoding": encoding,
    }
    write = frame.write.format("azqueue").mode("append").options(**options)
    write.option("createQueue", "true").save()

    received = streams.read(connection_string, queue, messageEncoding=encoding)
    streams.read_all(received)
    assert sorted(streams.bodies()) == sorted(texts)


def test_bytes(spark: SparkSession, streams: Streams, connection_string: str, queue: str) -> None:
    frame = spark.createDataFrame([(value,) for value in BYTES], "body binary")
    write = frame.write.format("azqueue").mode("append").option("messageEncoding", "base64")
    write = write.option("secret.connectionString", connection_string).option("queue", queue)
    write.option("createQueue", "true").save()

    received = streams.read(connection_string, queue, messageEncoding="base64", bodyType="binary")
    streams.read_all(received)
    assert sorted(bytes(body) for body in streams.bodies()) == sorted(BYTES)


def with_one_bad(fake: FakeQueueService, queue: str) -> tuple[list[str], str]:
    fake.create_queue(queue)
    good = [f"good {i}" for i in range(31)]
    encoded = [base64.b64encode(text.encode()).decode() for text in good]
    fake.put_many(queue, encoded[:15])
    bad = fake.put(queue, "not base64!")
    fake.put_many(queue, encoded[15:])
    return good, bad


def test_with_fail_it_stops_the_query_and_everything_leased_is_given_back(
    streams: Streams, fake: FakeQueueService, queue: str
) -> None:
    _, bad = with_one_bad(fake, queue)
    options = {"messageEncoding": "base64", "onUndecodable": "fail"}
    query = streams.collect(streams.read(fake.connection_string, queue, **options))
    with pytest.raises(StreamingQueryException) as caught:
        query.awaitTermination(PATIENCE_S)

    text = str(caught.value)
    assert f"message {bad} in queue '{queue}' cannot be decoded" in text
    assert "messageEncoding" in text
    assert "onUndecodable=permissive" in text
    assert (fake.visible(queue), streams.rows) == (32, [])
