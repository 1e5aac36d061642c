"""What each store of the write-ahead log does: files, blobs, and the one in memory for tests."""

import dataclasses
import datetime
import threading
import time

import pytest
from azure.storage.blob import ContainerSasPermissions, generate_container_sas
from log_stores import MemoryLogStore

from spark_azqueue.errors import AccessDenied, ServiceError
from spark_azqueue.journal.file_store import FileStore
from spark_azqueue.journal.store import log_store
from spark_azqueue.options.account import read_account
from spark_azqueue.options.blobs import read_blob_account
from spark_azqueue.options.log import log_place
from spark_azqueue.service.blobs.folder import BlobFolder
from spark_azqueue.testing.blobs import FakeBlobService

pytestmark = pytest.mark.core


def in_blobs(request):
    container = request.getfixturevalue("blobs").container_name
    text = request.getfixturevalue("azurite_connection_string")
    account = read_account({"secret.connectionString": text}, {})
    return BlobFolder(read_blob_account({}, account), container, "logs/orders")


def in_fake_blobs(request):
    service = FakeBlobService().start()
    request.addfinalizer(service.stop)
    text = f"AccountName=fakeaccount;AccountKey=a2V5;BlobEndpoint={service.url}"
    account = read_account({"secret.connectionString": text}, {})
    return BlobFolder(read_blob_account({}, account), "logs", "logs/orders")


@pytest.fixture(params=["files", "blobs", "fake blobs", "memory"])
def store(request, tmp_path):
    made = {
        "files": lambda: FileStore(str(tmp_path / "log")),
        "blobs": lambda: in_blobs(request),
        "fake blobs": lambda: in_fake_blobs(request),
        "memory": MemoryLogStore,
    }[request.param]()
    made.open()
    yield made
    made.close()


def with_sas(azurite_connection_string, container, **letters):
    """The folder as a SAS with these permissions sees it."""
    account = read_account({"secret.connectionString": azurite_connection_string}, {})
    place = read_blob_account({}, account)
    sas = generate_container_sas(
        place.name,
        container,
        place.key,
        permission=ContainerSasPermissions(**letters),
        expiry=datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1),
    )
    return BlobFolder(dataclasses.replace(place, key=None, sas=sas), container, "logs/orders")


def test_four_letters_of_a_sas_are_enough(azurite_connection_string, blobs):
    letters = {"read": True, "create": True, "delete": True, "list": True}
    store = with_sas(azurite_connection_string, blobs.container_name, **letters)

    store.open()
    assert [store.put_new("seg/1", text) for text in (b"a", b"b")] == [True, False]
    assert (store.get("seg/1", 10), store.names("seg")) == (b"a", ["seg/1"])
    store.delete("seg/1")
    assert store.names("seg") == []
    store.close()


@pytest.mark.parametrize("missing", ["read", "create", "delete", "list"])
def test_each_of_the_four_is_needed_and_named(azurite_connection_string, blobs, missing):
    letters = {name: name != missing for name in ("read", "create", "delete", "list")}
    store = with_sas(azurite_connection_string, blobs.container_name, **letters)
    call = {
        "read": lambda: store.get("seg/1", 10),
        "create": lambda: store.put_new("seg/1", b"a"),
        "delete": lambda: store.delete("seg/1"),
        "list": store.open,
    }[missing]

    with pytest.raises(AccessDenied, match="SAS letters 'r', 'c', 'd' and 'l'") as caught:
        call()
    assert "sig=" not in str(caught.value)
    assert not caught.value.may_have_taken_effect
    store.close()


def test_a_missing_container_is_told_when_the_folder_is_opened(azurite_connection_string, blobs):
    account = read_account({"secret.connectionString": azurite_connection_string}, {})
    store = BlobFolder(read_blob_account({}, account), "missing-logs", "orders")

    with pytest.raises(ServiceError, match="Create the container 'missing-logs', or correct"):
        store.open()
    store.close()


def test_what_else_is_in_the_container_is_left_alone(azurite_connection_string, blobs):
    for name in ("logs/orders/seg/1/2", "logs/orders2/seg/1", "seg/1", "logs/orders/seg/é"):
        blobs.upload_blob(name, b"x")
    account = read_account({"secret.connectionString": azurite_connection_string}, {})
    store = BlobFolder(read_blob_account({}, account), blobs.container_name, "logs/orders")

    assert store.names("seg") == []
    store.put_new("seg/1", b"mine")
    assert store.names("seg") == ["seg/1"]
    assert blobs.download_blob("logs/orders/seg/1").readall() == b"mine"
    store.close()


def test_an_object_is_made_once_and_keeps_what_it_got_first(store):
    assert store.put_new("seg/000000000001", b"first") is True
    assert store.put_new("seg/000000000001", b"second") is False
    assert store.put_new("seg/000000000001", b"first") is False

    assert store.get("seg/000000000001", 100) == b"first"


def test_the_log_itself_has_an_object_beside_the_folders(store):
    assert store.get("log.json", 100) is None
    assert store.put_new("log.json", b"{}") is True
    assert store.put_new("log.json", b"[]") is False
    assert store.get("log.json", 100) == b"{}"
    assert store.names("seg") == []


@pytest.mark.parametrize(("most", "found"), [(1, b"a"), (5, b"abcde"), (6, b"abcdef"), (7, None)])
def test_the_beginning_of_an_object(store, most, found):
    store.put_new("marks/1-1", b"abcdef")

    assert store.get("marks/1-1", most) == (found or b"abcdef")


def test_an_empty_object_is_not_an_absent_one(store):
    assert store.put_new("attempts/1-a", b"") is True
    assert store.put_new("attempts/1-a", b"") is False

    assert store.get("attempts/1-a", 10) == b""
    assert store.get("attempts/1-b", 10) is None
    assert store.get("other/1-a", 10) is None


def test_bytes_come_back_as_they_were(store):
    data = bytes(range(256)) + b"\r\n\x1f\x8b"
    store.put_new("seg/1", data)

    assert store.get("seg/1", 1000) == data


def test_a_large_object(store):
    data = bytes(range(256)) * (20 * 2**20 // 256)
    assert store.put_new("seg/1", data) is True
    assert store.put_new("seg/1", data) is False

    assert store.get("seg/1", 2**28) == data
    assert store.get("seg/1", 100) == data[:100]


def test_names_are_sorted_and_those_of_one_folder(store):
    for name in ("seg/000000000010", "seg/000000000009", "segs/1", "claims/1-a", "seg/Z", "seg/a"):
        store.put_new(name, b"x")

    assert store.names("seg") == ["seg/000000000009", "seg/000000000010", "seg/Z", "seg/a"]
    assert store.names("claims") == ["claims/1-a"]
    assert store.names("marks") == []


def test_a_prefix_leaves_out_the_others(store):
    for name in ("seg/11", "seg/12", "seg/21", "segs/1"):
        store.put_new(name, b"x")

    assert store.names("seg", "1") == ["seg/11", "seg/12"]
    assert [each.name for each in store.entries("seg", "12")] == ["seg/12"]
    assert store.names("seg", "3") == []


def test_a_listing_tells_sizes_and_times(store):
    store.put_new("seg/000000000001", b"x")
    store.put_new("seg/000000000002", b"y" * 1_000)

    first, second = store.entries("seg")

    assert (first.name, first.size, second.size) == ("seg/000000000001", 1, 1_000)
    assert first.tier == second.tier == ""
    assert abs(first.written - time.time()) < 600
    assert [each.name for each in store.entries("seg")] == store.names("seg")


def test_many_names(store):
    names = [f"seg/{n:012}" for n in range(1000)]
    workers = [
        threading.Thread(target=lambda some: [store.put_new(name, b"") for name in some], args=(s,))
        for s in (names[k::8] for k in range(8))
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()

    assert store.names("seg") == names


def test_what_is_deleted_is_gone_and_may_be_deleted_again(store):
    store.put_new("seg/1", b"x")
    store.delete("seg/1")
    store.delete("seg/1")
    store.delete("other/1")

    assert store.get("seg/1", 10) is None
    assert store.names("seg") == []
    assert store.put_new("seg/1", b"y") is True


def test_of_eight_that_put_at_once_one_wins(store):
    for turn in range(10):
        name, answers, start = f"claims/{turn}", {}, threading.Barrier(8)

        def put(n, name=name, answers=answers, start=start):
            start.wait()
            answers[n] = store.put_new(name, b"%d" % n * 10_000)

        threads = [threading.Thread(target=put, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        (winner,) = [n for n, made in answers.items() if made]
        assert len(answers) == 8
        assert store.get(name, 100_000) == b"%d" % winner * 10_000


@pytest.mark.parametrize(
    "name",
    [
        *("", "seg", "seg/", "/seg/1", "seg//1", "seg/../1", "../seg/1", "seg/1/2", "seg/.", "./1"),
        *("Seg/1", "seg/.tmp-1", "seg/1.json", "seg/a_b", "other.json", "log.json/1", "seg/1\n"),
        *("seg\\1", "seg/é", "seg/٣", "seg/1\0", "s" * 21 + "/1", "seg/" + "1" * 101),
    ],
)
def test_an_illegal_name_is_refused_by_every_method(store, name):
    for call in (
        lambda: store.put_new(name, b"x"),
        lambda: store.get(name, 1),
        lambda: store.delete(name),
    ):
        with pytest.raises(ValueError, match="is no name of an object"):
            call()


@pytest.mark.parametrize("folder", ["", ".", "..", "seg/", "a/b", "Seg", "s" * 21, "seg\n"])
def test_an_illegal_folder_is_refused(store, folder):
    with pytest.raises(ValueError, match="is no name of a folder"):
        store.names(folder)


def test_a_longest_name_is_fine(store):
    name = "a" * 20 + "/" + "Z" * 100
    assert store.put_new(name, b"x") is True
    assert store.names("a" * 20) == [name]


def test_it_says_where_it_is_as_the_option_does_and_opens_twice(store):
    store.open()
    store.put_new("seg/1", b"x")
    store.sweep()
    store.close()
    store.open()

    assert store.names("seg") == ["seg/1"]
    if not isinstance(store, MemoryLogStore):
        account = read_account({"secret.connectionString": "UseDevelopmentStorage=true"}, {})
        place = log_place(store.where)
        assert str(place) == store.where
        assert type(log_store(place, account)) is type(store)
