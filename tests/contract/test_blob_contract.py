"""Large bodies on Azurite's blob service: stored, read, lost, removed, and whole ways with them."""

import dataclasses
import datetime
import gzip
import json
import logging
import uuid
from urllib.parse import parse_qsl, quote

import pytest
from azure.storage.blob import ContainerSasPermissions, ContentSettings, generate_container_sas
from pipe import Source, send

from spark_azqueue.errors import AccessDenied, LostBlob, ServiceError, UndecodableBody
from spark_azqueue.options.account import read_account
from spark_azqueue.options.blobs import ClaimCheck, read_blob_account
from spark_azqueue.service.blobs.container import Container
from spark_azqueue.service.blobs.references import Large, Reference, new_name
from spark_azqueue.service.blobs.store import BlobStore
from spark_azqueue.testing import Fault

pytestmark = pytest.mark.core

BODY = (("body", "string"),)
LARGE = "x" * 100_000


@pytest.fixture
def place(azurite_connection_string, blobs):
    account = read_account({"secret.connectionString": azurite_connection_string}, {})
    return ClaimCheck(account=read_blob_account({}, account), container=blobs.container_name)


@pytest.fixture
def store(place):
    made = BlobStore(place.account, place.container)
    yield made
    made.close()


@pytest.mark.parametrize("data", [b"", b"\x00\xff", b"x" * 5_000_000, b"x" * 70_000_000], ids=len)
def test_a_body_comes_back_as_it_was(store, blobs, data):
    reference = store.put(Large(data, False))

    assert store.get(reference) == data
    assert reference.size == len(data)
    kind = blobs.get_blob_client(reference.name).get_blob_properties().content_settings.content_type
    assert kind == "application/octet-stream"


def test_each_body_has_a_blob_of_its_own(store, blobs):
    references = [store.put(Large(b"same", True)) for _ in range(3)]

    assert sorted(blobs.list_blob_names()) == sorted(reference.name for reference in references)
    assert len({reference.name for reference in references}) == 3


def test_a_lost_blob_is_told_and_never_an_empty_body(store, blobs):
    reference = store.put(Large(b"hello", True))
    blobs.delete_blob(reference.name)

    with pytest.raises(LostBlob, match=f"'{reference.name}' in container '{reference.container}'"):
        store.get(reference)
    store.delete(reference.name)  # gone already is fine


def test_a_blob_of_another_size_is_not_the_body(store, blobs):
    reference = store.put(Large(b"hello", True))
    blobs.upload_blob(reference.name, b"", overwrite=True)

    with pytest.raises(LostBlob, match="has 0 bytes, and its message says 5"):
        store.get(reference)
    for body, has in ((b"hell", "4 bytes"), (b"hello!", "more bytes"), (b"x" * 100_000, "more")):
        blobs.upload_blob(reference.name, body, overwrite=True)
        with pytest.raises(LostBlob, match=f"has {has}.*, and its message says 5"):
            store.get(reference)


def test_a_blob_that_says_that_it_is_compressed_is_given_as_it_is(store, blobs):
    packed = gzip.compress(b"x" * 1_000_000)
    settings = ContentSettings(content_type="text/plain", content_encoding="gzip")
    blobs.upload_blob("a" * 32, packed, content_settings=settings)
    container = blobs.container_name

    assert store.get(Reference(container, "a" * 32, len(packed))) == packed
    with pytest.raises(LostBlob, match="has more bytes, and its message says 10"):
        store.get(Reference(container, "a" * 32, 10))


def test_a_missing_container_is_told_or_created(place):
    missing = ClaimCheck(account=place.account, container=f"missing-{uuid.uuid4().hex[:8]}")
    nowhere = BlobStore(missing.account, missing.container)
    with pytest.raises(ServiceError, match=r"ContainerNotFound.*correct 'blobContainer'"):
        nowhere.put(Large(b"x", False))
    with pytest.raises(ServiceError, match="ContainerNotFound"):
        nowhere.get(Reference(missing.container, new_name(), 1))

    store = BlobStore(missing.account, missing.container, create_container=True)
    assert store.get(store.put(Large(b"x", False))) == b"x"
    store.close()
    container = Container(missing.account, missing.container, if_missing="")
    container.remove()
    container.close()


def test_a_sas_without_a_letter_is_told_which(place, blobs):
    sas = generate_container_sas(
        place.account.name,
        place.container,
        place.account.key,
        permission=ContainerSasPermissions(read=True),
        expiry=datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1),
    )
    text = f"BlobEndpoint={place.account.url};SharedAccessSignature={sas}"
    account = read_account({"secret.connectionString": text + ";QueueEndpoint=http://x"}, {})
    store = BlobStore(read_blob_account({}, account), place.container)
    blobs.upload_blob("a" * 32, b"abc")
    assert store.get(Reference(place.container, "a" * 32, 3)) == b"abc"
    with pytest.raises(AccessDenied, match="needs the SAS letter 'c' for blobs") as caught:
        store.put(Large(b"x", False))
    assert "sig=" not in str(caught.value)


@pytest.mark.parametrize("kind", ["key", "SAS"])
def test_no_log_and_no_error_holds_a_secret(place, blobs, caplog, kind):
    caplog.set_level(logging.DEBUG)
    for logger in ("urllib3.connectionpool", "azure"):
        caplog.set_level(logging.DEBUG, logger=logger)
    secret, chosen = place.account.key, place
    if kind == "SAS":
        sas = generate_container_sas(
            place.account.name,
            place.container,
            place.account.key,
            permission=ContainerSasPermissions(read=True, create=True, delete=True),
            expiry=datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1),
        )
        secret = dict(parse_qsl(sas))["sig"]
        account = dataclasses.replace(place.account, key=None, sas=sas)
        chosen = dataclasses.replace(place, account=account)
    store = BlobStore(chosen.account, chosen.container)
    reference = store.put(Large(b"abc", False))
    assert store.get(reference) == b"abc"
    store.delete(reference.name)
    with pytest.raises(LostBlob) as caught:
        store.get(reference)
    elsewhere = BlobStore(chosen.account, "missing-container")
    with pytest.raises(ServiceError) as refused:
        elsewhere.put(Large(b"abc", False))

    formatter = logging.Formatter()  # with the tracebacks
    said = "\n".join(formatter.format(record) for record in caplog.records)
    for text in (said, repr(caught.value), repr(refused.value), repr(chosen)):
        assert secret not in text
        assert quote(secret, safe="") not in text
    store.close()
    elsewhere.close()


# ── the whole way, over the fake, whose faults can be chosen ──────────────────────────────────────


@pytest.fixture
def chosen(fake, queue, azurite_connection_string, blobs):
    fake.create_queue(queue)
    return {
        "secret.connectionString": fake.connection_string,
        "queue": queue,
        "largeBody": "blob",
        "blobContainer": blobs.container_name,
        "secret.blobConnectionString": azurite_connection_string,
    }


def names(blobs):
    return sorted(blobs.list_blob_names())


def test_the_message_holds_the_documented_reference(fake, queue, chosen, blobs):
    send([(LARGE,)], BODY, **chosen)

    (view,) = fake.messages(queue)
    (name,) = names(blobs)
    assert json.loads(view.text) == {
        "azqueue-blob": 1,
        "container": blobs.container_name,
        "name": name,
        "size": 100_000,
    }
    assert view.text.startswith('{"azqueue-blob":1,')


def test_as_many_go_at_once_as_are_asked_for(fake, queue, chosen, blobs, caplog):
    bodies = [(f"{n} {LARGE}",) for n in range(60)]
    assert send(bodies, BODY, parallelism="32", **chosen).done == 60
    reader = Source(**chosen)
    assert {row["body"] for row in reader.drain()} == {body for (body,) in bodies}
    reader.close()
    assert names(blobs) == []
    assert "pool is full" not in caplog.text, "every connection is kept"


def test_reading_again_gives_the_same_and_only_settling_removes(fake, queue, chosen, blobs):
    send([(LARGE,), ("small",)], BODY, **chosen)
    reader = Source(**chosen)
    end = reader.consumer.latest(reader.offset, None)
    partitions = reader.consumer.plan(reader.offset, end)
    assert max(map(len, partitions)) < 10_000, "no body passes through the driver"

    first = [row["body"] for part in partitions for row in reader.read(part)]
    again = [row["body"] for part in partitions for row in reader.read(part)]
    assert first == again
    assert sorted(first, key=len) == ["small", LARGE]
    assert len(names(blobs)) == 1

    reader.offset = end
    assert reader.drain() == []  # the next look proves the batch committed
    assert (fake.count(queue), names(blobs)) == (0, [])
    reader.close()


def test_blobs_stay_where_that_is_asked_for(fake, queue, chosen, blobs):
    send([(LARGE,)], BODY, **chosen)
    reader = Source(deleteBlob="false", **chosen)
    assert len(reader.drain()) == 1
    assert (fake.count(queue), len(names(blobs))) == (0, 1)
    reader.close()


def test_a_restart_removes_the_blobs_of_the_batch_it_settles(fake, queue, chosen, blobs):
    send([(LARGE,), (LARGE,), ("small",)], BODY, **chosen)
    first = Source(**chosen)
    assert len(first.batch()) == 3
    first.close()  # before anything proved the batch committed
    assert len(names(blobs)) == 2

    second = Source(**chosen)
    second.offset = json.loads(json.dumps(first.offset))
    assert second.drain() == []
    assert (fake.count(queue), names(blobs)) == (0, [])
    second.close()


def test_a_replayed_batch_keeps_its_blobs(fake, queue, chosen, blobs):
    send([(LARGE,)], BODY, **chosen)
    first = Source(**chosen)
    start, end = first.offset, first.consumer.latest(first.offset, None)
    first.consumer.plan(start, end)
    # The process dies here; the next one finds the batch in the log, not committed.
    second = Source(**chosen)
    assert second.consumer.plan(start, end) == []
    second.offset = end
    assert [row["body"] for row in second.batch()] == [LARGE]
    assert second.drain() == []
    assert names(blobs) == []
    second.close()


def test_with_a_log_a_blob_is_removed_with_the_segment_of_its_message(
    fake, queue, chosen, blobs, tmp_path
):
    options = {
        "writeAheadLog": f"file:{tmp_path}/wal",
        "writeAheadLogRetention": "10",
        "maxMessagesPerTrigger": "1",
        "dequeueAhead": "false",
    }
    reader = Source(**chosen, **options)
    bodies = [f"{number} {LARGE}" for number in range(14)]
    for body in bodies:
        send([(body,)], BODY, **chosen)
        assert [row["body"] for row in reader.drain()] == [body]
    reader.close()  # waits for what it has begun to delete
    assert fake.count(queue) == 0
    assert len(names(blobs)) == len(list((tmp_path / "wal" / "seg").iterdir())) == 11

    again = Source(**chosen, **options)
    again.offset = reader.offset
    send([(LARGE,)], BODY, **chosen)
    assert [row["body"] for row in again.drain()] == [LARGE]
    again.close()
    assert len(names(blobs)) == len(list((tmp_path / "wal" / "seg").iterdir())) == 11


def test_a_put_whose_answer_was_lost_leaves_two_messages_that_can_both_be_read(
    fake, queue, chosen, blobs
):
    fake.faults.add(Fault("put", "reply_lost", nth=1))
    send([(LARGE,)], BODY, **chosen)
    assert fake.count(queue) == 2

    reader = Source(maxMessagesPerTrigger="1", **chosen)
    # The first one is settled, and its blob removed, before the second is read.
    assert [row["body"] for row in reader.drain()] == [LARGE, LARGE]
    assert (fake.count(queue), names(blobs)) == (0, [])
    reader.close()


def test_a_message_whose_delete_was_refused_keeps_its_blob_until_it_is_gone(
    fake, queue, chosen, blobs
):
    send([(LARGE,)], BODY, **chosen)
    reader = Source(**chosen)
    assert len(reader.batch()) == 1
    # Somebody else gets hold of it, and drops it again.
    fake.clock.advance(61)
    other = Source(**chosen)
    assert len(other.batch()) == 1
    assert reader.drain() == [], "the delete is refused: somebody else holds it"
    assert len(names(blobs)) == 1
    fake.clock.advance(61)
    assert reader.drain() == [], "it comes back, and is deleted with its newer receipt"
    assert (fake.count(queue), names(blobs)) == (0, [])
    reader.close()
    other.close()


def test_a_lost_blob_stops_the_query_and_is_named(fake, queue, chosen, blobs):
    send([(LARGE,)], BODY, **chosen)
    (name,) = names(blobs)
    blobs.delete_blob(name)
    (view,) = fake.messages(queue)
    reader = Source(**chosen)

    with pytest.raises(LostBlob) as caught:
        reader.batch()
    text = str(caught.value)
    assert f"the body of message {view.id} in queue '{queue}' cannot be read" in text
    assert f"blob '{name}'" in text
    assert "onUndecodable=permissive" in text
    reader.close()


def test_a_lost_blob_may_be_a_row_with_its_reference(fake, queue, chosen, blobs):
    send([(LARGE,), ("small",)], BODY, **chosen)
    (name,) = names(blobs)
    blobs.delete_blob(name)
    reader = Source(onUndecodable="permissive", **chosen)

    rows = {row["body"]: row["_corrupt_record"] for row in reader.drain()}
    assert rows["small"] is None
    assert json.loads(rows[None])["name"] == name
    reader.close()


def test_bytes_that_are_no_text_are_told_where_a_text_is_wanted(fake, queue, chosen, blobs):
    send([(b"\xff" * 70_000,)], (("body", "binary"),), **chosen)
    with pytest.raises(UndecodableBody, match=r"not UTF-8 text .at byte 0.; read them with bodyT"):
        Source(**chosen).batch()
    fake.clock.advance(61)
    reader = Source(bodyType="binary", **chosen)
    assert [row["body"] for row in reader.drain()] == [b"\xff" * 70_000]
    reader.close()


def test_a_reference_to_another_container_is_not_followed(fake, queue, chosen, blobs):
    forged = Reference("other-container", "a" * 32, 3)
    fake.put(queue, forged.text)

    with pytest.raises(UndecodableBody, match="'other-container', and option 'blobContainer' says"):
        Source(onUndecodable="fail", **chosen).batch()
    assert fake.visible(queue) == 1


def test_a_source_that_is_not_told_of_blobs_shows_the_reference(fake, queue, chosen, blobs):
    send([(LARGE,)], BODY, **chosen)
    plain = {name: chosen[name] for name in ("secret.connectionString", "queue")}
    reader = Source(**plain)

    (row,) = reader.drain()
    assert json.loads(row["body"])["size"] == 100_000
    assert len(names(blobs)) == 1
    reader.close()


def test_an_update_may_put_a_large_body_in_place(fake, queue, chosen, blobs):
    send([("small",)], BODY, **chosen)
    reader = Source(deleteOnCommit="false", **chosen)
    (row,) = reader.batch()
    schema = (("message_id", "string"), ("pop_receipt", "string"), ("body", "string"))
    updated = [(row["message_id"], row["pop_receipt"], LARGE)]
    assert send(updated, schema, operation="update", **chosen).done == 1

    (again,) = reader.batch()
    assert (again["message_id"], again["body"]) == (row["message_id"], LARGE)
    reader.close()
