"""largeBody=blob on real Spark: by blob there, by blob back, and gone when settled."""

from __future__ import annotations

import json
import os
import subprocess

import pytest
from azure.storage.blob import ContainerClient
from processes import PATIENCE_S, processes
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from spark_azqueue.testing import FakeQueueService

from .conftest import Streams
from .test_crashes import RUNNER

MIB = 2**20


def memory_of_source() -> int:
    """Bytes that the one process of a stream source holds which this process has below it."""
    running = processes()

    def ours(pid: int) -> bool:
        return pid == os.getpid() or (pid in running and ours(running[pid][0]))

    (pid,) = [pid for pid, (_, _, line) in running.items() if RUNNER in line and ours(pid)]
    listing = subprocess.run(
        ["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, check=True
    )
    return int(listing.stdout) * 1024


def by_blob(connection_string: str, queue: str, blobs: ContainerClient) -> dict[str, str]:
    return {
        "secret.connectionString": connection_string,
        "queue": queue,
        "largeBody": "blob",
        "blobContainer": blobs.container_name,
    }


@pytest.mark.core
def test_200_bodies_from_1_kib_to_20_mib_there_and_back_and_the_container_ends_empty(
    spark: SparkSession,
    streams: Streams,
    azurite_connection_string: str,
    blobs: ContainerClient,
    queue: str,
) -> None:
    options = by_blob(azurite_connection_string, queue, blobs)
    # 1 KiB to 20 MiB, evenly on a logarithmic scale, more than 400 MiB in all.
    sized = spark.range(200).selectExpr(
        "id", f"int(round(1024 * pow({20 * 1024}, id / 199D))) AS size"
    )
    made = "substr(repeat(sha2(string(id), 256), int(size / 64) + 1), 1, size)"
    bodies = sized.repartition(50).selectExpr(f"{made} AS body")
    expected = bodies.selectExpr("length(body) AS size", "sha2(body, 256) AS digest").collect()
    total = sum(row.size for row in expected)
    assert (min(expected).size, max(expected).size) == (1024, 20 * MIB)
    assert total > 400 * MIB
    bodies.write.format("azqueue").mode("append").options(**options, createQueue="true").save()
    large = sum(row.size > 65_536 for row in expected)
    assert len(list(blobs.list_blob_names())) == large

    memory: list[int] = []

    def watch(batch: DataFrame, number: int) -> None:
        memory.append(memory_of_source())

    received = (
        spark.readStream.format("azqueue")
        .options(**options, maxMessagesPerTrigger="50", messagesPerPartition="5")
        .load()
        .selectExpr("length(body) AS size", "sha2(body, 256) AS digest")
    )
    streams.read_all(received, watch)

    assert sorted(streams.rows) == sorted(expected), "byte for byte"
    assert len(memory) >= 4
    assert max(memory) - min(memory) < 32 * MIB, [size // MIB for size in memory]
    assert list(blobs.list_blob_names()) == []
    left = spark.read.format("azqueue").options(**options).load()
    assert left.count() == 0


@pytest.mark.core
def test_a_message_whose_blob_is_lost_goes_to_the_poison_queue_and_stops_only_itself(
    spark: SparkSession,
    streams: Streams,
    fake: FakeQueueService,
    azurite_connection_string: str,
    blobs: ContainerClient,
    queue: str,
) -> None:
    options = by_blob(fake.connection_string, queue, blobs)
    options["secret.blobConnectionString"] = azurite_connection_string
    fake.create_queue(queue)
    frame = spark.range(3).selectExpr("repeat(string(id), 70000) AS body").coalesce(1)
    frame.write.format("azqueue").mode("append").options(**options).save()
    options |= {"maxDequeueCount": "2", "poisonFormat": "copy"}
    references = {view.text: view.id for view in fake.messages(queue)}
    lost = next(iter(references))
    blobs.delete_blob(json.loads(lost)["name"])

    refused: list[str] = []
    for _ in range(40):
        stream = spark.readStream.format("azqueue").options(**options).load()
        query = streams.collect(stream, availableNow=True)
        try:
            query.awaitTermination(PATIENCE_S)
        except StreamingQueryException as error:
            refused.append(str(error))
        if not refused or fake.count(queue) == 0:
            break

    assert f"the body of message {references[lost]} in queue '{queue}' cannot be read" in refused[0]
    assert json.loads(lost)["name"] in refused[0]
    assert [view.text for view in fake.messages(f"{queue}-poison")] == [lost]
    assert {body[:1] for body in streams.bodies()} <= {"0", "1", "2"}
    assert len({body for body in streams.bodies() if len(body) == 70_000}) == 2
    assert len(streams.bodies()) == 2, "never an empty body"
    assert list(blobs.list_blob_names()) == []


@pytest.mark.parametrize("reading", ["a peek", "a stream"])
def test_the_body_alone_can_be_asked_for(
    spark: SparkSession,
    streams: Streams,
    azurite_connection_string: str,
    blobs: ContainerClient,
    queue: str,
    reading: str,
) -> None:
    options = by_blob(azurite_connection_string, queue, blobs)
    frame = spark.range(1).selectExpr("repeat('x', 70000) AS body")
    frame.write.format("azqueue").mode("append").options(**options, createQueue="true").save()
    if reading == "a peek":
        rows = spark.read.format("azqueue").options(**options).load().select("body").collect()
    else:
        # A choice of columns that names neither the message nor its queue.
        stream = spark.readStream.format("azqueue").schema("body string").options(**options).load()
        streams.read_all(stream)
        rows = streams.rows
    assert [row.body for row in rows] == ["x" * 70_000]
    assert [row.asDict().keys() for row in rows] == [{"body": 1}.keys()]
