"""What the doctor says of a write-ahead log in blobs, by Azurite's own answers."""

import dataclasses
import datetime

import pytest
from azure.storage.blob import (
    BlobServiceClient,
    ContainerSasPermissions,
    RetentionPolicy,
    generate_container_sas,
)

from spark_azqueue.commands.doctor.log_checks import examine_log
from spark_azqueue.options.parse import source_config
from spark_azqueue.service.account import API_VERSION
from spark_azqueue.service.blobs.folder import BlobFolder
from spark_azqueue.service.blobs.protection import Protection
from spark_azqueue.source.log.log import WriteAheadLog


@pytest.fixture
def config(azurite_connection_string, blobs):
    given = {"secret.connectionString": azurite_connection_string, "queue": "orders"}
    return source_config({**given, "writeAheadLog": f"blob:{blobs.container_name}/orders"}, {})


def store_of(settings, account=None):
    return BlobFolder(account or settings.account, settings.place.container, "orders")


def looked(config, store=None):
    return list(examine_log(config, config.write_ahead_log, store))


def with_letters(settings, **letters):
    """The folder as a SAS with these permissions sees it."""
    account, place = settings.account, settings.place
    sas = generate_container_sas(
        account.name,
        place.container,
        account.key,
        permission=ContainerSasPermissions(**letters),
        expiry=datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1),
    )
    return store_of(settings, dataclasses.replace(account, key=None, sas=sas))


def test_a_log_is_left_as_it_was(config, blobs):
    log = WriteAheadLog(store_of(config.write_ahead_log), config.account.name, 10)
    log.open()
    log.claim(0)
    before = sorted(blobs.list_blob_names())

    found = looked(config)

    assert False not in {finding.good for finding in found}
    assert "objects can be created once, read and deleted" in repr(found)
    assert sorted(blobs.list_blob_names()) == before
    log.mark(dataclasses.replace(log.state.progress, committed=1))  # it still has its claim
    log.close()


def test_a_new_log_is_noted_and_nothing_stays(config, blobs):
    found = looked(config)

    assert "is new: the first start writes its identity" in found[-1].text
    assert list(blobs.list_blob_names()) == []


@pytest.mark.parametrize("missing", ["read", "create", "delete", "list"])
def test_a_credential_that_lacks_a_letter(config, blobs, missing):
    letters = {name: name != missing for name in ("read", "create", "delete", "list")}

    last = looked(config, with_letters(config.write_ahead_log, **letters))[-1]

    assert last.good is False
    assert "SAS letters 'r', 'c', 'd' and 'l'" in last.advice
    if missing != "delete":
        assert list(blobs.list_blob_names()) == []


def test_four_letters_are_enough_and_do_not_show_soft_delete(config):
    letters = dict.fromkeys(("read", "create", "delete", "list"), True)

    found = looked(config, with_letters(config.write_ahead_log, **letters))

    assert False not in {finding.good for finding in found}
    assert "may not read whether soft delete is on" in repr(found)


def test_a_missing_container(config):
    settings = config.write_ahead_log
    place = dataclasses.replace(settings.place, container="missing")
    settings = dataclasses.replace(settings, place=place)

    (only,) = examine_log(config, settings)

    assert only.good is False
    assert "Create the container 'missing'" in only.advice


def test_soft_delete_is_told(config, azurite_connection_string):
    store = store_of(config.write_ahead_log)
    store.put_new("seg/1", b"x")
    with BlobServiceClient.from_connection_string(
        azurite_connection_string, api_version=API_VERSION
    ) as service:
        service.set_service_properties(delete_retention_policy=RetentionPolicy(True, 7))
        try:
            assert store.protection("seg/1") == Protection(False, 7, False)
            assert "soft delete for 7 days" in repr(looked(config))
        finally:
            service.set_service_properties(delete_retention_policy=RetentionPolicy(False))
    assert store.protection("seg/1") == Protection(False, 0, False)
    store.close()
