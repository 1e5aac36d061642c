"""The driver-side half, called as Spark calls it; a new object on the same queue is a restart.

In these tests eN is the offset that ends micro-batch N; `latest` is Spark's latestOffset, `plan`
its partitions, `committed` its commit. A bare `latest(None)` is how Spark 4.0 and 4.1 call it.
"""

import time
from concurrent.futures import Future

import pytest
from azure.storage.queue import QueueClient
from consuming import batch, bodies, rows

from spark_azqueue.errors import (
    AccessDenied,
    AzQueueError,
    CheckpointMismatch,
    QueueNotFound,
    UndecodableBody,
)
from spark_azqueue.metrics.report import Counters, Report
from spark_azqueue.service.workers import Workers
from spark_azqueue.source.offsets import QueueOffset
from spark_azqueue.testing import Fault

SOON = 10.0


def flat(parts):
    return [body for part in parts for body in part]


def texts(fake, queue="orders"):
    return [message.text for message in fake.messages(queue)]


def leased(fake, queue="orders"):
    return [message.text for message in fake.messages(queue) if not message.visible]


class NeverRuns:
    """Workers whose process ends before they come to anything."""

    def submit(self, call, *arguments):
        return Future()


class AtOnce:
    """Workers that run a call when it comes: what follows is the same every time."""

    def __init__(self, count, name):
        pass

    def submit(self, call, *arguments):
        future = Future()
        try:
            future.set_result(call(*arguments))
        except Exception as error:  # noqa: BLE001 (the future has it)
            future.set_exception(error)
        return future


def never_deletes(count, name):
    return NeverRuns() if name == "settle" else Workers(count, name)


def user_updates(fake, row, content=None):
    """The user's own code updates a message that it got in a row; it is visible at once."""
    with QueueClient.from_connection_string(
        fake.connection_string, "orders", api_version="2021-12-02", retry_total=0
    ) as client:
        client.update_message(
            row["message_id"], row["pop_receipt"], content=content, visibility_timeout=0
        )


# ── the ordinary course of things ─────────────────────────────────────────────────────────────────


def test_an_empty_queue_moves_nothing(spark, fake):
    consumer = spark.start()

    assert consumer.latest(consumer.initial, None) == consumer.initial
    assert consumer.plan(consumer.initial, consumer.initial) == []
    assert fake.requests["update"] == 1  # the check at the start


def test_the_initial_offset_is_the_same_in_every_run(spark):
    assert spark.start().initial == spark.start().initial


def test_nothing_is_sent_before_the_first_call(spark, fake):
    consumer = spark.start()
    consumer.close()

    assert sum(fake.requests.values()) == 0


def test_messages_are_leased_given_out_and_deleted_after_the_commit(spark, fake):
    fake.put_many("orders", ["a", "b", "c"])
    consumer = spark.start()

    e1, found = batch(consumer, consumer.initial)
    assert found == ["a", "b", "c"]
    assert leased(fake) == ["a", "b", "c"]
    assert fake.requests["delete"] == 0

    consumer.committed(e1)
    fake.wait_until(lambda: fake.count("orders") == 0, SOON)


def test_an_idle_stream_leaves_an_empty_queue(spark, fake):
    # Given a batch that Spark committed, and no new data: it never calls commit then
    fake.put_many("orders", ["a", "b"])
    consumer = spark.start()
    e1, _ = batch(consumer, consumer.initial)

    # When it asks for the next one, once
    assert consumer.latest(e1, None) == e1

    # Then everything is settled when the call returns
    assert fake.count("orders") == 0


def test_the_same_partitions_again_are_the_same_rows(spark, fake):
    fake.put_many("orders", ["a", "b"])
    consumer = spark.start()
    e1 = consumer.latest(consumer.initial, None)

    first, second = (rows(consumer.plan(consumer.initial, e1)) for _ in range(2))

    assert first == second
    assert fake.requests["dequeue"] == 1


def test_asked_twice_from_one_start_nothing_more_is_leased(spark, fake):
    fake.put("orders", "a")
    consumer = spark.start()
    e1 = consumer.latest(consumer.initial, None)
    fake.put("orders", "b")

    assert consumer.latest(consumer.initial, None) == e1
    assert leased(fake) == ["a"]


def test_each_batch_has_its_number_and_its_own_messages(spark, fake):
    consumer = spark.start()
    start, found = consumer.initial, []
    for number in range(1, 5):
        fake.put("orders", str(number))
        start, got = batch(consumer, start)
        found += got
        assert start["batch"] == number

    consumer.latest(start, None)
    assert found == ["1", "2", "3", "4"]
    assert fake.count("orders") == 0


def test_a_commit_may_come_late_twice_or_never(spark, fake):
    consumer = spark.start()
    start, ends = consumer.initial, []
    for number in range(4):
        fake.put("orders", str(number))
        start, _ = batch(consumer, start)
        ends.append(start)
    fake.wait_until(lambda: fake.count("orders") == 1, SOON)
    fake.reset_counters()

    for end in [ends[0], ends[0], ends[2], ends[1], ends[3], ends[3], consumer.initial]:
        consumer.committed(end)

    fake.wait_until(lambda: fake.count("orders") == 0, SOON)
    assert fake.requests["delete"] == 1  # the last batch's: the others' are done


@pytest.mark.parametrize(("most", "option", "sizes"), [(3, "100", [3, 3, 1]), (None, "4", [4, 3])])
def test_a_batch_has_at_most_so_many_messages(spark, fake, most, option, sizes):
    fake.put_many("orders", [str(n) for n in range(7)])
    consumer = spark.start(maxMessagesPerTrigger=option)
    start, found = consumer.initial, []
    for _ in sizes:
        end = consumer.latest(start, most)
        found.append(len(rows(consumer.plan(start, end))))
        start = end

    assert found == sizes


def test_several_queues_make_one_batch(spark, fake):
    fake.create_queue("others")
    fake.put("orders", "a")
    fake.put("others", "b")
    consumer = spark.start(queue="orders,others")

    e1 = consumer.latest(consumer.initial, None)

    found = {(row["queue"], row["body"]) for row in rows(consumer.plan(consumer.initial, e1))}
    assert found == {("orders", "a"), ("others", "b")}
    consumer.latest(e1, None)
    assert fake.count("orders") + fake.count("others") == 0


def test_an_idle_stream_asks_seldom(spark, fake):
    # Given a clock that only sleeping moves
    slept = []
    consumer = spark.start(
        clock=lambda: sum(slept), sleep=slept.append, maxPollInterval="10 seconds"
    )

    # When Spark asks every time it may, until ten minutes are over
    while sum(slept) < 600:
        consumer.latest(consumer.initial, None)

    # Then the queue was asked about every 10 s, and no call took long
    assert 60 <= fake.requests["dequeue"] <= 75
    assert max(slept) <= 0.25


def test_an_idle_stream_that_reports_its_backlog_stays_at_one_request_a_second(spark, fake):
    slept = []
    consumer = spark.start(clock=lambda: sum(slept), sleep=slept.append, maxPollInterval="1 second")
    while sum(slept) < 60:  # until the pause has grown
        consumer.latest(consumer.initial, None)
        consumer.report()
    fake.reset_counters()
    while sum(slept) < 660:
        consumer.latest(consumer.initial, None)
        consumer.report()

    assert fake.requests["properties"] == 2
    # Here no time passes but what is slept: a real look takes longer than its pause.
    assert sum(fake.requests.values()) <= 1.01 * 600


def test_a_report_tells_the_backlog_what_is_held_and_what_was_counted(spark, fake):
    fake.create_queue("others")
    fake.put_many("orders", ["a", "b", "c"])
    consumer = spark.start(queue="orders,others", visibilityTimeout="90")
    assert consumer.report().backlog == {}, "before it runs nothing is sent"
    assert sum(fake.requests.values()) == 0

    e1, _ = batch(consumer, consumer.initial)
    counted = Counters(dequeued=3, delivered=3)
    assert consumer.report() == Report({"orders": 3, "others": 0}, 3, 0, 90, counted)

    assert consumer.latest(e1, None) == e1
    done = consumer.report()
    assert (done.held, done.counters) == (0, Counters(dequeued=3, delivered=3, deleted=3))


def test_a_report_is_a_moment_and_does_not_change(spark, fake):
    fake.put("orders", "a")
    consumer = spark.start()
    e1, _ = batch(consumer, consumer.initial)
    then = consumer.report()
    consumer.latest(e1, None)

    assert then.counters == Counters(dequeued=1, delivered=1)


def test_copies_within_one_batch_give_one_row_and_are_deleted(spark, fake):
    fake.put_many("orders", [str(n) for n in range(40)])
    fake.faults.add(Fault("dequeue", "delivered_twice", times=1))
    consumer = spark.start()

    e1, found = batch(consumer, consumer.initial)

    assert sorted(found) == sorted(map(str, range(40)))
    consumer.latest(e1, None)
    assert fake.count("orders") == 0


def test_a_copy_of_a_committed_message_gives_no_row_and_is_deleted(spark, fake):
    # Given a committed message whose lease somebody else took over before the delete
    fake.put("orders", "a")
    consumer = spark.start()
    e1, _ = batch(consumer, consumer.initial)
    fake.faults.add(Fault("delete", "not_found", times=1))
    assert consumer.latest(e1, None) == e1
    assert texts(fake) == ["a"]
    report = consumer.report()
    assert (report.held, report.remembered, report.counters.deletes_refused) == (0, 1, 1)

    # When it comes again
    fake.clock.advance(3600)
    fake.put("orders", "b")
    e2, found = batch(consumer, e1)

    # Then only the other one is a row, and both are gone in the end
    assert found == ["b"]
    consumer.latest(e2, None)
    assert fake.count("orders") == 0


def test_without_deleting_a_committed_message_comes_again(spark, fake):
    fake.put("orders", "a")
    consumer = spark.start(deleteOnCommit="false")
    e1, _ = batch(consumer, consumer.initial)

    assert consumer.latest(e1, None) == e1
    assert texts(fake) == ["a"]
    fake.clock.advance(3600)

    assert batch(consumer, e1)[1] == ["a"]
    assert fake.requests["delete"] == 0


def test_without_deleting_leases_follow_the_work_all_the_same(spark, fake, caplog):
    fake.put("orders", "a")
    consumer = spark.start(deleteOnCommit="false", clock=fake.clock.now)
    # Renewals happen where this test says so.
    consumer._holding.renewer.start = lambda: None
    e1, _ = batch(consumer, consumer.initial)
    assert lease_left(fake, "a") == pytest.approx(300, abs=10)
    fake.clock.advance(100)
    fake.put("orders", "b")
    e2, found = batch(consumer, e1)

    assert found == ["b"]
    assert lease_left(fake, "b") == pytest.approx(400, abs=20), "four times what a batch took"
    assert caplog.messages == []
    fake.clock.advance(201)
    assert consumer._holding.renewer.renew_due() == 1
    fake.put("orders", "c")
    # "a" comes again, too, since nobody deleted it.
    _, found = batch(consumer, e2)

    assert found == ["a", "c"]
    assert lease_left(fake, "c") == pytest.approx(2 * 4 * 201, abs=20), "the receipt was replaced"
    assert "the pop receipts of 1 messages were replaced while it ran" in caplog.text


def lease_left(fake, text):
    (view,) = [view for view in fake.messages("orders") if view.text == text]
    return view.next_visible - fake.clock.now()


def test_a_consumer_that_is_closed_leaves_no_connection_open(spark, fake):
    fake.put_many("orders", [str(n) for n in range(200)])
    consumer = spark.start()
    e1, _ = batch(consumer, consumer.initial)
    consumer.latest(e1, None)
    assert fake._server._connections

    consumer.close()

    deadline = time.monotonic() + SOON
    while fake._server._connections and time.monotonic() < deadline:
        time.sleep(0.01)  # the server hears of it some time later
    assert not fake._server._connections


# ── before anything is leased ─────────────────────────────────────────────────────────────────────


def test_a_missing_queue_is_told_before_anything_is_leased(spark, fake):
    fake.put("orders", "a")
    consumer = spark.start(queue="orders,nowhere")

    with pytest.raises(QueueNotFound, match="'nowhere'"):
        consumer.latest(consumer.initial, None)

    assert fake.visible("orders") == 1
    assert fake.requests["dequeue"] == 0


def test_a_missing_queue_is_created_where_that_is_asked_for(spark, fake):
    consumer = spark.start(queue="orders,created", createQueue="true")

    assert consumer.latest(consumer.initial, None) == consumer.initial
    assert fake.count("created") == 0


def test_a_credential_that_may_not_update_is_refused_before_anything_is_leased(spark, fake):
    fake.put("orders", "a")
    fake.permissions = "rap"
    consumer = spark.start()

    with pytest.raises(AccessDenied, match="SAS letter 'u'"):
        consumer.latest(consumer.initial, None)

    assert fake.requests["dequeue"] == 0


# ── a call that fails ─────────────────────────────────────────────────────────────────────────────


def test_a_call_that_fails_gives_back_what_it_had_leased(spark, fake):
    fake.put_many("orders", [str(n) for n in range(200)])
    fake.faults.add(Fault("dequeue", "forbidden", nth=4))
    consumer = spark.start()

    with pytest.raises(AccessDenied):
        consumer.latest(consumer.initial, None)

    assert fake.visible("orders") == 200


def test_an_undecodable_body_stops_the_query_and_everything_is_back(spark, fake):
    fake.put_many("orders", ["YQ==", "no base64!", "Yg=="])
    consumer = spark.start(messageEncoding="base64")

    with pytest.raises(UndecodableBody) as caught:
        consumer.latest(consumer.initial, None)

    assert "messageEncoding=base64" in str(caught.value)
    assert "no base64!" not in str(caught.value)
    assert fake.visible("orders") == 3
    assert fake.requests["delete"] == 0


def test_a_page_that_cannot_be_set_aside_is_given_back_whole(spark, fake):
    # Given a message that failed alone, and others behind it
    fake.put("orders", "guilty")
    first = spark.start(maxDequeueCount="1")
    e1, _ = batch(first, first.initial)
    second = spark.start(maxDequeueCount="1")
    second.plan(second.initial, e1)
    fake.put_many("orders", ["b", "c", "d"])

    # When the poison queue takes nothing any more
    fake.faults.add(Fault("put", "forbidden", queue="orders-poison"))
    with pytest.raises(AccessDenied):
        second.latest(e1, None)

    # Then nothing stays leased
    assert leased(fake) == []


# ── restarts: the last batch was committed ────────────────────────────────────────────────────────


def run_one_batch(spark, fake, *texts_, **options):
    """A first run that gives out one batch, and is killed after it."""
    fake.put_many("orders", texts_)
    consumer = spark.start(**options)
    end, _ = batch(consumer, consumer.initial)
    return consumer.initial, end


def test_a_committed_batch_is_settled_from_the_checkpoint(spark, fake):
    _, e1 = run_one_batch(spark, fake, "a", "b")

    again = spark.start()

    assert again.latest(e1, None) == e1
    assert fake.count("orders") == 0


def test_restored_deletes_are_over_before_anything_is_dequeued(spark, fake):
    # Given a committed batch whose deletes take long
    _, e1 = run_one_batch(spark, fake, *map(str, range(20)))
    fake.put("orders", "new")
    fake.reset_counters()
    fake.faults.add(Fault("delete", "slow", every=5, seconds=0.1))

    end, found = batch(spark.start(), e1)

    assert found == ["new"]
    operations = [entry.op for entry in fake.log if entry.op in ("delete", "dequeue")]
    assert operations.index("dequeue") == 20
    assert end["batch"] == 2


def test_restored_deletes_are_counted(spark, fake):
    _, e1 = run_one_batch(spark, fake, "a", "b", "c")
    fake.faults.add(Fault("delete", "not_found", times=1))
    consumer = spark.start()
    consumer.latest(e1, None)

    assert consumer.report().counters == Counters(deleted=2)


def test_without_the_restored_deletes_nothing_is_dequeued(spark, fake):
    _, e1 = run_one_batch(spark, fake, "a", "b")
    fake.faults.add(Fault("delete", "forbidden", nth=2))
    fake.reset_counters()

    with pytest.raises(AccessDenied):
        spark.start().latest(e1, None)

    assert fake.requests["dequeue"] == 0


def test_a_restored_receipt_that_is_dead_is_an_end(spark, fake):
    # Given a committed message that comes again before the restart, so its receipt is dead
    _, e1 = run_one_batch(spark, fake, "a")
    fake.clock.advance(3600)

    # When another consumer has it meanwhile
    other = spark.start()
    other.latest(other.initial, None)
    again = spark.start()

    # Then nothing of it is deleted with the old receipt, and its return is a row
    assert again.latest(e1, None) == e1
    assert texts(fake) == ["a"]
    fake.clock.advance(3600)
    assert batch(again, e1)[1] == ["a"]


def test_on_4_0_a_probe_alone_touches_nothing(spark, fake):
    # Given a batch that was logged; whether it was committed is not known yet
    _, e1 = run_one_batch(spark, fake, "a")
    again = spark.start()

    # When Spark probes with P(e1, e1)
    assert again.plan(e1, e1) == []

    # Then the messages of that batch are untouched
    assert texts(fake) == ["a"]
    assert fake.requests["delete"] == 0


def test_on_4_0_a_probe_after_a_bare_call_proves_nothing(spark, fake):
    # As Spark's wrapper for availableNow does it, of an uncommitted batch too.
    _, e1 = run_one_batch(spark, fake, "a")
    again = spark.start()
    assert again.latest(None, None) == again.initial

    assert again.plan(e1, e1) == []
    assert again.latest(None, None) == e1

    assert texts(fake) == ["a"]
    assert fake.requests["delete"] == 0


def test_on_4_0_a_committed_batch_is_settled_before_anything_is_dequeued(spark, fake):
    # A scheduled job: the leases of its last run have run out long since.
    _, e1 = run_one_batch(spark, fake, "a")
    fake.clock.advance(3600)
    again = spark.start()
    again.plan(e1, e1)
    fake.put("orders", "b")
    fake.reset_counters()

    e2 = again.latest(None, None)
    operations = [entry.op for entry in fake.log if entry.op in ("delete", "dequeue")]
    assert operations[:2] == ["delete", "dequeue"]
    again.committed(e1)
    assert bodies(again.plan(e1, e2)) == ["b"]

    assert texts(fake) == ["b"]
    assert again.latest(None, None) == e2
    assert fake.count("orders") == 0


def test_on_4_0_the_commit_that_was_lost_in_a_crash_is_made_up_for_by_planning(spark, fake):
    # Spark delivers no C(e1) after a crash between its log of batch 2 and that call.
    _, e1 = run_one_batch(spark, fake, "a")
    again = spark.start()
    again.plan(e1, e1)
    fake.put("orders", "b")

    e2 = again.latest(None, None)
    assert bodies(again.plan(e1, e2)) == ["b"]

    assert texts(fake) == ["b"]


def test_on_4_0_a_whole_run(spark, fake):
    consumer = spark.start()
    fake.put("orders", "a")

    e1 = consumer.latest(None, None)
    assert consumer.latest(None, None) == e1
    assert bodies(consumer.plan(consumer.initial, e1)) == ["a"]
    fake.put("orders", "b")
    e2 = consumer.latest(None, None)
    consumer.committed(e1)
    assert bodies(consumer.plan(e1, e2)) == ["b"]
    assert consumer.latest(None, None) == e2

    assert fake.count("orders") == 0


# ── restarts: the last batch has to be replayed ───────────────────────────────────────────────────


@pytest.mark.parametrize("probes", [True, False])
def test_an_unfinished_batch_is_available_again_at_once(spark, fake, probes):
    e0, e1 = run_one_batch(spark, fake, "a", "b")
    again = spark.start()

    if probes:
        assert again.plan(e1, e1) == []
    assert again.plan(e0, e1) == []

    assert fake.visible("orders") == 2
    e2 = again.latest(None if probes else e1, None)
    assert sorted(bodies(again.plan(e1, e2))) == ["a", "b"]
    assert e2["batch"] == 2
    again.latest(e2, None)
    assert fake.count("orders") == 0


def test_the_batch_before_an_unfinished_one_is_settled(spark, fake):
    fake.put("orders", "a")
    first = spark.start(make_workers=never_deletes)
    spark.running.remove(first)  # killed: it never stops
    e1, _ = batch(first, first.initial)
    fake.put("orders", "b")
    e2, _ = batch(first, e1)
    assert sorted(texts(fake)) == ["a", "b"]

    again = spark.start()
    assert again.plan(e1, e2) == []

    assert texts(fake) == ["b"]
    assert fake.visible("orders") == 1


def test_a_replayed_message_leased_anew_survives_the_commit_of_the_old_batch(spark, fake):
    # Given a replay of batch 1 that released X
    e0, e1 = run_one_batch(spark, fake, "X")
    again = spark.start()
    again.plan(e0, e1)

    # When X is leased anew into batch 2, and only then batch 1 is committed
    e2, found = batch(again, e1)
    again.committed(e1)

    # Then X is still there: its row is in batch 2, which is not committed
    assert found == ["X"]
    assert texts(fake) == ["X"]
    again.latest(e2, None)
    assert fake.count("orders") == 0


def test_the_same_where_the_old_receipt_was_dead_already(spark, fake):
    # Given a batch whose message somebody else took over, and a replay that finds it so
    e0, e1 = run_one_batch(spark, fake, "X")
    fake.clock.advance(3600)
    other = spark.start()
    other.latest(other.initial, None)
    again = spark.start()
    assert again.plan(e0, e1) == []
    assert fake.visible("orders") == 0

    # When X comes back into batch 2, and only then batch 1 is committed
    fake.clock.advance(3600)
    e2, found = batch(again, e1)
    again.committed(e1)

    assert found == ["X"]
    assert texts(fake) == ["X"]
    again.latest(e2, None)
    assert fake.count("orders") == 0


def test_a_third_run_that_finds_the_replayed_batch_committed_deletes_nothing(spark, fake):
    # Given a replay of batch 1 (which gave no rows), that Spark committed
    e0, e1 = run_one_batch(spark, fake, "X")
    second = spark.start()
    second.plan(e0, e1)

    # When a third run is told that batch 1 is committed
    third = spark.start()
    e2, found = batch(third, e1)

    # Then X, which was never processed, is not deleted, but given out
    assert found == ["X"]
    assert texts(fake) == ["X"]
    assert e2["batch"] == 2


def test_a_third_run_that_replays_the_batch_after_the_replay(spark, fake):
    e0, e1 = run_one_batch(spark, fake, "X")
    second = spark.start()
    second.plan(e0, e1)
    e2, _ = batch(second, e1)  # and is killed

    third = spark.start()
    assert third.plan(e1, e2) == []

    assert texts(fake) == ["X"]
    assert batch(third, e2)[1] == ["X"]


@pytest.mark.parametrize("fails_at", [1, 2, 3])
def test_a_replay_that_is_broken_off_is_done_again_by_the_next_run(spark, fake, fails_at):
    # Given a replay of three messages that fails at one of them
    e0, e1 = run_one_batch(spark, fake, "a", "b", "c")
    broken = spark.start(deleteParallelism="1")
    broken.open()
    fake.faults.add(Fault("update", "forbidden", nth=fails_at))
    with pytest.raises(AccessDenied):
        broken.plan(e0, e1)

    # When two further runs replay it, one after the other
    fake.faults.clear()
    for _ in range(2):
        again = spark.start()
        assert again.plan(e0, e1) == []

    # Then everything is there, once, and nothing was deleted
    e2, found = batch(again, e1)
    assert sorted(found) == ["a", "b", "c"]
    assert fake.requests["delete"] == 0
    again.latest(e2, None)
    assert fake.count("orders") == 0


def test_a_commit_of_a_batch_whose_replay_failed_deletes_nothing_by_a_living_receipt(spark, fake):
    # A run that could not make sure does not get as far as a commit; the next one replays.
    e0, e1 = run_one_batch(spark, fake, "a")
    broken = spark.start()
    broken.open()
    fake.faults.add(Fault("update", "forbidden"))

    with pytest.raises(AccessDenied):
        broken.plan(e0, e1)

    assert leased(fake) == ["a"]
    assert fake.requests["delete"] == 0


def test_a_replay_during_which_an_answer_is_lost(spark, fake):
    e0, e1 = run_one_batch(spark, fake, "a", "b")
    again = spark.start()
    again.open()
    fake.faults.add(Fault("update", "reply_lost", times=1))

    assert again.plan(e0, e1) == []

    assert fake.visible("orders") == 2
    assert sorted(batch(again, e1)[1]) == ["a", "b"]


def test_a_crash_before_the_offset_was_logged(spark, fake):
    # Given a run that leased two messages, and was killed before Spark logged the offset
    fake.put_many("orders", ["a", "b"])
    first = spark.start()
    first.latest(first.initial, None)

    # When the next run starts from nothing
    again = spark.start()
    assert again.latest(again.initial, None) == again.initial

    # Then they come when their time is over
    fake.clock.advance(3600)
    assert sorted(batch(again, again.initial)[1]) == ["a", "b"]


# ── stops ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_stop_leaves_a_batch_alone_that_may_have_failed(spark, fake):
    # Given a batch that was given out, and a foreachBatch that failed, so Spark stops the source
    fake.put_many("orders", ["a", "b"])
    consumer = spark.start()
    e1, _ = batch(consumer, consumer.initial)

    consumer.close()

    # Then it is neither deleted nor released: nobody here knows whether it was committed
    assert leased(fake) == ["a", "b"]
    assert fake.requests["delete"] == 0

    # And the next run, which knows, makes it available
    again = spark.start()
    again.plan(again.initial, e1)
    assert fake.visible("orders") == 2


def test_a_stop_finishes_deletes_that_are_owed(spark, fake):
    fake.put_many("orders", [str(n) for n in range(50)])
    consumer = spark.start()
    e1, _ = batch(consumer, consumer.initial)
    consumer.committed(e1)

    consumer.close()

    assert fake.count("orders") == 0


def test_a_stop_gives_back_what_is_held_for_a_later_batch(spark, fake):
    # Given two suspects of a batch that failed: one is given out alone, while the other waits
    e0, e1 = run_one_batch(spark, fake, "one", "two")
    consumer = spark.start(maxDequeueCount="1")
    consumer.plan(e0, e1)
    _, found = batch(consumer, e1)
    assert (len(found), sorted(leased(fake))) == (1, ["one", "two"])

    consumer.close()

    assert leased(fake) == found


def test_a_stop_never_raises(spark, fake):
    fake.put("orders", "a")
    consumer = spark.start()
    e1, _ = batch(consumer, consumer.initial)
    fake.permissions = "ra"
    consumer.committed(e1)

    consumer.close()


# ── messages that somebody updates ────────────────────────────────────────────────────────────────


def test_a_message_that_the_users_own_batch_updated_is_a_new_one(spark, fake):
    # Given a batch in which the user writes a new text into the message
    fake.put("orders", "draft")
    consumer = spark.start()
    e1 = consumer.latest(consumer.initial, None)
    (row,) = rows(consumer.plan(consumer.initial, e1))
    user_updates(fake, row, "final")

    # When that batch is committed
    e2, found = batch(consumer, e1)

    # Then the new text is a row of its own, and deleted after its own batch
    assert found == ["final"]
    assert texts(fake) == ["final"]
    consumer.latest(e2, None)
    assert fake.count("orders") == 0


def test_a_message_that_was_only_made_visible_gives_no_second_row(spark, fake):
    fake.put("orders", "a")
    consumer = spark.start()
    e1 = consumer.latest(consumer.initial, None)
    (row,) = rows(consumer.plan(consumer.initial, e1))
    user_updates(fake, row)

    assert batch(consumer, e1) == (e1, [])
    fake.wait_until(lambda: fake.count("orders") == 0, SOON)


def test_the_same_after_a_restart(spark, fake):
    fake.put("orders", "draft")
    consumer = spark.start()
    e1 = consumer.latest(consumer.initial, None)
    (row,) = rows(consumer.plan(consumer.initial, e1))
    user_updates(fake, row, "final")

    e2, found = batch(spark.start(), e1)

    assert (found, texts(fake)) == (["final"], ["final"])
    assert e2["batch"] == 2


def test_a_message_that_is_updated_while_it_waits_for_its_batch(spark, fake):
    # Given a suspect that is given out alone, while another message waits, leased
    fake.put("orders", "suspect")
    for _ in range(2):
        killed = spark.start()
        killed.latest(killed.initial, None)
        fake.clock.advance(3600)
    fake.put("orders", "draft")
    consumer = spark.start(maxDequeueCount="1", make_workers=AtOnce)
    consumer._gatherer.isolating = True  # as after a batch that failed
    start, found = batch(consumer, consumer.initial)
    assert found == ["suspect"]

    # When its lease runs out, and another consumer writes a new text into it
    fake.clock.advance(3600)
    other = spark.start()
    end = other.latest(other.initial, None)
    for row in rows(other.plan(other.initial, end)):
        if row["body"] == "draft":
            user_updates(fake, row, "final")

    # Then the new text is given out before it is deleted, and nothing fails
    given_out = []
    for _ in range(4):
        before = texts(fake)
        end = consumer.latest(start, None)
        found = bodies(consumer.plan(start, end))
        given_out += found
        if "final" not in given_out:
            assert "final" in before
        start = end
    assert given_out.count("final") == 1
    assert "final" not in texts(fake)


# ── checkpoints that do not fit ───────────────────────────────────────────────────────────────────


def test_a_checkpoint_of_another_account_is_refused(spark, fake):
    stranger = QueueOffset("stranger", 3).to_json()
    consumer = spark.start()

    with pytest.raises(CheckpointMismatch, match="'stranger'"):
        consumer.latest(stranger, None)
    assert fake.requests["dequeue"] == 0


def test_a_queue_may_be_added(spark, fake):
    _, e1 = run_one_batch(spark, fake, "a")
    fake.create_queue("others")
    fake.put("others", "b")

    assert batch(spark.start(queue="orders,others"), e1)[1] == ["b"]
    assert fake.count("orders") == 0


def test_a_queue_may_be_removed_when_its_last_batch_is_committed(spark, fake):
    fake.create_queue("others")
    _, e1 = run_one_batch(spark, fake, "a", queue="orders,others")

    assert spark.start(queue="others").latest(e1, None) == e1
    assert fake.count("orders") == 0


def test_a_queue_may_be_removed_even_if_it_was_deleted(spark, fake):
    fake.create_queue("others")
    _, e1 = run_one_batch(spark, fake, "a", queue="orders,others")
    fake.delete_queue("orders")

    assert spark.start(queue="others").latest(e1, None) == e1


def test_a_queue_whose_batch_has_to_be_replayed_may_not_be_removed(spark, fake):
    fake.create_queue("others")
    e0, e1 = run_one_batch(spark, fake, "a", queue="orders,others")

    with pytest.raises(CheckpointMismatch, match=r"\['orders'\].*add it until"):
        spark.start(queue="others").plan(e0, e1)

    assert leased(fake) == ["a"]


def test_rows_of_a_committed_batch_cannot_be_asked_for_again(spark, fake):
    fake.put("orders", "a")
    consumer = spark.start()
    e1, _ = batch(consumer, consumer.initial)
    consumer.latest(e1, None)

    with pytest.raises(AzQueueError, match="again after committing"):
        consumer.plan(consumer.initial, e1)


# ── availableNow ──────────────────────────────────────────────────────────────────────────────────


def run_what_is_there(consumer, start, meanwhile=lambda: None, replay=None):
    """An availableNow run; returns the last offset and the rows' bodies of each batch."""
    consumer.only_what_is_there()
    if replay:
        consumer.plan(start, replay)
        start = replay
    found = []
    while True:
        end = consumer.latest(start, None)
        if end == start:
            return end, found
        found.append(bodies(consumer.plan(start, end)))
        start = end
        meanwhile()


def test_a_run_reads_all_that_was_there_in_several_batches_and_settles_it(spark, fake):
    fake.put_many("orders", [str(n) for n in range(100)])
    consumer = spark.start(maxMessagesPerTrigger="30")

    _, found = run_what_is_there(consumer, consumer.initial)

    assert [len(part) for part in found] == [30, 30, 30, 10]
    assert sorted(flat(found)) == sorted(map(str, range(100)))
    assert fake.count("orders") == 0


def test_a_run_leaves_what_came_later(spark, fake):
    fake.put_many("orders", ["a", "b"])
    consumer = spark.start(maxMessagesPerTrigger="1")

    def meanwhile():
        fake.clock.advance(2)
        fake.put_many("orders", ["later"] * 3)

    _, found = run_what_is_there(consumer, consumer.initial, meanwhile)

    assert sorted(flat(found)) == ["a", "b"]
    assert texts(fake) == ["later"] * 6
    assert fake.visible("orders") == 6


def test_a_run_on_an_empty_queue_ends(spark, fake):
    consumer = spark.start()

    assert run_what_is_there(consumer, consumer.initial) == (consumer.initial, [])


def test_a_run_reads_what_its_own_replay_released(spark, fake):
    e0, e1 = run_one_batch(spark, fake, "a", "b")
    again = spark.start()

    _, found = run_what_is_there(again, e0, replay=e1)

    assert [sorted(part) for part in found] == [["a", "b"]]
    assert fake.count("orders") == 0


def test_a_run_gives_out_each_message_once_even_if_it_is_not_deleted(spark, fake):
    fake.put_many("orders", ["a", "b"])
    consumer = spark.start(deleteOnCommit="false", maxMessagesPerTrigger="1")

    end, found = run_what_is_there(
        consumer, consumer.initial, meanwhile=lambda: fake.clock.advance(3600)
    )

    assert sorted(flat(found)) == ["a", "b"]
    # What it looked at once more is given back, every time.
    assert fake.visible("orders") == 2
    consumer.latest(end, None)
    assert fake.visible("orders") == 2


def test_what_a_run_only_looked_at_is_no_suspect_in_the_next(spark, fake):
    # Given a run that leaves what came later, as every run of a busy queue does
    fake.put_many("orders", ["old"] * 20)
    first = spark.start(maxDequeueCount="5")

    def meanwhile():
        fake.clock.advance(2)
        fake.put_many("orders", ["later"] * 300)

    end, found = run_what_is_there(first, first.initial, meanwhile)
    assert [len(part) for part in found] == [20]

    # When the next run reads it
    fake.clock.advance(2)
    _, found = run_what_is_there(spark.start(maxDequeueCount="5"), end)

    # Then it does so in one batch: nothing ever failed
    assert [len(part) for part in found] == [300]
