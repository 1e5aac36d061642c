"""largeBody=blob where azure-storage-blob is not installed: refused at load() and start()."""

import importlib.util
import pickle

import pytest
from pyspark.sql.types import StringType, StructField, StructType

from spark_azqueue import AzQueueDataSource
from spark_azqueue.errors import InvalidOption
from spark_azqueue.source.readers import RefusedStreamReader

GIVEN = {
    "accounturl": "https://acc.queue.core.windows.net",
    "sastoken": "sig=x",
    "queue": "orders",
}
BLOB = {**GIVEN, "largebody": "blob", "blobcontainer": "bodies"}
SCHEMA = StructType([StructField("body", StringType())])

CALLS = [
    lambda source: source.schema(),
    lambda source: source.reader(SCHEMA),
    lambda source: source.streamReader(SCHEMA).initialOffset(),
    lambda source: source.writer(SCHEMA, False),
    lambda source: source.streamWriter(SCHEMA, False),
]


@pytest.fixture(params=["not there", "no azure.storage at all"])
def missing(request, monkeypatch):
    real = importlib.util.find_spec

    def find_spec(name, package=None):
        if name != "azure.storage.blob":
            return real(name, package)
        if request.param == "not there":
            return None
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(importlib.util, "find_spec", find_spec)


@pytest.mark.parametrize("call", CALLS)
def test_it_names_the_command_that_helps(missing, call):
    with pytest.raises(InvalidOption, match=r"pip install 'spark-azqueue\[blob\]'.*executors"):
        call(AzQueueDataSource(BLOB))


@pytest.mark.parametrize("call", [*CALLS[:2], *CALLS[3:], lambda made: made.streamReader(SCHEMA)])
def test_without_largebody_nobody_misses_it(missing, call):
    assert not isinstance(call(AzQueueDataSource(GIVEN)), RefusedStreamReader)


LOG = {**GIVEN, "writeaheadlog": "blob:logs/orders"}


def test_a_log_in_blobs_needs_it_too(missing):
    with pytest.raises(InvalidOption, match=r"writeAheadLog=blob:… needs the package azure-stor"):
        AzQueueDataSource(LOG).streamReader(SCHEMA).initialOffset()


@pytest.mark.parametrize(
    "call",
    [
        lambda reader: reader.prepareForTriggerAvailableNow(),
        lambda reader: reader.latestOffset(),
        lambda reader: reader.partitions({}, {}),
        lambda reader: reader.read(None),
    ],
)
def test_spark_gets_the_reason_from_each_call_and_a_reader_that_it_can_stop(missing, call):
    reader = pickle.loads(pickle.dumps(AzQueueDataSource(LOG).streamReader(SCHEMA)))

    with pytest.raises(InvalidOption, match="needs the package"):
        call(reader)
    reader.commit({})
    reader.stop()


def test_the_peek_ignores_the_log_and_a_log_in_files_needs_no_package(missing):
    AzQueueDataSource(LOG).schema()
    AzQueueDataSource(LOG).reader(SCHEMA)
    made = AzQueueDataSource({**GIVEN, "writeaheadlog": "file:/data/log"}).streamReader(SCHEMA)
    assert not isinstance(made, RefusedStreamReader)


@pytest.mark.parametrize("call", [*CALLS[:2], *CALLS[3:], lambda made: made.streamReader(SCHEMA)])
def test_where_it_is_installed_all_is_well(call):
    assert not isinstance(call(AzQueueDataSource(BLOB)), RefusedStreamReader)
