"""settingsFromQueue: metadata decides what no option says."""

import pytest

from spark_azqueue.errors import InvalidOption
from spark_azqueue.options.choices import OnUndecodable
from spark_azqueue.options.parse import source_config
from spark_azqueue.source.preflight import with_queue_settings

LOG = {"writeAheadLog": "file:/log"}
BOTH = {"defaulttimeout": "90", "poisonthreshold": "3"}


def config(*metadata, **given):
    """The config for as many queues as there are metadata."""
    names = [f"queue-{n}" for n in range(len(metadata))]
    options = {
        "accountUrl": "https://acc.queue.core.windows.net",
        "sasToken": "sig=x",
        "queue": ",".join(names),
        "settingsFromQueue": "true",
        **given,
    }
    settled = source_config(options, {})
    return with_queue_settings(settled, dict(zip(settled.queues, metadata, strict=True)))


def refused(*metadata, **given):
    with pytest.raises(InvalidOption) as caught:
        config(*metadata, **given)
    return str(caught.value)


@pytest.mark.parametrize(
    ("metadata", "given", "expected"),
    [
        (BOTH, {}, (90, 3, OnUndecodable.POISON)),
        ({"DefaultTimeout": "5 minutes"}, {}, (300, 5, OnUndecodable.POISON)),
        ({"defaulttimeout": "auto"}, {}, (None, 5, OnUndecodable.POISON)),
        ({"POISONTHRESHOLD": " 7 "}, {}, (None, 7, OnUndecodable.POISON)),
        ({"poisonthreshold": "none"}, {}, (None, None, OnUndecodable.FAIL)),
        ({"other": "1"}, {}, (None, 5, OnUndecodable.POISON)),
        ({}, {}, (None, 5, OnUndecodable.POISON)),
        # With a log, a batch is abandoned only if an option or the queue asks for it.
        ({}, LOG, (None, None, OnUndecodable.POISON)),
        (BOTH, LOG, (90, 3, OnUndecodable.POISON)),
        ({"poisonthreshold": "none"}, LOG, (None, None, OnUndecodable.FAIL)),
        # What is set explicitly wins, also where it is set to the default.
        (BOTH, {"visibilityTimeout": "30"}, (30, 3, OnUndecodable.POISON)),
        (BOTH, {"visibilityTimeout": "auto"}, (None, 3, OnUndecodable.POISON)),
        (BOTH, {"VISIBILITYTIMEOUT": "auto"}, (None, 3, OnUndecodable.POISON)),
        (BOTH, {"maxDequeueCount": "9"}, (90, 9, OnUndecodable.POISON)),
        (BOTH, {"onUndecodable": "fail"}, (90, 3, OnUndecodable.FAIL)),
        (BOTH, {"onUndecodable": "permissive"}, (90, 3, OnUndecodable.PERMISSIVE)),
        ({}, {"maxDequeueCount": "9"}, (None, 9, OnUndecodable.POISON)),
    ],
)
def test_metadata_decides_what_no_option_says(metadata, given, expected):
    found = config(metadata, **given)

    assert (found.visibility_timeout, found.max_dequeue_count, found.on_undecodable) == expected
    assert not found.left_to_queue


def test_without_the_option_nothing_is_left_to_the_queue():
    assert not source_config(
        {
            "accountUrl": "https://acc.queue.core.windows.net",
            "sasToken": "sig=x",
            "queue": "orders",
        },
        {},
    ).left_to_queue


@pytest.mark.parametrize(
    ("key", "value", "expected", "option"),
    [
        ("defaulttimeout", "soon", "auto, or a duration such as", "visibilityTimeout"),
        ("defaulttimeout", "0", "from 1 second to 7 days", "visibilityTimeout"),
        ("defaulttimeout", "8 days", "from 1 second to 7 days", "visibilityTimeout"),
        ("poisonthreshold", "-1", "none, or a whole number from 1", "maxDequeueCount"),
        ("poisonthreshold", "", "a whole number from 1", "maxDequeueCount"),
    ],
)
def test_a_bad_value_is_named_with_its_key_and_queue(key, value, expected, option):
    text = refused({key: value})

    assert f"the metadata '{key}' of queue 'queue-0' is {value!r}" in text
    assert expected in text
    assert f"set the option '{option}'" in text


def test_a_bad_value_does_no_harm_where_the_option_is_set():
    assert config({"defaulttimeout": "soon"}, visibilityTimeout="60").visibility_timeout == 60


def test_queues_have_to_agree():
    assert config(BOTH, BOTH).max_dequeue_count == 3
    assert config(BOTH, {}).visibility_timeout == 90
    text = refused({"defaulttimeout": "90"}, {"defaulttimeout": "60"})
    assert "90 on 'queue-0', 60 on 'queue-1'" in text


def test_poison_queues_are_checked_once_it_is_known_that_there_are_any():
    # Nothing is known before the queue was asked…
    assert config(BOTH, poisonQueue="elsewhere").poison_queue == "elsewhere"
    # …and then it is checked.
    assert "nothing would ever go into" in refused(
        {"poisonthreshold": "0"}, poisonQueue="elsewhere"
    )
    assert "nothing would ever go into" in refused({"poisonthreshold": "0"}, poisonFormat="copy")
    assert "one of the queues to read" in refused(BOTH, poisonQueue="queue-0")


def test_the_queues_settings_go_with_a_log():
    log = {"writeAheadLog": "file:/data/log"}

    assert config(BOTH, **log).max_dequeue_count == 3
    assert "the queue's metadata 'poisonthreshold') does not go" in refused(
        BOTH, **log, deleteAfter="log"
    )
    assert config({"defaulttimeout": "90"}, **log).visibility_timeout == 90


def test_a_long_value_from_outside_makes_a_short_error():
    assert len(refused({"defaulttimeout": "x\x1b" * 4_000})) < 500
