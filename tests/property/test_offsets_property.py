"""Offsets survive Spark's checkpoint whatever ids and receipts look like, and have one text."""

import base64
import json
from dataclasses import replace

from hypothesis import example, given
from hypothesis import strategies as st

from spark_azqueue.errors import CheckpointMismatch, ServiceError
from spark_azqueue.journal.pending import PendingDelete
from spark_azqueue.service.messages import Lease, QueueRef
from spark_azqueue.source.offsets import QueueOffset, offset_text

# A receipt is opaque: nothing but the service knows what may be in it, as long as it is printable.
printable = "".join(map(chr, range(32, 127))).replace('"', "").replace("\\", "")
opaque = st.text(printable, min_size=1, max_size=40)
receipts = st.one_of(
    st.binary(min_size=20, max_size=20).map(lambda raw: base64.b64encode(raw).decode()),
    st.binary(min_size=1, max_size=300).map(lambda raw: base64.b64encode(raw).decode()),
    opaque,
)
ids = st.one_of(
    st.uuids().map(str),
    st.uuids().map(lambda guid: str(guid).upper()),
    st.from_regex(r"[0-9A-Za-z-]{1,64}", fullmatch=True),
)
ORDERS = QueueRef("acc", "orders")


def leases_in(account):
    queues = st.sampled_from([QueueRef(account, n) for n in ("queue-x", "queue-y", "orders")])
    return st.builds(Lease, queues, ids, receipts)


def offsets_of(account):
    return st.builds(
        QueueOffset,
        st.just(account),
        st.integers(0, 10**9),
        # In the order in which an offset lists them: queue by queue.
        st.lists(leases_in(account), max_size=20).map(
            lambda all_: tuple(sorted(all_, key=lambda e: e.queue))
        ),
        st.none() | st.integers(0, 253_402_300_799),
    )


def with_pending(offset):
    """The same of a batch with digests of its texts, and with pending deletes."""
    fingerprints = st.integers(0, 2**64 - 1)
    times = st.integers(0, 253_402_300_799)
    keys = leases_in(offset.account).map(lambda lease: lease.key)
    return st.builds(
        lambda texts, expires, pending, hidden: replace(
            offset,
            texts=dict(zip(offset.leases, texts, strict=False)) if expires else {},
            expires=expires,
            pending=tuple(sorted(pending, key=lambda each: each.key.queue)),
            hidden_until=hidden if pending else 0,
        ),
        st.lists(fingerprints, min_size=20, max_size=20),
        st.none() | times,
        st.lists(st.builds(PendingDelete, keys, fingerprints, times), max_size=20),
        times,
    )


offsets = st.text(max_size=10).flatmap(offsets_of)
offsets |= offsets.flatmap(with_pending)


def kept(offset):
    """As Spark keeps it."""
    return json.loads(json.dumps(offset.to_json()))


@given(offsets)
@example(QueueOffset("acc", 1, (Lease(ORDERS, "a", "b"), Lease(ORDERS, "a", "b"))))
@example(QueueOffset("acc", 1, (Lease(ORDERS, "-", ", "), Lease(ORDERS, "-", " , "))))
# The two decode to the same bytes; 300 bytes do not fit a column's width, which is one byte.
@example(QueueOffset("acc", 1, (Lease(ORDERS, "x", "YR=="), Lease(ORDERS, "y", "YQ=="))))
@example(QueueOffset("acc", 1, (Lease(ORDERS, "x", "enp6" * 100),)))
def test_an_offset_comes_back_as_it_was(offset):
    assert QueueOffset.from_json(kept(offset), account=offset.account) == offset


@given(offsets)
def test_an_offset_has_one_text(offset):
    again = QueueOffset.from_json(kept(offset), account=offset.account)

    assert json.dumps(again.to_json()) == json.dumps(offset.to_json())
    assert (
        offset_text(again.to_json()) == offset_text(offset.to_json()) == offset_text(kept(offset))
    )


@given(offsets, offsets)
def test_other_offsets_have_other_texts(one, other):
    assert (one == other) is (offset_text(one.to_json()) == offset_text(other.to_json()))


@given(st.lists(leases_in("acc"), max_size=20))
def test_order_among_queues_does_not_matter_and_within_one_it_is_kept(given_leases):
    back = QueueOffset.from_json(kept(QueueOffset("acc", 1, tuple(given_leases))), account="acc")

    assert list(back.leases) == sorted(given_leases, key=lambda lease: lease.queue)


@given(st.text(max_size=5), st.text(max_size=5))
@example("id", "a\nb")
@example("..", "a")
@example("id", "")
@example("id", 'a", "b')
@example("id", "a" * 513)
def test_what_cannot_be_kept_is_not_written(message_id, receipt):
    # A checkpoint that cannot be read stops the query for good: better refuse to write it.
    offset = QueueOffset("acc", 1, (Lease(ORDERS, message_id, receipt),))
    try:
        written = kept(offset)
    except ServiceError:
        return
    assert QueueOffset.from_json(written, account="acc") == offset


@given(offsets, st.data())
def test_damage_is_told_and_never_gives_other_leases(offset, data):
    text = json.dumps(offset.to_json())
    at = data.draw(st.integers(0, len(text) - 1))
    damaged = text[:at] + data.draw(st.sampled_from('Aa0+/="{}: ')) + text[at + 1 :]
    try:
        value = json.loads(damaged)
    except ValueError:
        return
    try:
        back = QueueOffset.from_json(value, account=offset.account)
    except CheckpointMismatch:
        return
    pairs = [(lease.message_id, lease.pop_receipt) for lease in back.leases]
    kept_pairs = [(lease.message_id, lease.pop_receipt) for lease in offset.leases]
    assert pairs == kept_pairs or sorted(pairs) == sorted(kept_pairs)
