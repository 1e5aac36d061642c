"""What the options make together: complete, frozen, checked."""

import dataclasses
import pickle

import pytest
from refs import ref

from spark_azqueue.errors import InvalidOption
from spark_azqueue.options.choices import (
    IsolationLevel,
    MessageFormat,
    OnRowError,
    OnStaleReceipt,
    OnUndecodable,
    Operation,
    PoisonFormat,
    QueuePriority,
    Side,
)
from spark_azqueue.options.option import taken
from spark_azqueue.options.parse import OPTIONS, parse, sink_config, source_config
from spark_azqueue.options.sink_config import SinkConfig
from spark_azqueue.options.source_config import SourceConfig
from spark_azqueue.service.encoding import BodyType, Encoding
from spark_azqueue.service.messages import delay_not_below_ttl

ACCESS = {"accountUrl": "https://acc.queue.core.windows.net", "sasToken": "sig=s3cr3t"}


def source(**given):
    return source_config({**ACCESS, "queue": "orders", **given}, {})


def sink(**given):
    return sink_config({**ACCESS, "queue": "orders", **given}, {})


def refused(make, **given):
    with pytest.raises(InvalidOption) as caught:
        make(**given)
    return str(caught.value)


def test_the_defaults_of_a_source():
    config = source()

    assert config.queues == (ref("orders", "acc"),)
    assert config.encoding is Encoding.NONE
    assert config.body_type is BodyType.STRING
    assert config.on_undecodable is OnUndecodable.POISON
    assert config.visibility_timeout is None
    assert config.delete_on_commit is True
    assert config.create_queue is False
    assert config.max_dequeue_count == 5
    assert config.poison_format is PoisonFormat.ENVELOPE
    assert not config.asks_for_poison


def test_the_defaults_of_a_sink():
    config = sink()

    assert config.queue == "orders"
    assert (config.visibility_delay, config.time_to_live) == (0, None)
    assert (config.create_queue, config.ignore_extra_columns) == (False, False)


FOR_THE_SOURCE = [
    ("queue", "b-b, a-a", "queues", (ref("b-b", "acc"), ref("a-a", "acc"))),
    ("messageEncoding", "BASE64", "encoding", Encoding.BASE64),
    ("bodyType", "binary", "body_type", BodyType.BINARY),
    ("onUndecodable", "permissive", "on_undecodable", OnUndecodable.PERMISSIVE),
    ("createQueue", "true", "create_queue", True),
    ("visibilityTimeout", "5 minutes", "visibility_timeout", 300),
    ("maxMessagesPerTrigger", "7", "max_messages", 7),
    ("minMessagesPerTrigger", "7", "min_messages", 7),
    ("maxTriggerDelay", "2 minutes", "max_trigger_delay", 120.0),
    ("maxBytesPerTrigger", "1m", "max_bytes", 2**20),
    ("messagesPerPartition", "8", "messages_per_partition", 8),
    ("maxPollInterval", "2", "max_poll_interval", 2),
    ("parallelism", "3", "parallelism", 3),
    ("parallelism", " AUTO ", "parallelism", None),
    ("deleteOnCommit", "false", "delete_on_commit", False),
    ("maxDequeueCount", "5", "max_dequeue_count", 5),
    ("maxPoisonMessages", "7", "max_poison_messages", 7),
    ("messageEncoding", "auto", "encoding", Encoding.AUTO),
    ("peekMessages", "1", "peek_messages", 1),
    ("dequeueAhead", "false", "dequeue_ahead", False),
    ("poisonQueue", "trash", "poison_queue", "trash"),
    ("poisonFormat", "COPY", "poison_format", PoisonFormat.COPY),
    ("queuePriority", "STRICT", "queue_priority", QueuePriority.STRICT),
    ("isolationLevel", "READCOMMITTED", "isolation_level", IsolationLevel.READ_COMMITTED),
]


@pytest.mark.parametrize(("option", "value", "field", "found"), FOR_THE_SOURCE)
def test_every_option_of_the_source_arrives(option, value, field, found):
    needs = {
        "poisonQueue": {"maxDequeueCount": "3"},
        "poisonFormat": {"maxDequeueCount": "3"},
        "maxTriggerDelay": {"minMessagesPerTrigger": "3"},
    }.get(option, {})

    assert getattr(source(**needs, **{option: value}), field) == found


FOR_THE_SINK = [
    ("messageEncoding", "base64", "encoding", Encoding.BASE64),
    ("createQueue", "true", "create_queue", True),
    ("defaultQueue", "others", "default_queue", "others"),
    ("operation", "DELETE", "operation", Operation.DELETE),
    ("messageFormat", "CloudEvents", "message_format", MessageFormat.CLOUD_EVENTS),
    ("onStaleReceipt", "fail", "on_stale_receipt", OnStaleReceipt.FAIL),
    ("visibilityDelay", "1 minute", "visibility_delay", 60),
    ("timeToLive", "-1", "time_to_live", -1),
    ("parallelism", "2", "parallelism", 2),
    ("parallelism", "auto", "parallelism", None),
    ("ignoreExtraColumns", "true", "ignore_extra_columns", True),
    ("onRowError", "QUEUE", "on_row_error", OnRowError.QUEUE),
    ("rowErrorQueue", "rejects", "row_error_queue", "rejects"),
]


@pytest.mark.parametrize(("option", "value", "field", "found"), FOR_THE_SINK)
def test_every_option_of_the_sink_arrives(option, value, field, found):
    needs = {
        "onRowError": {"rowErrorQueue": "rejects"},
        "rowErrorQueue": {"onRowError": "queue"},
        "onStaleReceipt": {"operation": "update"},
    }

    given = {"queue": "orders", **needs.get(option, {}), option: value}
    if option == "defaultQueue":
        del given["queue"]

    assert getattr(sink_config({**ACCESS, **given}, {}), field) == found


def test_a_default_queue_is_for_rows_that_name_none():
    given = {**ACCESS, "defaultQueue": "others"}
    assert sink_config(given, {}).queue_if_none_is_named == "others"
    assert sink().queue_if_none_is_named == "orders"
    assert sink_config(ACCESS, {}).queue_if_none_is_named is None

    assert "remove one" in refused(sink, defaultQueue="others")
    said = refused(lambda: sink_config({**given, "operation": "update"}, {}))
    assert "'defaultQueue' goes with operation=enqueue" in said
    aside = {"onRowError": "queue", "rowErrorQueue": "others"}
    assert "other rows go there, too" in refused(lambda: sink_config({**given, **aside}, {}))


@pytest.mark.parametrize(
    ("side", "rows"), [(SourceConfig, FOR_THE_SOURCE), (SinkConfig, FOR_THE_SINK)]
)
def test_the_lists_above_leave_no_option_out_that_fills_a_field(side, rows):
    fills = taken(side, {option.name: option.name for option in OPTIONS})

    assert {(name, field) for field, name in fills.items()} <= {
        (name, field) for name, _, field, _ in rows
    }


@pytest.mark.parametrize(
    ("config", "side"), [(source_config, Side.SOURCE), (sink_config, Side.SINK)]
)
def test_options_are_parsed_once_for_all_processes_of_spark(config, side):
    given = {**ACCESS, "queue": "orders", "messageEncoding": "base64"}
    parsed = parse(given, Side.BOTH)

    travelled = pickle.loads(pickle.dumps(parsed))
    assert config(travelled, {}) == config(given, {})
    assert travelled.written == given
    assert parse(parsed, side) is parsed


def test_the_side_of_parsed_options_is_checked():
    parsed = parse({**ACCESS, "queue": "orders", "timeToLive": "1 hour"}, Side.BOTH)

    assert "for the sink, not for the source" in refused(lambda: source_config(parsed, {}))


def test_a_source_needs_a_queue_and_a_sink_does_not():
    assert "option 'queue' is missing" in refused(lambda: source_config(ACCESS, {}))
    assert sink_config(ACCESS, {}).queue is None


@pytest.mark.parametrize("written", ["30000", " 604800 ", "3601"])
def test_a_long_visibility_timeout_without_a_unit_is_doubted(written):
    (doubt,) = source(VISIBILITYTIMEOUT=written).doubts

    assert f"'visibilityTimeout' is {written.strip()}, and a number alone is in seconds" in doubt
    assert f"{int(written) / 3600:.1f} hours" in doubt


@pytest.mark.parametrize(
    "written", ["auto", "30", "3600", "30000 seconds", "30000ms", "8 hours", "30 minutes"]
)
def test_other_visibility_timeouts_are_not_doubted(written):
    assert source(visibilityTimeout=written).doubts == ()
    assert source().doubts == ()


def test_settings_of_the_queue_that_nothing_takes_are_doubted():
    both = {"visibilityTimeout": "60", "maxDequeueCount": "5"}
    (doubt,) = source(settingsFromQueue="true", **both).doubts
    assert "settingsFromQueue=true has no effect" in doubt
    for name in both:
        assert source(settingsFromQueue="true", **{name: both[name]}).doubts == ()


def test_parsed_options_show_no_values():
    parsed = parse({"secret.connectionString": "AccountName=a;AccountKey=c2VjcmV0"}, Side.SINK)
    assert repr(parsed) == "ParsedOptions(secret.connectionString)"


@pytest.mark.parametrize(
    ("name", "written", "says"),
    [
        ("maxPollInterval", "500", "8.3 minutes. A message that comes into an empty queue waits"),
        ("maxPollInterval", "61", "1.0 minutes"),
        ("maxTriggerDelay", "30000", "8.3 hours. A message may wait for others for so long"),
    ],
)
def test_other_long_times_without_a_unit_are_doubted_too(name, written, says):
    (doubt,) = source(minMessagesPerTrigger="5", **{name: written}).doubts

    assert f"'{name}' is {written}, and a number alone is in seconds: " in doubt
    assert says in doubt


@pytest.mark.parametrize(
    ("name", "written"),
    [("maxPollInterval", "60"), ("maxPollInterval", "10 min"), ("maxTriggerDelay", "900")],
)
def test_shorter_ones_and_those_with_a_unit_are_not(name, written):
    assert source(minMessagesPerTrigger="5", **{name: written}).doubts == ()


def test_strict_priority_is_doubted_with_one_queue_alone():
    (doubt,) = source(queuePriority="strict").doubts
    assert "queuePriority=strict has no effect with one queue ('orders')" in doubt

    assert source(queue="urgent,orders", queuePriority="strict").doubts == ()
    assert source(queue="orders-*", queuePriority="strict").doubts == ()
    assert source(queuePriority="fair").doubts == ()


@pytest.mark.parametrize("value", ["fail", "ignore"])
def test_new_messages_have_no_receipt_that_may_be_stale(value):
    said = refused(sink, onStaleReceipt=value)
    assert "'onStaleReceipt' is for operation=update and delete" in said


def test_a_sink_takes_one_queue():
    assert "names 2 queues; the sink takes one" in refused(sink, queue="abc,def")


def test_both_need_a_credential():
    for make in (source_config, sink_config):
        assert "no credential" in refused(lambda make=make: make({"queue": "orders"}, {}))


@pytest.mark.parametrize(
    ("given", "on_undecodable"),
    [
        ({}, OnUndecodable.POISON),
        ({"maxDequeueCount": "none"}, OnUndecodable.FAIL),
        ({"maxDequeueCount": "0"}, OnUndecodable.FAIL),
        ({"writeAheadLog": "file:/log", "deleteAfter": "log"}, OnUndecodable.POISON),
        ({"writeAheadLog": "file:/log", "maxDequeueCount": "none"}, OnUndecodable.FAIL),
        ({"maxDequeueCount": "5", "onUndecodable": "fail"}, OnUndecodable.FAIL),
        ({"onUndecodable": "poison"}, OnUndecodable.POISON),
    ],
)
def test_undecodable_messages_go_where_poison_goes_unless_said_otherwise(given, on_undecodable):
    assert source(**given).on_undecodable is on_undecodable


def test_each_queue_has_its_poison_queue_unless_one_is_named():
    by_default = source(queue="abc,def", maxDequeueCount="3")
    named = source(queue="abc,def", maxDequeueCount="3", poisonQueue="trash")

    assert [by_default.poison_queue_for(q) for q in by_default.queues] == [
        ref("abc-poison", "acc"),
        ref("def-poison", "acc"),
    ]
    assert [named.poison_queue_for(q) for q in named.queues] == [ref("trash", "acc")] * 2


NONE = {"maxDequeueCount": "none"}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (
            {**NONE, "poisonQueue": "trash"},
            "'poisonQueue' is set, but nothing would ever go into a poison",
        ),
        (
            {**NONE, "poisonFormat": "copy"},
            "'poisonFormat' is set, but nothing would ever go into a",
        ),
        ({"maxDequeueCount": "3", "poisonQueue": "orders"}, "is one of the queues to read"),
        ({"maxDequeueCount": "3", "queue": "abc,abc-poison"}, "is one of the queues to read"),
        ({"maxDequeueCount": "3", "queue": "abc*,abc-poison"}, "is one of the queues to read"),
        ({"maxDequeueCount": "3", "queue": "a" * 60}, "no legal name"),
    ],
)
def test_a_poison_queue_that_cannot_work_is_refused(given, says):
    assert says in refused(source, **given)


def test_a_long_queue_name_is_fine_where_nothing_is_set_aside():
    assert source(queue="a" * 63, **NONE).queues == (ref("a" * 63, "acc"),)


@pytest.mark.parametrize(
    ("queue", "says"),
    [("a" * 63, "no legal name"), ("orders,orders-poison", "is one of the queues to read")],
)
def test_by_default_a_poison_queue_that_cannot_be_is_a_warning(queue, says):
    config = source(queue=queue)

    assert (config.max_dequeue_count, config.on_undecodable) == (None, OnUndecodable.FAIL)
    (doubt,) = config.doubts
    assert doubt.startswith("no message is dead-lettered: ")
    assert says in doubt
    assert "'poisonQueue', or maxDequeueCount=none" in doubt


@pytest.mark.parametrize(
    ("delay", "ttl", "fits"),
    [
        (0, 1, True),
        (1, 1, False),
        (2, 1, False),
        (604_799, None, True),
        (604_800, None, False),  # the service's own 7 days
        (604_800, -1, True),
        (604_800, 604_801, True),
    ],
)
def test_a_delay_is_below_the_time_to_live(delay, ttl, fits):
    assert (delay_not_below_ttl(delay, ttl) is None) is fits


def test_a_sink_refuses_a_delay_beyond_its_time_to_live():
    text = refused(sink, visibilityDelay="60", timeToLive="1 minute")

    assert "'visibilityDelay' and 'timeToLive'" in text
    assert "60 s is not below the time to live of 60 s" in text


def test_a_transaction_refuses_a_delay_that_ends_with_the_message():
    text = refused(sink, visibilityDelay="604741", transactionLog="file:/log")
    assert "option 'visibilityDelay': the delay of 604741 s is too long" in text
    sink(visibilityDelay="604740", transactionLog="file:/log")


@pytest.mark.parametrize("make", [source, sink])
def test_a_config_travels_and_stays_as_it_is(make):
    config = make()

    assert pickle.loads(pickle.dumps(config)) == config
    assert hash(config) == hash(make())  # no field can be changed
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.account = None


@pytest.mark.parametrize("operation", ["update", "delete"])
def test_a_time_to_live_cannot_be_changed(operation):
    text = refused(sink, operation=operation, timeToLive="60")

    assert f"operation=enqueue, not with {operation}" in text


def test_a_delete_has_no_delay():
    assert "no meaning with operation=delete" in refused(
        sink, operation="delete", visibilityDelay="60"
    )
    assert sink(operation="update", visibilityDelay="7 days").visibility_delay == 604_800


def test_how_to_write_cannot_be_guessed():
    assert "messageEncoding=auto is for reading only" in refused(sink, messageEncoding="auto")


@pytest.mark.parametrize("count", ["0", "33", "x"])
def test_a_peek_shows_one_to_32_messages(count):
    assert "a whole number from 1 to 32" in refused(source, peekMessages=count)


BLOB = {"largeBody": "blob", "blobContainer": "bodies"}


@pytest.mark.parametrize("make", [source, sink])
def test_large_bodies_go_by_blob_where_that_is_asked_for(make):
    assert make().claim_check is None

    place = make(**BLOB).claim_check
    assert (place.account.url, place.container) == ("https://acc.blob.core.windows.net", "bodies")
    assert place.delete is True
    assert source(**BLOB, deleteBlob="false").claim_check.delete is False


@pytest.mark.parametrize("make", [source, sink])
@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"largeBody": "blob"}, "needs 'blobContainer'"),
        ({"largeBody": "file"}, "expected one of fail, blob"),
        ({"blobContainer": "bodies"}, "'blobContainer' is set, but no body ever goes into a blob"),
        ({"largeBody": "blob", "blobContainer": "No"}, "expected a container name"),
        (
            {"blobAccountUrl": "https://acc.blob.core.windows.net"},
            "'blobAccountUrl' is set, but no",
        ),
    ],
)
def test_options_for_blobs_that_do_not_fit_are_refused(make, given, says):
    assert says in refused(make, **given)


def test_a_config_with_blobs_travels_and_shows_no_secret():
    config = sink(
        **BLOB,
        **{"secret.blobConnectionString": "AccountName=other;AccountKey=c2VjcmV0"},
    )

    assert pickle.loads(pickle.dumps(config)) == config
    assert "c2VjcmV0" not in repr(config)


@pytest.mark.parametrize("service", ["blob", "dfs", "table", "file"])
def test_the_address_of_another_service_is_refused_before_it_is_asked(service):
    url = f"https://acc.{service}.core.windows.net"
    says = refused(source, accountUrl=url)

    assert f"'accountUrl' is '{url}'" in says
    assert "expected https://<account>.queue.core.windows.net" in says


def test_blobs_are_not_looked_for_in_queues():
    says = refused(source, **BLOB, blobAccountUrl="https://acc.queue.core.windows.net")

    assert "expected https://<account>.blob.core.windows.net" in says
