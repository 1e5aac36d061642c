"""An offset that somebody else wrote steers nothing: neither a request elsewhere, nor memory."""

import base64
import json
import uuid
import zlib

import pytest

from spark_azqueue.errors import CheckpointMismatch, ServiceError
from spark_azqueue.journal.pending import PENDING_AT_MOST, PendingDelete
from spark_azqueue.options.choices import Side
from spark_azqueue.options.parse import parse
from spark_azqueue.service.fields import MAX_RECEIPT
from spark_azqueue.service.messages import MOST_IN_A_BATCH, Lease, MessageKey, QueueRef
from spark_azqueue.source import offset_columns as packing
from spark_azqueue.source.offsets import QueueOffset, batch_of

ACCOUNT = "acc"
ORDERS = QueueRef(ACCOUNT, "orders")
ID = str(uuid.UUID(int=1))
RECEIPT = base64.b64encode(bytes(20)).decode()


def packed(ids, receipts):
    """As `pack` writes what does not shrink, whatever it is."""
    columns = [b"\0" + json.dumps(values).encode() for values in (ids, receipts)]
    payload = len(columns[0]).to_bytes(4, "big") + b"".join(columns)
    return base64.b64encode(zlib.compress(payload)).decode()


def offset(queue="orders", messages=1, leases=None, **more):
    given = {"messages": messages, "leases": leases or packed([ID], [RECEIPT]), **more}
    return {"version": 1, "batch": 7, "account": ACCOUNT, "queues": {queue: given}}


def refused(value, match):
    with pytest.raises(CheckpointMismatch, match=match) as caught:
        QueueOffset.from_json(value, account=ACCOUNT)
    text = str(caught.value)
    assert "checkpointLocation" in text
    assert len(text) < 400
    assert text.isprintable()


def test_what_is_written_like_that_is_read():
    found = QueueOffset.from_json(offset(), account=ACCOUNT)

    assert found.leases == (Lease(ORDERS, ID, RECEIPT),)


@pytest.mark.parametrize(
    "name", ["..", ".", "", "../a", "a/b", "a?b", "a#b", "a%2fb", "ä", "a b", "a\x1b[0m", "a" * 65]
)
def test_no_message_id_names_anything_but_a_message(name):
    refused(offset(leases=packed([name], [RECEIPT])), "one of its message ids is not valid")


@pytest.mark.parametrize("receipt", ["", "a\n", "a\x00", "ä", "a" * (MAX_RECEIPT + 1), 'a", "b'])
def test_no_receipt_is_anything_but_printable_and_short(receipt):
    refused(offset(leases=packed([ID], [receipt])), "its pop receipts")


@pytest.mark.parametrize(
    "queue", ["", "..", "Orders", " orders", "orders/messages", "a" * 64, "a--b", "o\x1b[0m"]
)
def test_no_queue_has_a_name_that_the_option_would_refuse(queue):
    refused(offset(queue), "name of one of its queues")


@pytest.mark.parametrize(
    "name", ["../othercontainer/secret", "a" * 31, "a" * 33, "A" * 32, "g" * 32, ""]
)
def test_no_blob_is_named_that_the_sink_would_not_name(name):
    column = b"\0" + json.dumps([name]).encode()
    refused(offset(blobs=base64.b64encode(column).decode()), "blob names")


def test_blobs_are_as_many_as_messages():
    for blobs in (packing.pack_blobs([]), packing.pack_blobs(["a" * 32] * 2)):
        refused(offset(blobs=blobs), "blob names")


@pytest.mark.parametrize("count", [0, -1, True, 1.0, "1", None, MOST_IN_A_BATCH + 1, 10**400])
def test_counts_are_what_a_batch_can_hold(count):
    refused(offset(messages=count), "counts more than|number of messages of one of its queues")


@pytest.mark.parametrize("batch", [-1, 2**63, True, 7.5, "7", None])
def test_the_batch_number_is_one(batch):
    refused({**offset(), "batch": batch}, "batch number")
    with pytest.raises(CheckpointMismatch, match="batch number"):
        batch_of({**offset(), "batch": batch}, account=ACCOUNT)


@pytest.mark.parametrize("version", [True, 1.0, 0, -1, "1", None])
def test_the_version_is_a_number(version):
    refused({**offset(), "version": version}, "version")


def test_a_huge_version_and_a_strange_account_do_not_flood_the_text():
    refused({**offset(), "version": 10**5000}, r"newer .*version unknown")
    refused({**offset(), "account": "\x1b[31m" * 100_000}, "no account has such a name")


@pytest.mark.parametrize(
    "oldest", ["2026-1-1T0:0:0Z", "9999-99-99T00:00:00Z", "٢٠٢٦-01-01T00:00:00Z", 17, None]
)
def test_the_time_is_written_in_one_way(oldest):
    refused({**offset(), "oldest": oldest}, "time of its oldest")


def pending(queue="orders", messages=1, deletes=None, until="2026-11-21T10:00:00Z"):
    """An offset with a pending delete."""
    given = {"messages": messages, "deletes": deletes or deletes_of([ID])}
    return {**offset(), "pending": {queue: given}, "hiddenUntil": until}


def deletes_of(ids, texts=bytes(8), times=bytes(5)):
    """As `pack_pending` writes ids that do not shrink, whatever they are."""
    payload = times + texts + b"\0" + json.dumps(ids).encode()
    return base64.b64encode(zlib.compress(payload)).decode()


def test_a_pending_delete_is_read():
    (found,) = QueueOffset.from_json(pending(), account=ACCOUNT).pending

    assert found == PendingDelete(MessageKey(ORDERS, ID), 0, 0)


@pytest.mark.parametrize(
    ("value", "match"),
    [
        (pending(deletes=deletes_of(["../a"])), "one of its message ids is not valid"),
        (pending(deletes=deletes_of([ID, ID])), "more or fewer message ids"),
        (pending(deletes=deletes_of([ID], times=b"\xff" * 5)), "time of one of its pending"),
        (pending(deletes=deletes_of([ID], texts=b"")), "more or fewer message ids"),
        (pending(deletes=base64.b64encode(zlib.compress(bytes(9))).decode()), "deletes are cut"),
        (pending(deletes="AAAA"), "pending deletes cannot be decompressed"),
        (pending(deletes=17), "pending deletes are missing"),
        (pending(queue="../secret"), "name of one of its queues"),
        (pending(messages=0), "number of messages of one of its queues"),
        (pending(messages=PENDING_AT_MOST + 1), "counts more than 50,000 messages"),
        (pending(until="tomorrow"), "time of its last hidden message"),
        ({**pending(), "pending": []}, "its queues are missing"),
        ({**offset(), "expires": 17}, "time of its last expiry"),
        (offset(texts="AAAA"), "digests of texts"),
        (offset(texts=base64.b64encode(bytes(16)).decode()), "digests of texts"),
        (offset(texts=None), "digests of texts are missing"),
    ],
)
def test_what_is_pending_is_checked_as_the_rest(value, match):
    refused(value, match)


def test_many_pending_deletes_take_no_more_memory_than_they_name():
    bomb = base64.b64encode(zlib.compress(bytes(50_000_000))).decode()
    refused(pending(deletes=bomb), "pending deletes are larger than its number of messages")


def test_a_batch_as_large_as_the_option_allows_can_be_read_whatever_its_receipts():
    assert parse({"maxMessagesPerTrigger": str(MOST_IN_A_BATCH)}, Side.SOURCE)
    queues = [f"queue-{n}" for n in range(10)]
    leases = tuple(
        Lease(QueueRef(ACCOUNT, queue), "x" * 64, f"{queue}-{n}-" + "~" * 490)
        for queue in queues
        for n in range(MOST_IN_A_BATCH // len(queues))
    )
    whole = QueueOffset(ACCOUNT, 1, leases)

    assert QueueOffset.from_json(whole.to_json(), account=ACCOUNT).leases == leases


@pytest.mark.parametrize("count", [1, 2, 3, 50])
def test_the_longest_fields_there_can_be_are_read(count):
    ids = [f"{n:x>64}" for n in range(count)]
    receipts = [f"{n:~>{MAX_RECEIPT}}" for n in range(count)]
    leases = [Lease(ORDERS, *pair) for pair in zip(ids, receipts, strict=True)]

    assert packing.unpack_leases(ORDERS, packing.pack_leases(leases), count) == leases


@pytest.mark.parametrize("width", [1, 2, 255, 256, 257])
def test_receipts_of_any_length_come_back(width):
    leases = [Lease(ORDERS, ID, base64.b64encode(bytes([n]) * width).decode()) for n in (7, 8)]

    assert packing.unpack_leases(ORDERS, packing.pack_leases(leases), 2) == leases


@pytest.mark.parametrize("count", range(1, 8))
def test_names_of_blobs_come_back_however_many_there_are(count):
    names = [f"{n:032x}" for n in range(count)]

    assert packing.unpack_blobs(packing.pack_blobs(names), count) == names


@pytest.mark.parametrize("count", [1, 10])
def test_more_blob_names_than_messages_are_not_even_decoded(count):
    text = packing.pack_blobs(["a" * 32] * (count + 1))

    with pytest.raises(packing.DamagedOffset, match="blob names are larger than its number"):
        packing.unpack_blobs(text, count)


def test_blob_names_of_another_length_are_refused():
    column = base64.b64encode(bytes([8]) + bytes(8)).decode()
    refused(offset(blobs=column), "blob names are not of 32 hexadecimal digits")


def test_one_value_that_is_not_valid_is_found_among_others_that_are():
    other = str(uuid.UUID(int=2))
    for ids, receipts, match in (
        ([ID, "../a"], [RECEIPT, "AAAA"], "one of its message ids is not valid"),
        ([ID, other], [RECEIPT, "a\x7f"], "one of its pop receipts is not valid"),
    ):
        refused(offset(messages=2, leases=packed(ids, receipts)), match)
        leases = [Lease(ORDERS, *pair) for pair in zip(ids, receipts, strict=True)]
        with pytest.raises(ServiceError, match="cannot be kept in a checkpoint"):
            packing.pack_leases(leases)


def payload_of(ids, receipts):
    payload = len(ids).to_bytes(4, "big") + ids + receipts
    return base64.b64encode(zlib.compress(payload)).decode()


@pytest.mark.parametrize("frame", ['["{}"', '"{}"]', '{{"{}"]', '["{}"}}'])
def test_a_list_without_its_brackets_is_refused(frame):
    ids = b"\0" + frame.format(ID).encode()
    receipts = b"\0" + json.dumps([RECEIPT]).encode()

    refused(offset(leases=payload_of(ids, receipts)), "more or fewer message ids than messages")


@pytest.mark.parametrize("width", [15, 17])
def test_message_ids_that_are_no_guids_are_not_read_as_such(width):
    receipts = b"\0" + json.dumps([RECEIPT]).encode()

    refused(
        offset(leases=payload_of(bytes([width]) + bytes(width), receipts)),
        f"message ids are of {width} bytes",
    )


def test_ids_that_are_said_to_be_longer_than_the_whole_are_told():
    payload = (1_000).to_bytes(4, "big") + b"\0" + json.dumps([ID]).encode()

    refused(
        offset(leases=base64.b64encode(zlib.compress(payload)).decode()),
        r"its leases are cut short\.",
    )


@pytest.mark.parametrize("between", ["*", "\n", " ", "é"])
def test_nothing_but_base64_is_read(between):
    text = packed([ID], [RECEIPT])

    refused(offset(leases=f"{text[:8]}{between}{text[8:]}"), "its leases are not base64")


def test_a_queue_whose_name_is_no_text_is_refused():
    whole = offset()
    whole["queues"][7] = whole["queues"]["orders"]

    refused(whole, "name of one of its queues")


REAL = zlib.decompressobj


class Counting:
    """A decompressor that counts what it gives."""

    given = 0

    def __init__(self):
        self._real = REAL()

    def decompress(self, raw, most):
        found = self._real.decompress(raw, most)
        Counting.given += len(found)
        return found

    def __getattr__(self, name):
        return getattr(self._real, name)


@pytest.mark.parametrize("filler", [b"\0", b"[],", b'"a", '])
def test_a_little_text_does_not_become_much(monkeypatch, filler):
    bomb = base64.b64encode(zlib.compress(filler * (50_000_000 // len(filler)), 9)).decode()
    assert len(bomb) < 250_000
    made = []
    monkeypatch.setattr(Counting, "given", 0)
    monkeypatch.setattr(packing.zlib, "decompressobj", lambda: made.append(1) or Counting())
    monkeypatch.setattr(packing.zlib, "decompress", None)  # it knows no bound

    refused(offset(leases=bomb), "larger than its number of messages allows")
    assert made == [], "a text that is too long is not even decompressed"
    refused(offset(leases=bomb, messages=1_000), "leases are larger than its number of messages")
    assert 0 < Counting.given < 1_000_000


def test_a_list_of_lists_is_not_built():
    deep = b"\0" + b"[" * 100
    wide = b"\0[" + b"[]," * 150 + b"[]]"
    for column in (deep, wide):
        payload = len(column).to_bytes(4, "big") + column + b"\0" + json.dumps([RECEIPT]).encode()
        text = base64.b64encode(zlib.compress(payload)).decode()
        refused(offset(leases=text), "more or fewer .* than messages")


def test_what_follows_the_leases_is_refused():
    raw = base64.b64decode(packed([ID], [RECEIPT]))
    refused(offset(leases=base64.b64encode(raw + b"more").decode()), "other data follows")
    refused(offset(leases=base64.b64encode(raw[:-2]).decode()), "cut short")


@pytest.mark.parametrize(
    ("lease", "what"),
    [
        (Lease(ORDERS, "..", RECEIPT), "message id"),
        (Lease(ORDERS, ID, ""), "receipt"),
        (Lease(ORDERS, ID, "a\n"), "receipt"),
    ],
)
def test_what_could_not_be_read_back_is_not_written(lease, what):
    with pytest.raises(ServiceError, match=f"gave a {what} that cannot be kept in a checkpoint"):
        QueueOffset(ACCOUNT, 1, (lease,)).to_json()
