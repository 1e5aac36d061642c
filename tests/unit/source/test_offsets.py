"""The offset: small, canonical, and refusing what it cannot vouch for."""

import base64
import json
import random
import time
import uuid
import zlib

import pytest

from spark_azqueue.errors import CheckpointMismatch
from spark_azqueue.journal.pending import PENDING_AT_MOST, PendingDelete
from spark_azqueue.service.messages import Lease, QueueRef
from spark_azqueue.source.offset_columns import pack_leases
from spark_azqueue.source.offsets import NEWEST_VERSION, QueueOffset, offset_text

ACCOUNT = "acc"
ORDERS = QueueRef(ACCOUNT, "orders")


def receipt(number):
    return base64.b64encode(b"\xfb\xf0" + number.to_bytes(18, "big")).decode()


def lease(number, queue="orders"):
    return Lease(QueueRef(ACCOUNT, queue), str(uuid.UUID(int=number)), receipt(number))


def there_and_back(offset):
    # As Spark keeps it: JSON text.
    kept = json.loads(json.dumps(offset.to_json()))
    return QueueOffset.from_json(kept, account=offset.account)


def test_an_offset_of_nothing():
    offset = QueueOffset(ACCOUNT)

    assert offset.to_json() == {"version": 1, "batch": 0, "account": ACCOUNT, "queues": {}}
    assert there_and_back(offset) == offset


def test_the_identity_of_an_offset_is_independent_of_key_order():
    offset = QueueOffset(ACCOUNT, 7, (lease(1),)).to_json()

    assert offset_text(dict(reversed(offset.items()))) == offset_text(offset)
    assert offset_text({**offset, "batch": 8}) != offset_text(offset)


def test_people_can_read_its_number_its_age_and_how_much_it_holds():
    offset = QueueOffset(ACCOUNT, 7, (lease(1), lease(2)), 1_700_000_000).to_json()

    assert offset["batch"] == 7
    assert offset["oldest"] == "2023-11-14T22:13:20Z"
    assert offset["queues"]["orders"]["messages"] == 2


def test_it_is_small():
    chance = random.Random(1)
    leases = tuple(
        Lease(
            ORDERS,
            str(uuid.UUID(int=chance.getrandbits(128))),
            base64.b64encode(b"\x02\0\0\0\x03\0\0\0\0\0\0\0" + chance.randbytes(8)).decode(),
        )
        for _ in range(1024)
    )

    text = json.dumps(QueueOffset(ACCOUNT, 7, leases, 1_700_000_000).to_json())

    # 36 + 28 characters a message would be twice as long without packing.
    assert len(text) < 1024 * 36

    with_texts = QueueOffset(
        ACCOUNT, 7, leases, texts={each: chance.getrandbits(64) for each in leases}, expires=1
    )
    assert len(json.dumps(with_texts.to_json())) < len(text) + 1024 * 12

    pending = tuple(
        PendingDelete(each.key, chance.getrandbits(64), 1_790_000_000) for each in leases
    )
    assert len(json.dumps(QueueOffset(ACCOUNT, 7, pending=pending).to_json())) < 1024 * 34


def test_of_too_many_pending_deletes_the_newest_are_kept():
    pending = tuple(PendingDelete(lease(at).key, at, at) for at in range(PENDING_AT_MOST + 3))

    assert there_and_back(QueueOffset(ACCOUNT, 7, pending=pending)).pending == pending[3:]


def test_pending_deletes_are_readable_by_queue():
    pending = (
        PendingDelete(lease(1, "returns").key, 2**64 - 1, 0),
        PendingDelete(lease(2).key, 0, 253_402_300_799),
        PendingDelete(lease(3, "returns").key, 7, 1_700_000_000),
    )
    offset = QueueOffset(ACCOUNT, 7, pending=pending, hidden_until=1_700_000_000).to_json()

    assert {queue: each["messages"] for queue, each in offset["pending"].items()} == {
        "orders": 1,
        "returns": 2,
    }
    assert offset["hiddenUntil"] == "2023-11-14T22:13:20Z"
    read = there_and_back(QueueOffset(ACCOUNT, 7, pending=pending, hidden_until=1_700_000_000))
    assert read.pending == (pending[1], pending[0], pending[2])
    assert read.hidden_until == 1_700_000_000


@pytest.mark.parametrize(
    ("leases", "payload"),
    [
        (
            # GUIDs and base64 are kept as the bytes that they stand for,
            [
                Lease(ORDERS, str(uuid.UUID(int=1)), "AQID"),
                Lease(ORDERS, str(uuid.UUID(int=2)), "BAUG"),
            ],
            b"\0\0\0\x21" + b"\x10" + bytes(15) + b"\1" + bytes(15) + b"\2" + b"\3\1\2\3\4\5\6",
        ),
        (
            # and what would not come back from its bytes, as text.
            [Lease(ORDERS, str(uuid.UUID(int=1)), "YR==")],
            b"\0\0\0\x11" + b"\x10" + bytes(15) + b"\1" + b'\0["YR=="]',
        ),
    ],
)
def test_what_is_compressed_has_one_form(leases, payload):
    assert zlib.decompress(base64.b64decode(pack_leases(leases))) == payload


GOOD = QueueOffset(ACCOUNT, 7, (lease(1), lease(2)), 1_700_000_000).to_json()
PACKED = GOOD["queues"]["orders"]


def with_leases(**changed):
    return {**GOOD, "queues": {"orders": {**PACKED, **changed}}}


@pytest.mark.parametrize(
    "offset",
    [
        {},
        None,
        [],
        "text",
        {**GOOD, "version": 0},
        {**GOOD, "version": "1"},
        {**GOOD, "version": None},
        {**GOOD, "batch": -1},
        {**GOOD, "batch": "seven"},
        {**GOOD, "batch": None},
        {**GOOD, "oldest": "yesterday"},
        {**GOOD, "oldest": 17},
        {**GOOD, "queues": None},
        {**GOOD, "queues": {"orders": None}},
        {**GOOD, "queues": {"orders": {}}},
        {name: value for name, value in GOOD.items() if name != "account"},
        {name: value for name, value in GOOD.items() if name != "queues"},
        with_leases(messages=1),
        with_leases(messages=3),
        with_leases(leases=""),
        with_leases(leases="not base64"),
        with_leases(leases=PACKED["leases"][:-4]),
        with_leases(leases=base64.b64encode(b"not deflated").decode()),
        with_leases(leases=None),
    ],
)
def test_a_damaged_offset_is_refused_with_what_to_do(offset):
    with pytest.raises(CheckpointMismatch, match=r"cannot read.*checkpointLocation"):
        QueueOffset.from_json(offset, account=ACCOUNT)


def test_a_newer_offset_is_refused_even_where_nothing_else_of_it_is_understood():
    with pytest.raises(CheckpointMismatch, match="upgrade spark-azqueue"):
        QueueOffset.from_json({"version": NEWEST_VERSION + 1}, account=ACCOUNT)


def test_an_offset_of_another_account_is_refused_with_both_names():
    with pytest.raises(CheckpointMismatch, match="'acc', but the options name 'other'"):
        QueueOffset.from_json(GOOD, account="other")


def test_an_offset_written_by_this_release_stays_readable():
    # Golden: checkpoints of users hold texts like this. Never change it; add others beside it.
    kept = {
        "version": 1,
        "batch": 7,
        "account": "acc",
        "oldest": "2023-11-14T22:13:20Z",
        "queues": {
            "orders": {
                "messages": 2,
                "leases": "eJxjYGBQFGBABYxofCaR3x8Y0AEjFjEmAIOmBCI=",
            }
        },
    }
    offset = QueueOffset.from_json(kept, account="acc")

    assert offset == QueueOffset("acc", 7, (lease(1), lease(2)), 1_700_000_000)


def test_blobs_of_bodies_come_back_with_their_leases():
    leases = (lease(1, "a-queue"), lease(2, "b-queue"), lease(3, "b-queue"), lease(4, "c-queue"))
    blobs = {leases[0]: "1" * 32, leases[2]: "0123456789abcdef" * 2}
    offset = QueueOffset(ACCOUNT, 7, leases, 1_700_000_000, blobs)

    assert there_and_back(offset) == offset
    queues = offset.to_json()["queues"]
    assert ["blobs" in queues[name] for name in sorted(queues)] == [True, True, False]


def test_without_blobs_an_offset_is_as_it_was():
    offset = QueueOffset(ACCOUNT, 7, (lease(1),))

    assert offset.to_json()["queues"]["orders"].keys() == {"messages", "leases"}


@pytest.mark.parametrize("blobs", ["", "no base64", "AAAA", 7])
def test_damaged_names_of_blobs_are_told(blobs):
    offset = QueueOffset(ACCOUNT, 7, (lease(1),)).to_json()
    offset["queues"]["orders"]["blobs"] = blobs

    with pytest.raises(CheckpointMismatch, match="cannot read"):
        QueueOffset.from_json(offset, account=ACCOUNT)


def test_the_last_number_of_a_batch_is_read():
    offset = QueueOffset(ACCOUNT, 2**63 - 1)

    assert there_and_back(offset) == offset


def test_the_canonical_text_has_no_spaces():
    assert offset_text({"b": [1, 2], "a": {"d": 1, "c": "x"}}) == '{"a":{"c":"x","d":1},"b":[1,2]}'


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="the time zone of this system is fixed")
def test_the_age_does_not_depend_on_the_time_zone(monkeypatch):
    monkeypatch.setenv("TZ", "XYZ-05:30")
    time.tzset()
    try:
        offset = QueueOffset(ACCOUNT, 7, (lease(1),), 1_700_000_000)

        assert offset.to_json()["oldest"] == "2023-11-14T22:13:20Z"
        assert there_and_back(offset) == offset
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(("version", "shown"), [(999_999, "999999"), (1_000_000, "unknown")])
def test_a_newer_version_is_shown_if_it_is_short(version, shown):
    with pytest.raises(CheckpointMismatch, match=rf"offset version {shown};"):
        QueueOffset.from_json({"version": version}, account=ACCOUNT)
