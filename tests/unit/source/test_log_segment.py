"""A segment: what goes in comes out, and nothing else is ever read as one."""

from __future__ import annotations

import hashlib
import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refs import ORDERS
from segments import HEADER, a_header, a_message, messages_of

from spark_azqueue.journal import frame
from spark_azqueue.journal.codec import LATEST, Damaged
from spark_azqueue.journal.frame import codec, digest_in
from spark_azqueue.journal.messages import pack_messages, unpack_messages
from spark_azqueue.journal.pending import PENDING_AT_MOST, PendingDelete, fingerprint
from spark_azqueue.service.messages import MAX_DEQUEUE_COUNT, MessageKey
from spark_azqueue.source.log.progress import LogProgress, SegmentHeader
from spark_azqueue.source.log.segment import (
    SEGMENT_MAGIC,
    decode_header,
    decode_segment,
    encode_segment,
    header_size,
)

texts = st.text(max_size=200)
times = st.integers(0, 253_402_300_799_999_999)
many = st.lists(
    st.builds(
        a_message,
        number=st.integers(0, 999),
        queue=st.sampled_from(HEADER.queues),
        text=texts | st.text(st.characters(categories=["Cs", "L"]), max_size=20),
        insertion_time=times,
        expiration_time=times,
        dequeue_count=st.integers(0, MAX_DEQUEUE_COUNT),
        next_visible_time=st.none() | times,
        intact=st.booleans(),
    ),
    min_size=1,
    max_size=40,
    unique_by=lambda each: each.lease.key,
)


@given(many)
def test_messages_come_back_as_they_were(messages):
    header = a_header(cut=(len(messages),))

    data = encode_segment(header, messages)
    found = decode_segment(data)

    assert found.received == tuple(messages)
    assert found.header == header
    assert found.digest == digest_in(data)


def test_the_header_is_read_from_the_beginning_alone():
    pending = PendingDelete(MessageKey(ORDERS, "m1"), fingerprint("x"), 1_900_000_000)
    progress = LogProgress(claim=3, sequence=9, committed=40, done=39, pending=(pending,))
    header = a_header(number=42, floor=7, progress=progress, suspect=True, oldest=1_800_000_000)
    data = encode_segment(header, messages_of(2))

    assert decode_header(data[: header_size(data[:100])]) == header


def test_the_newest_owed_deletes_are_kept():
    pending = tuple(
        PendingDelete(MessageKey(ORDERS, f"m{n}"), n, 0) for n in range(PENDING_AT_MOST + 5)
    )
    header = a_header(progress=LogProgress(pending=pending))

    found = decode_segment(encode_segment(header, messages_of(2)))

    assert found.header.progress.pending == pending[5:]


def test_two_writers_never_make_the_same_segment():
    """The messages may be the same; the digest is what an offset is compared with."""
    one, other = (
        encode_segment(a_header(writer=writer), messages_of(2)) for writer in ("aa", "bb")
    )

    assert digest_in(one) != digest_in(other)


@pytest.mark.parametrize("part", range(0, 100, 7))
def test_a_flipped_bit_is_noticed(part):
    data = bytearray(encode_segment(a_header(), messages_of(2)))
    data[len(data) * part // 100] ^= 4

    with pytest.raises(Damaged):
        decode_segment(bytes(data))


@given(st.data())
def test_a_segment_that_was_cut_short_is_damaged(data):
    whole = encode_segment(a_header(), messages_of(2))
    size = data.draw(st.integers(0, len(whole) - 1))

    with pytest.raises(Damaged):
        decode_segment(whole[:size])


@given(st.binary(max_size=300))
def test_other_bytes_are_damaged(data):
    for read in (decode_segment, header_size, SegmentHeader.from_bytes):
        with pytest.raises(Damaged):
            read(data)


def resealed(header: bytes, raw: bytes, raw_size: int | None = None) -> bytes:
    """A segment of these parts with digests that fit, as somebody could write it on purpose."""
    packed = codec().compress(raw, asbytes=True)
    sizes = struct.pack("<IQQ", len(header), len(packed), raw_size or len(raw))
    front = SEGMENT_MAGIC + sizes + header
    body = front + digest(front) + packed
    return body + digest(body) + frame.END


def digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


PROGRESS = LogProgress().to_json()


@pytest.mark.parametrize(
    "changed",
    [
        {"version": 3},
        {"version": None},
        {"log": "../x"},
        {"log": None},
        {"number": 0},
        {"number": True},
        {"number": 10**12},
        {"writer": "x" * 65},
        {"account": "a\nb"},
        {"prev": "../.."},
        {"floor": -1},
        {"queues": ["../orders"]},
        {"queues": "orders"},
        {"queues": []},
        {"reading": []},
        {"reading": {"a": 1}},
        {"reading": {"a" * 101: ""}},
        {"reading": {"a later option": "or an earlier one"}},
        {"reading": {"onUndecodable": "later"}},
        {"reading": {"messageEncoding": ""}},
        {"reading": {"a": "b" * 2_001}},
        {"cut": []},
        {"cut": [0, 2]},
        {"cut": [-1, 3]},
        {"cut": [100_001]},
        {"cut": [3]},
        {"cut": [1.5, 0.5]},
        {"oldest": "yesterday"},
        {"oldest": LATEST},
        {"progress": PROGRESS | {"hidden_until": LATEST - 1}},
        {"progress": PROGRESS | {"pending": [["orders", "m1", "0" * 16, LATEST]]}},
        {"progress": PROGRESS | {"hidden_until": 1, "ended": 1}},
        {"suspect": "no"},
        {"progress": None},
        {"progress": {}},
        {"progress": {"claim": 0, "sequence": 0, "committed": 0, "done": 0, "pending": [[]]}},
        {"progress": {"claim": -1, "sequence": 0, "committed": 0, "done": 0, "pending": []}},
        {
            "progress": {
                "claim": 0,
                "sequence": 0,
                "committed": 0,
                "done": 0,
                "pending": [["orders", "..", "0" * 16, 0]],
            }
        },
        {
            "progress": {
                "claim": 0,
                "sequence": 0,
                "committed": 0,
                "done": 0,
                "pending": [["orders", "m1", "0" * 15, 0]],
            }
        },
    ],
    ids=lambda changed: json.dumps(changed)[:60],
)
def test_a_header_that_the_log_would_not_write_is_damaged(changed):
    header = json.loads(a_header().to_bytes()) | changed
    data = resealed(json.dumps(header).encode(), pack_messages(messages_of(2), HEADER.queues))

    with pytest.raises(Damaged) as caught:
        decode_segment(data)
    assert len(str(caught.value)) < 100


def test_resealed_it_is_read():
    """So the tests beside this one fail for the change alone."""
    messages = messages_of(2)
    data = resealed(a_header().to_bytes(), pack_messages(messages, HEADER.queues))

    assert decode_segment(data).received == tuple(messages)


@pytest.mark.parametrize(
    "change",
    [
        {"message_id": ".."},
        {"message_id": "a/b"},
        {"pop_receipt": ""},
        {"pop_receipt": 'a"b'},
        {"dequeue_count": -1},
        {"insertion_time": -1},
        {"expiration_time": 2**62},
        {"next_visible_time": -2},
    ],
    ids=str,
)
def test_a_message_that_the_service_would_not_give_is_damaged(change):
    messages = messages_of(2)
    messages[1] = a_message(1, **change)
    data = resealed(a_header().to_bytes(), pack_messages(messages, HEADER.queues))

    with pytest.raises(Damaged):
        decode_segment(data)


@pytest.mark.parametrize("raw", [b"", b"\x01", b"\xff" * 8, b"\0" * 80, b"\0" * 88])
def test_columns_of_other_sizes_are_damaged(raw):
    with pytest.raises(Damaged):
        decode_segment(resealed(a_header().to_bytes(), raw))


def test_what_does_not_unpack_to_the_size_it_says_is_damaged():
    raw = pack_messages(messages_of(2), HEADER.queues)

    for size in (len(raw) - 1, len(raw) + 1, 2**40):
        with pytest.raises(Damaged):
            decode_segment(resealed(a_header().to_bytes(), raw, size))


class Counted:
    """A stream that repeats a piece for ever. taken: how many bytes of it were read."""

    def __init__(self, start: bytes, piece: bytes) -> None:
        self._start, self._piece = start, piece
        self.taken = 0

    def read(self, size: int) -> bytes:
        self.taken += size
        data, self._start = self._start[:size], self._start[size:]
        return data + (self._piece * size)[: size - len(data)]


@pytest.mark.parametrize("columns", range(10))
@pytest.mark.parametrize("piece", [b"\0", b"\x01", b"\xff"], ids=str)
def test_of_a_forged_segment_no_more_is_read_than_its_messages_can_have(columns, piece):
    """The first columns are as they should be, then comes what compresses to nothing."""
    raw = pack_messages(messages_of(2), HEADER.queues)
    at = 0
    for _ in range(columns):
        at += 8 + int.from_bytes(raw[at : at + 8], "little")
    stream = Counted(raw[:at], piece)

    with pytest.raises(Damaged):
        unpack_messages(stream, HEADER.queues, 2)
    assert stream.taken < 500_000


def test_a_segment_of_compressed_zeros_is_damaged():
    header = a_header().to_bytes()
    for zeros in (64 * 2**20, 64 * 2**20 + 1):
        data = resealed(header, bytes(zeros))
        assert len(data) < 10_000
        with pytest.raises(Damaged, match="more or fewer values"):
            decode_segment(data)


def test_a_text_that_is_longer_than_any_answer_is_damaged():
    messages = messages_of(2)
    messages[0] = a_message(0, text="x" * 16 * 2**20)
    assert decode_segment(encode_segment(a_header(), messages)).received == tuple(messages)

    messages[0] = a_message(0, text="x" * (48 * 2**20 + 1))
    with pytest.raises(Damaged, match="too long"):
        decode_segment(encode_segment(a_header(), messages))


def test_a_segment_over_the_limit_is_refused_before_it_is_written(monkeypatch):
    monkeypatch.setattr(frame, "FRAME_AT_MOST", 1_000)

    with pytest.raises(ValueError, match="too large"):
        encode_segment(a_header(cut=(40,)), messages_of(40))


@given(texts, texts)
def test_a_fingerprint_tells_texts_apart(one, other):
    assert (fingerprint(one) == fingerprint(other)) is (one == other)


def test_a_fingerprint_is_the_same_in_every_process():
    # Golden: logs of users hold such numbers.
    assert fingerprint("hello") == int.from_bytes(bytes.fromhex("a7b6eda801e5347d"), "big")
