"""Large bodies in blobs, and a log: a blob lives as long as the segment that names it."""

from __future__ import annotations

from typing import Any

import pytest
from budget import some
from segments import a_message
from world.logged import Blobs, LoggedSpark
from world.service import POISON, SOURCE, Service
from world.spark import VISIBILITY_S
from world.turns import Killed

from spark_azqueue.errors import LogConflict
from spark_azqueue.service.blobs.references import Reference, new_name, read_reference
from spark_azqueue.service.messages import QueueRef
from spark_azqueue.source.log.log import Contents, WriteAheadLog
from spark_azqueue.source.log.progress import LogProgress
from spark_azqueue.source.log.segment import decode_segment

pytestmark = pytest.mark.usefixtures("simulated_time")

LARGE = {"largeBody": "blob", "blobContainer": "bodies"}


def a_query(**options: str) -> tuple[Service, LoggedSpark, Blobs]:
    """Of one message a batch, and of the ten last batches that are kept."""
    service = Service()
    service.account.create(SOURCE)
    service.account.create(POISON)
    blobs = Blobs()
    given = {**LARGE, "maxMessagesPerTrigger": "1", "dequeueAhead": "false", **options}
    return service, LoggedSpark(service, given, blobs=blobs), blobs


def send(service: Service, blobs: Blobs, count: int) -> list[str]:
    """Send messages with a large body each. Returns the names of the blobs."""
    names = [new_name() for _ in range(count)]
    for name in names:
        blobs.names.add(name)
        text = Reference("bodies", name, 100_000).text
        service.account.queue(SOURCE).put(text, now=service.clock.now())
    return names


def kept(spark: LoggedSpark) -> set[str]:
    """The blobs that the log's segments name."""
    found = set()
    for name, data in spark.store.objects.items():
        if name.startswith("seg/"):
            for message in decode_segment(data).messages:
                reference = read_reference(message.text, "bodies")
                assert reference
                found.add(reference.name)
    return found


def drain(spark: LoggedSpark) -> None:
    while spark.trigger():
        pass


def test_a_blob_is_deleted_when_its_segment_is_removed() -> None:
    service, spark, blobs = a_query()
    names = send(service, blobs, 30)

    drain(spark)

    assert service.views() == []
    assert len(kept(spark)) == 11
    assert blobs.names == kept(spark)
    assert blobs.deleted == names[: len(blobs.deleted)], "the oldest first, each once"


@pytest.mark.parametrize("again", ["stopped", "killed"])
def test_and_after_a_restart(again: str) -> None:
    service, spark, blobs = a_query()
    for _ in range(30):
        send(service, blobs, 1)
        drain(spark)
        spark.stop() if again == "stopped" else spark.kill()

    drain(spark)

    # After a kill nobody knows whether a delete has worked: those blobs stay.
    assert kept(spark) <= blobs.names
    if again == "stopped":
        assert blobs.names == kept(spark)


def test_what_was_to_be_removed_goes_at_the_next_start_without_a_new_batch() -> None:
    service, spark, blobs = a_query()
    names = send(service, blobs, 12)

    def dies() -> None:
        spark.kill()
        raise Killed

    blobs.before_delete = dies
    for _ in range(12):
        spark.trigger()
    blobs.before_delete = lambda: None
    assert kept(spark) == set(names)

    spark.start_only_the_process()
    assert spark.consumer
    spark.calls.latest(spark.checkpoint.offsets[-1], 1)

    assert kept(spark) == set(names[1:])


def test_a_rollback_finds_every_body() -> None:
    service, spark, blobs = a_query()
    send(service, blobs, 30)
    drain(spark)
    spark.roll_back(9)

    drain(spark)

    given = {
        read_reference(body, "bodies").name  # type: ignore[union-attr]
        for batch in range(21, 30)
        for _, body in spark.sink.batches[batch]
    }
    assert len(given) == 9
    assert given <= blobs.names


@pytest.mark.parametrize("after_a_put", [False, True], ids=["before a call", "after a put"])
def test_killed_at_any_step_no_segment_that_is_kept_misses_a_blob(after_a_put: bool) -> None:
    def run(kill_at: int) -> int:
        service, spark, blobs = a_query()
        spark.dies_at(kill_at, after_a_put=after_a_put)
        for _ in range(14):
            send(service, blobs, 1)
            drain(spark)
            assert kept(spark) <= blobs.names
        service.pass_time(VISIBILITY_S)
        drain(spark)
        assert kept(spark) <= blobs.names
        return len(spark.store.calls)

    calls = run(10_000)
    for kill_at in some(range(calls * 2 // 3, calls)):  # before, nothing is old enough
        run(kill_at)


def test_killed_before_a_blob_is_deleted_the_next_start_deletes_it() -> None:
    service, spark, blobs = a_query()
    names = send(service, blobs, 14)

    def dies() -> None:
        blobs.before_delete = lambda: None
        spark.kill()
        raise Killed

    blobs.before_delete = dies
    while spark.consumer is not None or f"seg/{12:012d}" not in spark.store.objects:
        spark.trigger()
    assert names[0] in blobs.names
    assert f"seg/{1:012d}" in spark.store.objects, "it goes last"

    drain(spark)

    assert names[0] not in blobs.names
    assert f"seg/{1:012d}" not in spark.store.objects


def test_the_blob_of_a_message_whose_delete_is_owed_stays() -> None:
    service, spark, blobs = a_query()
    (pending,) = send(service, blobs, 1)
    queue = service.account.queue(SOURCE)

    def somebody_takes_it() -> None:
        service.pass_time(VISIBILITY_S + 1)
        queue.dequeue(now=service.clock.now(), count=1, visibility=100_000)

    spark.trigger(meanwhile=somebody_takes_it)
    names = send(service, blobs, 20)
    drain(spark)
    assert f"seg/{1:012d}" not in spark.store.objects
    assert pending in blobs.names
    assert names[0] not in blobs.names

    spark.stop()
    send(service, blobs, 20)
    drain(spark)
    assert pending in blobs.names, "a restart knows it, too"


def test_a_blob_that_cannot_be_deleted_stays_and_is_told(caplog: Any) -> None:
    service, spark, blobs = a_query()
    names = send(service, blobs, 30)
    blobs.refused = {names[0]}

    drain(spark)

    assert blobs.names == kept(spark) | {names[0]}
    assert f"blob '{names[0]}' was not deleted" in caplog.text
    assert f"seg/{1:012d}" not in spark.store.objects


def test_the_store_does_not_answer_and_the_segments_wait_in_their_order(caplog: Any) -> None:
    service, spark, blobs = a_query()
    send(service, blobs, 13)
    drain(spark)
    before = spark.store.get

    def get(name: str, most: int) -> bytes | None:
        if name == f"seg/{3:012d}":
            spark.store.is_down = True
            try:
                return before(name, most)
            finally:
                spark.store.is_down = False
        return before(name, most)

    spark.store.get = get  # type: ignore[method-assign]
    send(service, blobs, 5)
    drain(spark)
    assert "segment 3 is kept for now" in caplog.text
    assert f"seg/{3:012d}" in spark.store.objects
    assert f"seg/{4:012d}" in spark.store.objects, "it tells that the one before was a batch"
    assert kept(spark) <= blobs.names

    spark.store.get = before  # type: ignore[method-assign]
    spark.stop()
    send(service, blobs, 1)
    drain(spark)
    assert blobs.names == kept(spark)


def test_the_blobs_of_a_segment_that_was_put_when_its_number_was_free_again_stay() -> None:
    """By a process that was stopped in its put, until the batch of this number was removed."""
    service, spark, blobs = a_query()
    send(service, blobs, 1)
    drain(spark)
    spark.kill()
    stopped = WriteAheadLog(spark.store.another(), spark.config().account.name, 10)
    stopped.open()
    stopped.claim(0)
    names = send(service, blobs, 30)
    drain(spark)
    assert f"seg/{2:012d}" not in spark.store.objects
    unread = new_name()
    blobs.names.add(unread)
    text = Reference("bodies", unread, 100_000).text
    queue = QueueRef(stopped.account, SOURCE)
    with pytest.raises(LogConflict):
        stopped.put(
            Contents([a_message(queue=queue, text=text)], (1,), None, (queue,), {}), LogProgress()
        )
    assert f"seg/{2:012d}" in spark.store.objects

    spark.stop()
    send(service, blobs, 1)
    drain(spark)

    assert f"seg/{2:012d}" not in spark.store.objects
    assert unread in blobs.names
    assert names[0] not in blobs.names


def test_what_does_not_decode_any_more_keeps_its_blob() -> None:
    service, spark, blobs = a_query()
    names = send(service, blobs, 13)
    drain(spark)
    spark.restart_with(blobContainer="elsewhere", onUndecodable="permissive")
    send(service, blobs, 5)

    drain(spark)

    assert {*names} <= blobs.names | {*blobs.deleted}
    assert f"seg/{5:012d}" not in spark.store.objects
    assert names[4] in blobs.names


def test_delete_blob_false_leaves_them() -> None:
    service, spark, blobs = a_query(deleteBlob="false")
    spark.blobs = None  # as the option says
    names = send(service, blobs, 30)

    drain(spark)

    assert blobs.names == {*names}


def test_the_blobs_of_a_batch_that_was_given_up_live_on() -> None:
    """With its messages: in later segments, or in the poison queue."""
    service, spark, blobs = a_query(maxDequeueCount="1", maxMessagesPerTrigger="8")
    names = send(service, blobs, 8)
    spark.is_poison = lambda body: names[3] in body
    for _ in range(60):
        if not spark.trigger():
            service.pass_time(VISIBILITY_S + 1)
    assert [names[3] in view.text for view in service.views(POISON)] == [True]
    for _ in range(20):
        send(service, blobs, 1)
        drain(spark)

    assert blobs.names - kept(spark) == {names[3]}
    assert names[0] in blobs.deleted
