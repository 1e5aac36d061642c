"""What is checked before anything is leased."""

import pytest
from consuming import bodies

from spark_azqueue.errors import AccessDenied, QueueNotFound


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


IN_WORDS = "a message of queue 'orders' that fails every batch will stop the query"


@pytest.mark.parametrize(
    ("permissions", "there", "says"),
    [
        ("up", True, "SAS letter 'a'"),
        ("up", False, "SAS letter 'a'"),
        ("aup", False, "poison queue 'orders-poison' does not exist, and the credential may not"),
    ],
)
def test_a_start_that_could_not_dead_letter_says_so_with_the_remedy(
    spark, fake, caplog, permissions, there, says
):
    fake.put("orders", "a")
    if there:
        fake.create_queue("orders-poison")
    fake.permissions = permissions
    consumer = spark.start()

    assert bodies(consumer.plan(consumer.initial, consumer.latest(consumer.initial, None))) == ["a"]
    (said,) = [each for each in caplog.messages if IN_WORDS in each]
    assert says in said
    assert "set maxDequeueCount=none" in said

    # What is asked for is an error
    asked = spark.start(maxDequeueCount="5")
    with pytest.raises(AccessDenied, match=says):
        asked.latest(asked.initial, None)


@pytest.mark.parametrize(
    ("permissions", "options"),
    [("aupc", {}), ("up", {"maxDequeueCount": "none"}), ("aupc", {"poisonQueue": "bad"})],
)
def test_a_start_creates_no_poison_queue(spark, fake, caplog, permissions, options):
    fake.set_metadata("orders", {"owner": "us"})
    fake.permissions = permissions
    consumer = spark.start(**options)

    consumer.latest(consumer.initial, None)

    assert IN_WORDS not in caplog.text
    assert ("create", 201) not in fake.statuses
