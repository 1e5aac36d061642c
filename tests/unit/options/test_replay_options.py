"""The options of `readLog`: which log, what of it, and what goes with it."""

import pickle

import pytest

from spark_azqueue.errors import InvalidOption
from spark_azqueue.options.choices import OnUndecodable
from spark_azqueue.options.log import LogPlace
from spark_azqueue.options.option import options_of
from spark_azqueue.options.parse import replay_config, sink_config, source_config
from spark_azqueue.options.parsers import Bound, instant
from spark_azqueue.options.replay import ReplayConfig
from spark_azqueue.service.encoding import BodyType, Encoding

ACCESS = {"accountUrl": "https://acc.queue.core.windows.net", "sasToken": "sig=s3cr3t"}
FILES, BLOBS = {"readLog": "file:/data/log"}, {"readLog": "blob:logs/orders"}


def history(**given):
    return replay_config({**FILES, **given}, {})


def refused(make=replay_config, **given):
    with pytest.raises(InvalidOption) as caught:
        make(given, {})
    return str(caught.value)


def test_a_log_in_files_needs_nothing_else():
    config = history()

    assert (config.place, config.account) == (LogPlace(None, "/data/log"), None)
    assert (config.start, config.end) == (Bound(), Bound())
    assert (config.encoding, config.body_type) == (None, BodyType.STRING)
    assert (config.fail_on_data_loss, config.batches_per_trigger) == (True, 100)
    assert not config.has_start
    assert pickle.loads(pickle.dumps(config)) == config


OWN = [
    ("startingAt", "7", "start", Bound(7)),
    ("endingAt", "7", "end", Bound(7)),
    ("startingAt", "1971-01-01", "start", Bound(at=31_536_000_000_000)),
    ("endingAt", "1971-01-01T00:00:01Z", "end", Bound(at=31_536_001_000_000)),
    ("startingAt", "19710101", "start", Bound(19_710_101)),
    ("maxBatchesPerTrigger", "3", "batches_per_trigger", 3),
]


@pytest.mark.parametrize(
    ("option", "value", "field", "found"),
    [
        *OWN,
        ("messageEncoding", "base64", "encoding", Encoding.BASE64),
        ("bodyType", "binary", "body_type", BodyType.BINARY),
        ("onUndecodable", "permissive", "on_undecodable", OnUndecodable.PERMISSIVE),
        ("failOnDataLoss", "false", "fail_on_data_loss", False),
        ("maxPollInterval", "5", "max_poll_interval", 5),
    ],
)
def test_every_option_arrives(option, value, field, found):
    assert getattr(history(**{option: value}), field) == found


def test_the_list_above_leaves_no_option_out():
    names = {option.name for option in options_of(ReplayConfig)}
    assert names == {"readLog", *(name for name, _, _, _ in OWN)}


def test_a_log_in_blobs_has_the_account_of_the_queues_or_its_own():
    of_queues = replay_config({**BLOBS, **ACCESS}, {}).account
    assert (of_queues.url, of_queues.sas) == ("https://acc.blob.core.windows.net", "sig=s3cr3t")
    text = "BlobEndpoint=https://other.blob.core.windows.net;SharedAccessSignature=sig=1"
    own = replay_config({**BLOBS, "secret.blobConnectionString": text}, {}).account
    assert own.url == "https://other.blob.core.windows.net"
    assert "no credential" in refused(**BLOBS)


def test_large_bodies_are_read_from_their_blobs():
    bodies = {"largeBody": "blob", "blobContainer": "bodies"}
    config = replay_config({**FILES, **ACCESS, **bodies}, {})
    assert (config.claim_check.container, config.account) == ("bodies", None)
    assert "no credential" in refused(**FILES, **bodies)
    assert "set largeBody=blob" in refused(**FILES, blobContainer="bodies")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("queue", "orders"), ("writeAheadLog", "file:/data/log"), ("deleteAfter", "log")),
        *(("visibilityTimeout", "60"), ("maxDequeueCount", "5"), ("createQueue", "true")),
        *(("writeAheadLogRetention", "50"), ("peekMessages", "3"), ("deleteBlob", "false")),
    ],
)
def test_an_option_of_a_query_that_reads_queues_is_refused(name, value):
    assert f"'{name}' is set, and with 'readLog' no queue is read" in refused(
        **FILES, **{name: value}
    )


@pytest.mark.parametrize(("option", "value"), [(name, value) for name, value, _, _ in OWN])
def test_an_option_of_readlog_is_refused_without_it(option, value):
    queue = {**ACCESS, "queue": "orders"}
    assert f"'{option}' is set, and it is for 'readLog'" in refused(
        source_config, **queue, **{option: value}
    )
    assert "for the source" in refused(sink_config, **queue, **{option: value})


def test_readlog_is_no_option_of_a_query_that_reads_queues():
    said = refused(source_config, **ACCESS, **FILES, queue="orders")
    assert "'readLog' reads a write-ahead log and no queue" in said


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"startingAt": "-1"}, "the number of a batch, or a time with its zone such as"),
        ({"startingAt": "3", "endingAt": "2"}, "'startingAt' lies behind 'endingAt'"),
        (
            {"startingAt": "2026-01-02", "endingAt": "2026-01-01"},
            "'startingAt' lies behind",
        ),
        ({"onUndecodable": "poison"}, "moves no message"),
        ({"startingAt": "0"}, "a whole number from 1"),
    ],
)
def test_what_does_not_go_together_is_refused(given, words):
    assert words in refused(**FILES, **given)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("2027-01-15T08:00:00Z", 1_800_000_000_000_000),
        ("2027-01-15t08:00:00z".upper(), 1_800_000_000_000_000),
        (" 2027-01-15T09:00:00+01:00 ", 1_800_000_000_000_000),
        ("2027-01-15 08:00:00.000001+00:00", 1_800_000_000_000_001),
        ("2027-01-15", 1_799_971_200_000_000),
    ],
)
def test_a_point_in_time(text, found):
    assert instant(text) == found


@pytest.mark.parametrize(
    "text",
    [
        *("", "yesterday", "1800000000000", "2027-01-15T08:00:00", "2027-01-15T08:00", "20270115"),
        *("2027-13-01", "2027-01-15T25:00:00Z", "1969-12-31", "1970-01-01", "2027-01-15Z", "Z"),
        *("2027-01-15T08:00:00 Europe/Berlin", "0001-01-01", "10000-01-01"),
    ],
)
def test_a_time_without_a_zone_or_none_at_all_is_refused(text):
    with pytest.raises(ValueError, match="a time with its zone"):
        instant(text)
