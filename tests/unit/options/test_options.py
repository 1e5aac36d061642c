"""The option table: parsing, defaults, and errors that name what was meant."""

import pytest
from reference import options_page

from spark_azqueue.errors import InvalidOption
from spark_azqueue.options.choices import Side
from spark_azqueue.options.parse import OPTIONS, parse
from spark_azqueue.service.messages import NEVER_EXPIRES

BY_NAME = {option.name: option for option in OPTIONS}


def refused(given, side):
    with pytest.raises(InvalidOption) as caught:
        parse(given, side)
    return str(caught.value)


def test_each_name_is_there_once_however_it_is_spelled():
    assert len({option.name.lower() for option in OPTIONS}) == len(OPTIONS)


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("isolateAfter", "'maxDequeueCount'"),
        ("connectionString", "'secret.connectionString'"),
        ("onFailure", "'transactionLog'"),
        ("receiveParallelism", "'parallelism'"),
        ("deleteParallelism", "'parallelism'"),
        ("sendParallelism", "'parallelism'"),
        ("writeAheadLogRetentionTime", "'writeAheadLogRetention'"),
        ("startingBatch", "'startingAt'"),
        ("startingTimestamp", "'startingAt'"),
        ("endingBatch", "'endingAt'"),
        ("endingTimestamp", "'endingAt'"),
        ("sasProviderArgument", "package.module:callable(text)"),
        ("credentialProviderArgument", "package.module:callable(text)"),
    ],
)
def test_an_option_that_was_removed_says_what_replaces_it(name, instead):
    text = refused({name: "AccountKey=c2VjcmV0"}, Side.BOTH)
    assert instead in text
    assert "c2VjcmV0" not in text


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_every_option_is_described(option):
    assert option.doc.strip().endswith(".")
    assert "|" not in option.doc  # it stands in a table


@pytest.mark.parametrize("side", [Side.SOURCE, Side.SINK, Side.BOTH])
def test_without_options_every_value_is_its_default(side):
    assert parse({}, side) == {option.name: option.default for option in OPTIONS}


@pytest.mark.parametrize(
    "option",
    [o for o in OPTIONS if o.default is not None or o.shown == "auto"],
    ids=lambda option: option.name,
)
def test_the_default_that_is_shown_is_the_one_that_holds(option):
    assert option.parse(option.shown) == option.default


@pytest.mark.parametrize("spelling", ["maxMessagesPerTrigger", "maxmessagespertrigger"])
def test_names_are_found_in_any_case_and_returned_as_users_spell_them(spelling):
    assert parse({spelling: "7"}, Side.SOURCE)["maxMessagesPerTrigger"] == 7


def test_none_counts_as_not_given():
    assert parse({"queue": None}, Side.SOURCE)["queue"] is None


@pytest.mark.parametrize(
    "name", ["checkpointLocation", "queryname", "outputMode", "triggerInterval"]
)
def test_options_that_spark_passes_on_are_left_alone(name):
    assert parse({name: "x"}, Side.SINK) == parse({}, Side.SINK)


@pytest.mark.parametrize(
    ("name", "side", "says"),
    [
        ("queu", Side.SOURCE, "did you mean 'queue'?"),
        ("maxmessages", Side.SOURCE, "did you mean 'maxMessagesPerTrigger'?"),
        ("visibilitytimout", Side.SOURCE, "did you mean 'visibilityTimeout'?"),
        ("ttl", Side.SINK, "Known options: queue, "),
        ("startingoffsets", Side.SOURCE, "'startingoffsets': a queue has no offsets"),
        ("subscribe", Side.SOURCE, "name the queue in the option 'queue'"),
        ("subscribepattern", Side.SOURCE, "patterns such as orders-*"),
        ("topic", Side.SINK, "name the queue in the option 'queue'"),
        ("kafka.bootstrap.servers", Side.BOTH, "'secret.connectionString', or by 'accountUrl'"),
        ("kafka.security.protocol", Side.BOTH, "'secret.connectionString', or by 'accountUrl'"),
        ("kafka.group.id", Side.SOURCE, "each message goes to one of them"),
        ("maxoffsetspertrigger", Side.SOURCE, "'maxMessagesPerTrigger'"),
        ("path", Side.SOURCE, "azqueue takes no path; name the queue with option 'queue'"),
    ],
)
def test_an_unknown_option_is_refused_with_the_nearest_known(name, side, says):
    assert says in refused({name: "1"}, side)


@pytest.mark.parametrize("name", ["startingoffsets", "offsets", "startfrom", "includeheaders"])
def test_what_is_like_no_option_is_not_taken_for_one(name):
    assert "did you mean" not in refused({name: "earliest"}, Side.SOURCE)


def test_a_hint_is_never_an_option_of_the_other_side():
    assert "visibilityTimeout" not in refused({"visibilitytimeouts": "1"}, Side.SINK)


@pytest.mark.parametrize(
    ("name", "side", "says"),
    [
        ("timeToLive", Side.SOURCE, "option 'timeToLive' is for the sink, not for the source"),
        ("maxPollInterval", Side.SINK, "option 'maxPollInterval' is for the source"),
    ],
)
def test_an_option_of_the_other_side_is_refused(name, side, says):
    assert says in refused({name: "1"}, side)


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_both_sides_together_know_every_option(option):
    assert option.side & Side.BOTH


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("queue", "Orders", "option 'queue': 'Orders' is not allowed; expected a queue name"),
        ("messageEncoding", "b64", "'b64' is not allowed; expected one of none, base64"),
        ("createQueue", "yes", "expected true or false"),
        ("visibilityTimeout", "0", "expected auto, or whole seconds from 1 second to 7 days"),
        ("visibilityTimeout", "8 days", "expected auto, or whole seconds from 1 second"),
        ("visibilityTimeout", "1500 ms", "expected auto, or whole seconds"),
        ("maxMessagesPerTrigger", "0", "from 1 to 100,000"),
        ("maxBytesPerTrigger", "1k", "bytes from 65,536"),
        ("maxPollInterval", "0", "a duration from 0.1 seconds to 1 hour"),
        ("bodyType", "bytes", "one of string, binary"),
        ("onUndecodable", "drop", "one of fail, poison, permissive"),
        ("maxDequeueCount", "-1", "none, or a whole number from 1 to"),
        ("poisonQueue", "a,b", "a queue name"),
        ("timeToLive", "0", "whole seconds from 1 up, or -1"),
        ("timeToLive", "-2", "whole seconds from 1 up, or -1"),
        ("timeToLive", "1.5", "whole seconds from 1 up, or -1"),
        ("visibilityDelay", "8 days", "from 0 seconds to 7 days"),
        ("parallelism", "129", "from 1 to 128"),
        ("parallelism", "0", "auto, or a whole number from 1 to 128"),
    ],
)
def test_a_bad_value_is_refused_with_name_value_and_what_is_allowed(name, value, says):
    text = refused({name.lower(): value}, Side.BOTH)

    assert f"option '{name}'" in text
    assert says in text


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        ("visibilityTimeout", "auto", None),
        ("visibilityTimeout", " AUTO ", None),
        ("visibilityTimeout", "90", 90),
        ("visibilityTimeout", "5 minutes", 300),
        ("timeToLive", "-1", NEVER_EXPIRES),
        ("timeToLive", "1 hour", 3600),
        ("visibilityDelay", "0", 0),
        ("maxPollInterval", "500 ms", 0.5),
    ],
)
def test_good_values(name, value, found):
    assert parse({name: value}, Side.BOTH)[name] == found


SECRETS = ["secret.connectionString", "accountAccessKey", "sasToken"]


@pytest.mark.parametrize("name", [*SECRETS, "clientSecret"])
def test_the_value_of_a_secret_is_never_shown(name):
    assert BY_NAME[name].secret

    text = refused({name: " \t"}, Side.BOTH)

    assert "its value (not shown) is not allowed" in text
    assert "\t" not in text


def test_a_signature_in_a_value_that_is_no_secret_is_not_shown():
    given = {"writeAheadLog": "https://acc.blob.core.windows.net/logs?sv=1&sig=s3cr3t%3D&sp=r"}
    text = refused(given, Side.SOURCE)

    assert "sig=…&sp=r' is not allowed; expected blob:<container>/<folder>" in text
    assert "s3cr3t" not in text


SIDES = {Side.BOTH: "Source and sink", Side.SOURCE: "Source", Side.SINK: "Sink"}


def test_the_reference_has_each_option_under_its_heading_with_side_default_and_meaning():
    text = options_page()

    for option in OPTIONS:
        secret = " Secret." if option.secret else ""
        facts = f"*{SIDES[option.side]}. Default: {option.shown or 'unset'}.{secret}*"
        assert text.count(f"\n### `{option.name}`\n\n{facts}\n\n{option.doc}\n") == 1


KEY = "c2VjcmV0LWtleQ=="


@pytest.mark.parametrize("side", [Side.SOURCE, Side.SINK])
@pytest.mark.parametrize("name", [o.name for o in OPTIONS if not o.secret])
def test_a_connection_string_in_any_option_is_not_shown(name, side):
    given = {name: f"DefaultEndpointsProtocol=https;AccountName=shop;AccountKey={KEY}"}
    try:
        parse(given, side)
    except InvalidOption as error:
        text = str(error)
        assert KEY not in text
        assert "looks like a connection string" in text or "is for the" in text


def test_a_connection_string_as_the_queue_is_led_to_its_option():
    text = refused({"queue": f"AccountName=shop;AccountKey={KEY}"}, Side.BOTH)

    assert "looks like a connection string, which the option 'secret.connectionString'" in text
    assert "its value (not shown)" in text


def test_a_key_as_the_name_of_an_option_is_not_shown():
    assert KEY.lower() not in refused({f"AccountKey={KEY}": "x"}, Side.BOTH)
