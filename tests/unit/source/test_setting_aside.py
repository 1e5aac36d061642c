"""A poison message is copied first and deleted then: it is in one of the two queues at any time."""

import contextlib

import pytest
from consuming import batch, bodies

from spark_azqueue.errors import AccessDenied, TooManyPoison, UndecodableBody
from spark_azqueue.options.parse import source_config
from spark_azqueue.service.envelopes import envelope_of
from spark_azqueue.source.columns import source_columns
from spark_azqueue.source.readers import AzQueueStreamReader
from spark_azqueue.source.suspects import REPEATS
from spark_azqueue.testing import Fault

POISON = "orders-poison"


def texts(fake, queue):
    return [message.text for message in fake.messages(queue)]


def start(spark, **options):
    """A consumer whose clock only sleeping moves: an idle queue is asked again at once."""
    slept = []
    spark.fake.create_queue(POISON)
    return spark.start(clock=lambda: sum(slept), sleep=slept.append, **options)


def one_that_failed_alone(spark, fake):
    """A consumer whose next look finds a message that was alone in each batch that failed."""
    fake.put("orders", "bad")
    return after_failures(spark, maxDequeueCount="1", poisonFormat="copy")


def after_failures(spark, **options):
    """A consumer whose next look finds a message that failed alone, so often that it is poison."""
    consumer = start(spark, **options)
    begin = consumer.initial
    for _ in range(5):
        end, _ = batch(consumer, begin)
        consumer = start(spark, **options)
        consumer.plan(begin, end)
        begin = end
    return consumer, begin


def one_that_does_not_decode(spark, fake):
    """A consumer whose next look finds a message that is no base64."""
    asked = {"messageEncoding": "base64", "poisonFormat": "copy"}
    consumer = start(spark, onUndecodable="poison", **asked)
    consumer.engine.open()
    fake.put("orders", "bad")
    return consumer, consumer.initial


@pytest.fixture(params=[one_that_failed_alone, one_that_does_not_decode])
def poisoned(request, spark, fake):
    """A consumer that is about to set the message "bad" aside, and where it starts."""
    return request.param(spark, fake)


def test_a_message_is_copied_unchanged_once_and_deleted_once(poisoned, fake):
    consumer, begin = poisoned
    consumer.latest(begin, None)
    consumer.close()

    assert (texts(fake, "orders"), texts(fake, POISON)) == ([], ["bad"])
    moves = [
        (entry.op, entry.queue)
        for entry in fake.log
        if (entry.op, entry.status) in (("put", 201), ("delete", 204))
    ]
    assert moves == [("put", POISON), ("delete", "orders")]


def test_a_message_that_cannot_be_copied_stays_in_its_queue(poisoned, fake):
    # Given a poison queue that takes nothing any more
    consumer, begin = poisoned
    fake.faults.add(Fault("put", "forbidden", queue=POISON))
    before = fake.requests["delete"]  # of batches that failed

    # When the message is to be set aside
    with pytest.raises(AccessDenied, match=POISON):
        consumer.latest(begin, None)
    consumer.close()  # which finishes the deletes that were begun

    # Then it was not deleted, and is there for whoever comes next
    assert fake.requests["delete"] == before
    assert (texts(fake, "orders"), texts(fake, POISON)) == (["bad"], [])
    assert fake.visible("orders") == 1


def test_it_is_not_deleted_while_its_copy_is_tried_again(poisoned, fake):
    consumer, begin = poisoned
    fake.faults.add(Fault("put", "busy_503", queue=POISON, times=3, seconds=0))

    consumer.latest(begin, None)
    consumer.close()

    puts = [n for n, entry in enumerate(fake.log) if (entry.op, entry.status) == ("put", 201)]
    deletes = [n for n, e in enumerate(fake.log) if (e.op, e.status) == ("delete", 204)]
    assert len(puts) == len(deletes) == 1
    assert puts[0] < deletes[0]


def test_a_copy_whose_answer_was_lost_is_made_again_rather_than_not_at_all(poisoned, fake):
    consumer, begin = poisoned
    fake.faults.add(Fault("put", "reply_lost", queue=POISON, times=1))

    consumer.latest(begin, None)
    consumer.close()

    assert (texts(fake, "orders"), texts(fake, POISON)) == ([], ["bad", "bad"])


def test_one_set_aside_is_no_row_and_the_others_are(poisoned, fake):
    consumer, begin = poisoned
    fake.put_many("orders", ["Z29vZA=="] * 3)

    found = []
    for _ in range(40):
        end = consumer.latest(begin, None)
        found += bodies(consumer.plan(begin, end))
        begin = end

    assert len(found) == 3
    assert "bad" not in found
    assert fake.count("orders") == 0


def test_a_copy_never_expires(poisoned, fake):
    consumer, begin = poisoned

    consumer.latest(begin, None)

    fake.clock.advance(365 * 24 * 3600)
    assert texts(fake, POISON) == ["bad"]


def test_a_message_whose_text_was_damaged_on_the_way_is_not_copied(spark, fake):
    # What came is not what stands in the queue, so a copy of it would be another message.
    consumer = start(spark, onUndecodable="poison")
    consumer.engine.open()
    fake.put("orders", "good")
    fake.faults.add(Fault("dequeue", "broken_xml", times=1))

    with contextlib.suppress(UndecodableBody):
        consumer.latest(consumer.initial, None)
    consumer.close()

    assert (texts(fake, "orders"), texts(fake, POISON)) == (["good"], [])


@pytest.mark.parametrize("format", ["copy", "envelope"])
def test_a_text_that_xml_cannot_hold_is_set_aside_in_an_envelope(spark, fake, format):
    """The service refuses its copy, so the query would stop for good at this message."""
    options = {"onUndecodable": "permissive", "maxDequeueCount": "1", "poisonFormat": format}
    fake.put("orders", "bad")
    fake.faults.add(Fault("dequeue", "broken_xml", times=6))
    consumer, end = after_failures(spark, **options)

    consumer.latest(end, None)
    consumer.close()

    (copy,) = texts(fake, POISON)
    assert "\x01" in envelope_of(copy).body
    assert fake.count("orders") == 0


def test_the_copy_says_why_and_holds_the_text_unchanged(spark, fake):
    consumer = start(spark, onUndecodable="poison", messageEncoding="base64")
    consumer.engine.open()
    fake.put("orders", "no base64 <&>\r\n")

    consumer.latest(consumer.initial, None)
    consumer.close()

    (text,) = texts(fake, POISON)
    envelope = envelope_of(text)
    assert "the text is not base64" in envelope.reason
    assert "goes back" not in envelope.reason, "it is moved"
    assert (envelope.queue, envelope.body) == ("orders", "no base64 <&>\r\n")
    assert texts(fake, "orders") == []


def test_a_text_that_leaves_no_room_for_an_envelope_is_copied_unchanged(spark, fake):
    consumer = start(spark, onUndecodable="poison", messageEncoding="base64")
    consumer.engine.open()
    fake.put("orders", "?" * 65_536)

    consumer.latest(consumer.initial, None)
    consumer.close()

    assert (texts(fake, "orders"), texts(fake, POISON)) == ([], ["?" * 65_536])


def test_a_poison_queue_that_went_since_the_start_is_created_again(poisoned, fake):
    """As with a queue of a pattern, whose messages a log still has: without, no start gets by."""
    consumer, begin = poisoned
    fake.delete_queue(POISON)
    consumer.latest(begin, None)
    consumer.close()

    assert (texts(fake, "orders"), texts(fake, POISON)) == ([], ["bad"])


def test_a_log_outlives_the_queue_and_the_poison_queue_of_its_message(fake, tmp_path):
    """Of a pattern. Before, each start ended with QueueNotFound, also with createQueue=true."""
    fake.create_queue("orders-1")
    fake.put("orders-1", "bad")
    given = {"queue": "orders-*", "maxDequeueCount": "1", "writeAheadLog": f"file:{tmp_path}/log"}
    given["poisonFormat"] = "copy"
    config = source_config({"secret.connectionString": fake.connection_string, **given}, {})
    columns = source_columns(config.body_type, permissive=False)
    start = end = None
    planned = []
    for number in range(REPEATS + 2):
        reader = AzQueueStreamReader(config, columns, columns)
        start = start or reader.initialOffset()
        end = end or reader.latestOffset(start)
        planned.append(len(reader.partitions(start, end)))
        if planned[-1] == 0 and number < REPEATS + 1:  # it was given up, and comes again
            start = end
            while end == start:  # its release is on the way
                end = reader.latestOffset(start)
            reader.partitions(start, end)  # and the batch fails
        reader.stop()
        if number == REPEATS:
            fake.delete_queue("orders-1")

    assert (planned, texts(fake, "orders-1-poison")) == ([*[1] * REPEATS, 0, 0], ["bad"])


def test_too_many_poison_messages_end_the_query_and_none_is_moved(spark, fake):
    fake.put("orders", "bad")
    with pytest.raises(TooManyPoison, match="'maxPoisonMessages'"):
        after_failures(spark, maxDequeueCount="1", maxPoisonMessages="0")
    assert (texts(fake, "orders"), fake.count(POISON)) == (["bad"], 0)
