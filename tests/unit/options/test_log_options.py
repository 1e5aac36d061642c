"""The options of the write-ahead log: where it is, and what goes with it."""

import json
import pickle
import re

import pytest

from spark_azqueue.errors import InvalidOption
from spark_azqueue.errors.explanation import explain
from spark_azqueue.journal.file_store import FileStore
from spark_azqueue.journal.store import log_store
from spark_azqueue.options.choices import LogStart
from spark_azqueue.options.log import LogConfig, LogPlace, log_place
from spark_azqueue.options.parse import OPTIONS, sink_config, source_config
from spark_azqueue.options.parsers import Retention
from spark_azqueue.service.blobs.folder import BlobFolder

ACCESS = {"accountUrl": "https://acc.queue.core.windows.net", "sasToken": "sig=s3cr3t"}
FILES, BLOBS = {"writeAheadLog": "file:/data/log"}, {"writeAheadLog": "blob:logs/orders"}


def source(**given):
    return source_config({**ACCESS, "queue": "orders", **given}, {})


def refused(**given):
    with pytest.raises(InvalidOption) as caught:
        source(**given)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "container", "folder", "shown"),
    [
        ("blob:logs/orders", "logs", "orders", "blob:logs/orders"),
        (" blob:logs/a/b.c/D_e-1 ", "logs", "a/b.c/D_e-1", "blob:logs/a/b.c/D_e-1"),
        ("blob:logs/.hidden", "logs", ".hidden", "blob:logs/.hidden"),
        ("blob:logs/" + "a" * 200, "logs", "a" * 200, "blob:logs/" + "a" * 200),
        ("file:/data/log", None, "/data/log", "file:/data/log"),
        ("file:///data/log", None, "/data/log", "file:/data/log"),
        ("file:/data/log/", None, "/data/log", "file:/data/log"),
        ("file:/data/mein log/é", None, "/data/mein log/é", "file:/data/mein log/é"),
        ("file:/Volumes/a%20b", None, "/Volumes/a%20b", "file:/Volumes/a%20b"),
    ],
)
def test_a_place(text, container, folder, shown):
    place = log_place(text)

    assert place == LogPlace(container, folder)
    assert str(place) == shown
    assert log_place(str(place)) == place


@pytest.mark.parametrize(
    "text",
    [
        *("", "orders", "/data/log", "s3://bucket/log", "abfss://a@b/c", "BLOB:logs/orders"),
        *("blob:", "blob:logs", "blob:logs/", "blob:/orders", "blob://logs/orders"),
        *("blob:Logs/orders", "blob:lo/orders", "blob:logs//orders", "blob:logs/orders/"),
        *("blob:logs/.", "blob:logs/../x", "blob:logs/a/./b", "blob:logs/a/..", "blob:logs/a."),
        *("blob:logs/a b", "blob:logs/é", "blob:logs/a?b", "blob:logs/a%2e", "blob:logs/a\\b"),
        *("blob:logs/" + "a" * 201, "blob:logs/a\nb"),
        *("file:", "file:/", "file:///", "file://host/log", "file:data/log", "file:./log"),
        *("file:~/log", "file:/~/log", "file:/data/../log", "file:/data/./log", "file:/data//log"),
        *("file:////data", "file:/data/..", "file:/a\0b", "file:/a\nb", "dbfs:/log"),
    ],
)
def test_what_is_no_place_is_refused_with_what_is_allowed(text):
    with pytest.raises(ValueError, match=r"blob:<container>/<folder>, or file:/<folder>"):
        log_place(text)


def kinds_of_places():
    """As the error of `log_place` names them: {"blob", "file"}."""
    with pytest.raises(ValueError, match="<folder>") as caught:
        log_place("")
    return set(re.findall(r"([a-z]+):[/<]", str(caught.value)))


@pytest.mark.parametrize("option", ["writeAheadLog", "transactionLog"])
def test_the_table_of_options_names_each_kind_of_place(option):
    (meaning,) = (each.doc for each in OPTIONS if each.name == option)

    assert {kind for kind in kinds_of_places() if f"`{kind}:" in meaning} == kinds_of_places()


def test_a_policy_can_refuse_each_kind_of_place(monkeypatch):
    policy = {"hosts": ["acc.queue.core.windows.net"], "logRoots": ["/mnt"]}
    monkeypatch.setenv("AZQUEUE_POLICY", json.dumps(policy))
    places = {each["writeAheadLog"].partition(":")[0]: each for each in (FILES, BLOBS)}

    assert places.keys() == kinds_of_places(), "name one of each kind here"
    for place in places.values():
        assert "AZQUEUE_NOT_ALLOWED" in refused(**place)


def test_an_option_that_is_not_set_means_no_log():
    assert source().write_ahead_log is None


def test_the_defaults_of_a_log():
    assert source(**FILES).write_ahead_log == LogConfig(
        LogPlace(None, "/data/log"),
        None,
        retention=Retention(),
        fail_on_data_loss=True,
        start=None,
    )


def test_every_option_of_a_log_arrives():
    log = source(
        **FILES,
        writeAheadLogRetention="10",
        failOnDataLoss="false",
        writeAheadLogStart="aftercommitted",
    ).write_ahead_log

    assert log.retention == Retention(10)
    assert (log.fail_on_data_loss, log.start) == (False, LogStart.AFTER_COMMITTED)


@pytest.mark.parametrize(
    ("given", "url", "name"),
    [
        ({}, "https://acc.blob.core.windows.net", "acc"),
        (
            {"blobAccountUrl": "https://two.blob.core.windows.net/"},
            "https://two.blob.core.windows.net",
            "two",
        ),
        (
            {"secret.blobConnectionString": "AccountName=two;AccountKey=c2VjcmV0"},
            "https://two.blob.core.windows.net",
            "two",
        ),
    ],
)
def test_blobs_are_in_the_account_of_the_queue_or_in_the_one_that_is_named(given, url, name):
    account = source(**BLOBS, **given).write_ahead_log.account

    assert (account.url, account.name) == (url, name)
    assert (account.sas is None) is ("secret.blobConnectionString" in given)


def test_a_log_in_blobs_without_an_address_asks_for_the_address_alone():
    text = "AccountName=acc;AccountKey=c2VjcmV0;QueueEndpoint=http://queues.example/acc"
    with pytest.raises(InvalidOption, match="set 'blobAccountUrl'") as raised:
        source_config({"queue": "orders", "secret.connectionString": text, **BLOBS}, {})

    remedy = explain(raised.value).remedy
    assert "blobAccountUrl=https://<account>.blob.core.windows.net" in remedy
    assert "largeBody" not in remedy


def test_a_blob_account_that_neither_bodies_nor_the_log_use_is_refused():
    url = "https://two.blob.core.windows.net"

    assert "no body ever goes into a blob" in refused(**FILES, blobAccountUrl=url)
    assert "'blobContainer' is set" in refused(**BLOBS, blobContainer="bodies")
    assert "'deleteBlob' is set" in refused(**BLOBS, deleteBlob="false", blobAccountUrl=url)


def test_blobs_whose_address_cannot_be_told_are_refused():
    text = refused(**BLOBS, accountUrl="https://queues.example.com")

    assert "set 'blobAccountUrl'" in text
    assert source(**FILES, accountUrl="https://queues.example.com").write_ahead_log.account is None


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("writeAheadLogRetention", "100"),
        ("failOnDataLoss", "true"),
        ("writeAheadLogStart", "earliest"),
    ],
)
def test_an_option_of_a_log_that_is_not_there_is_refused(option, value):
    text = refused(**{option: value})

    assert f"'{option}' is set, but there is no write-ahead log: set 'writeAheadLog'" in text
    assert f"or remove '{option}'" in text


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"writeAheadLogRetention": "9"}, "a whole number of batches from 10 to 100,000"),
        ({"writeAheadLogRetention": "100001"}, "batches from 10 to 100,000, or a time"),
        ({"failOnDataLoss": "no"}, "expected true or false"),
        ({"writeAheadLogStart": "latest"}, "expected one of earliest, afterCommitted"),
        ({"deleteOnCommit": "false"}, "deleteOnCommit=false does not go with 'writeAheadLog'"),
        ({"maxBytesPerTrigger": "268435457"}, "at most 268,435,456 (256m) are allowed"),
        ({"maxBytesPerTrigger": "1g"}, "'maxBytesPerTrigger' is 1,073,741,824"),
        ({"maxDequeueCount": "5", "deleteAfter": "log"}, "does not go with deleteAfter=log"),
    ],
)
def test_what_does_not_go_with_a_log_is_refused(given, says):
    assert says in refused(**FILES, **given)


def test_a_refused_maximum_says_what_to_do_instead():
    text = refused(**FILES, maxDequeueCount="5", deleteAfter="log")

    assert "'onUndecodable'" in text
    assert "from_json" in text


@pytest.mark.parametrize(
    "given",
    [
        {"maxBytesPerTrigger": "256m"},
        {"onUndecodable": "poison"},
        {"maxDequeueCount": "5"},
        {"settingsFromQueue": "true"},
        {"maxDequeueCount": "5", "deleteAfter": "log", "leaseOn": "executors"},
    ],
)
def test_what_goes_with_a_log(given):
    assert source(**FILES, **given).write_ahead_log is not None


def test_the_sink_has_no_log():
    with pytest.raises(InvalidOption, match="option 'writeAheadLog' is for the source"):
        sink_config({**ACCESS, **FILES}, {})


def test_a_config_with_a_log_travels_and_shows_no_secret():
    config = source(**BLOBS)

    assert pickle.loads(pickle.dumps(config)) == config
    assert "s3cr3t" not in repr(config)


def made(log):
    return log_store(log.place, log.account)


def test_the_store_is_the_one_that_the_option_names():
    files = made(source(**FILES).write_ahead_log)
    blobs = made(source(**BLOBS).write_ahead_log)

    assert (type(files), files.where) == (FileStore, "file:/data/log")
    assert (type(blobs), blobs.where) == (BlobFolder, "blob:logs/orders")


def test_how_long_a_log_is_kept():
    assert source(**FILES).write_ahead_log.retention == (100, None)
    week = source(**FILES, writeAheadLogRetention="7 days").write_ahead_log
    assert week.retention == (100, 7 * 86_400)
    for value in ("9", "30 s", "367 days", "-1", "for ever"):
        assert "'writeAheadLogRetention'" in refused(**FILES, writeAheadLogRetention=value)
    assert "there is no write-ahead log" in refused(writeAheadLogRetention="7 days")
