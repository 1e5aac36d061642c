"""largeBody=blob where azure-storage-blob is not installed: refused at load() and start()."""

import importlib.util

import pytest
from pyspark.sql.types import StringType, StructField, StructType

from spark_azqueue import AzQueueDataSource
from spark_azqueue.errors import InvalidOption

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
    lambda source: source.streamReader(SCHEMA),
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


@pytest.mark.parametrize("call", CALLS)
def test_without_largebody_nobody_misses_it(missing, call):
    call(AzQueueDataSource(GIVEN))


LOG = {**GIVEN, "writeaheadlog": "blob:logs/orders"}


def test_a_log_in_blobs_needs_it_too(missing):
    with pytest.raises(InvalidOption, match=r"writeAheadLog=blob:… needs the package azure-stor"):
        AzQueueDataSource(LOG).streamReader(SCHEMA)


def test_the_peek_ignores_the_log_and_a_log_in_files_needs_no_package(missing):
    AzQueueDataSource(LOG).schema()
    AzQueueDataSource(LOG).reader(SCHEMA)
    AzQueueDataSource({**GIVEN, "writeaheadlog": "file:/data/log"}).streamReader(SCHEMA)


@pytest.mark.parametrize("call", CALLS)
def test_where_it_is_installed_all_is_well(call):
    call(AzQueueDataSource(BLOB))
