"""Bodies in place of references: bounded pieces, the right rows, and what a lost blob does."""

import pyarrow as pa
import pytest

from spark_azqueue.errors import LostBlob, ServiceError, UndecodableBody
from spark_azqueue.options.parse import source_config
from spark_azqueue.service.blobs.references import Reference, looks_like_reference
from spark_azqueue.service.encoding import BodyType
from spark_azqueue.source import large_bodies as resolving
from spark_azqueue.source.columns import IS_REFERENCE, source_columns
from spark_azqueue.source.large_bodies import HELD_AT_MOST_BYTES, carried, resolved

NAMES = [f"{n:032x}" for n in range(100)]


class Store:
    """Blobs in memory."""

    blobs: dict[str, bytes] = {}
    reads: list[str] = []

    def __init__(self, account, container):
        pass

    def get(self, reference):
        self.reads.append(reference.name)
        if reference.name not in self.blobs:
            raise LostBlob(f"the blob '{reference.name}' does not exist")
        return self.blobs[reference.name]

    def close(self):
        pass


@pytest.fixture(autouse=True)
def store(monkeypatch):
    monkeypatch.setattr(resolving, "BlobStore", Store)
    Store.blobs, Store.reads = {}, []
    return Store


def config(**given):
    return source_config(
        {
            "accountUrl": "https://acc.queue.core.windows.net",
            "sasToken": "sig=x",
            "queue": "orders",
            "largeBody": "blob",
            "blobContainer": "bodies",
            **given,
        },
        {},
    )


def refer(number, size=3):
    return Reference("bodies", NAMES[number], size).text


def read(bodies, requested=(("body", "string"),), **given):
    chosen = config(**given)
    columns = carried(requested, chosen)
    kinds = {"string": pa.string(), "binary": pa.binary(), "int": pa.int32(), "boolean": pa.bool_()}
    rows = {
        IS_REFERENCE: [body is not None and looks_like_reference(body) for body in bodies],
        "body": bodies,
        "message_id": [f"id-{n}" for n in range(len(bodies))],
        "queue": ["orders"] * len(bodies),
        "dequeue_count": [1] * len(bodies),
        "_corrupt_record": [None] * len(bodies),
    }
    arrays = [pa.array(rows[name], type=kinds[kind]) for name, kind in columns]
    batch = pa.record_batch(arrays, names=[name for name, _ in columns])
    return list(resolved([batch], requested, chosen))


def values(batches, name="body"):
    return [value for batch in batches for value in batch.column(name).to_pylist()]


def test_only_references_are_replaced(store):
    store.blobs = {NAMES[0]: b"abc", NAMES[1]: "é".encode()}
    batches = read(["plain", refer(0), "", None, refer(1), refer(0)])

    assert values(batches) == ["plain", "abc", "", None, "é", "abc"]
    assert [batch.schema.names for batch in batches] == [["body"]] * len(batches)


def test_without_references_nothing_is_asked_for(store):
    (batch,) = read(["a", "b"])

    assert values([batch]) == ["a", "b"]
    assert store.reads == []


def test_without_the_body_nothing_is_asked_for(store):
    requested = (("dequeue_count", "int"),)
    assert carried(requested, config()) == requested


def test_pieces_are_bounded(store):
    size = HELD_AT_MOST_BYTES // 3
    store.blobs = dict.fromkeys(NAMES[:7], b"abc")
    batches = read(["first", *(refer(n, size) for n in range(7)), "last"])

    assert [batch.num_rows for batch in batches] == [4, 3, 2]
    assert values(batches) == ["first", *["abc"] * 7, "last"]
    # One that is larger than the bound stands alone.
    batches = read([refer(0, 10 * HELD_AT_MOST_BYTES), refer(1, 10 * HELD_AT_MOST_BYTES)])
    assert [batch.num_rows for batch in batches] == [1, 1]


def test_a_binary_body_keeps_its_bytes(store):
    store.blobs = {NAMES[0]: b"\xff\x00"}
    requested = (("dequeue_count", "int"), ("body", "binary"))
    (batch,) = read([refer(0).encode(), b"x"], requested, bodyType="binary")

    assert values([batch]) == [b"\xff\x00", b"x"]
    assert batch.schema.names == ["dequeue_count", "body"]


def test_a_lost_blob_names_the_message_even_where_that_column_was_not_asked_for(store):
    with pytest.raises(LostBlob, match=r"body of message id-1 in queue 'orders'.*poison queue"):
        read(["a", refer(5)])


def test_bytes_that_are_no_text_are_told(store):
    store.blobs = {NAMES[0]: b"\xff"}
    with pytest.raises(UndecodableBody, match=r"message id-0 .*not UTF-8") as caught:
        read([refer(0)])
    assert type(caught.value) is UndecodableBody


@pytest.mark.parametrize("kind", ["string", "binary"])
def test_permissive_shows_the_reference(store, kind):
    store.blobs = {NAMES[1]: b"abc"}
    requested = (("body", kind), ("_corrupt_record", "string"))
    bodies = [refer(0), refer(1)]
    if kind == "binary":
        bodies = [body.encode() for body in bodies]
    batches = read(bodies, requested, onUndecodable="permissive", bodyType=kind)

    assert values(batches) == [None, "abc" if kind == "string" else b"abc"]
    assert values(batches, "_corrupt_record") == [refer(0), None]
    # Without that column the body alone is null.
    assert values(read([refer(0)], onUndecodable="permissive")) == [None]


def test_a_service_that_is_away_is_no_lost_blob(store, monkeypatch):
    def away(self, reference):
        raise ServiceError("could not read blob: no answer")

    monkeypatch.setattr(Store, "get", away)
    with pytest.raises(ServiceError):
        read([refer(0)], onUndecodable="permissive")


def test_the_columns_of_a_source_are_all_carried():
    columns = source_columns(BodyType.STRING, permissive=True)

    assert carried(columns, config()) == (*columns, (IS_REFERENCE, "boolean"))
