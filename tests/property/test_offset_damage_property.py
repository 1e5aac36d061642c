"""Whatever stands in a checkpoint: an offset whose every name is legal, or CheckpointMismatch."""

import base64
import json
import re
import zlib

from hypothesis import given
from hypothesis import strategies as st

from spark_azqueue.errors import CheckpointMismatch
from spark_azqueue.service.messages import Lease, QueueRef
from spark_azqueue.source.offsets import QueueOffset

ORDERS = QueueRef("acc", "orders")
LEASES = (
    Lease(ORDERS, "ecc1cd6e-eccb-6f9d-047b-2dd979094454", "AgAAAAMAAAAA+/AAMCbG2q553QE="),
    Lease(ORDERS, "d54d3581-8086-9ada-cdb6-6dcf6a638a61", "AgAAAAMAAAAA+/AAMSbG2q553QE="),
    Lease(QueueRef("acc", "returns"), "no-guid", "no base64"),
)
GOOD = QueueOffset("acc", 7, LEASES, 1_700_000_000, {LEASES[0]: "0123456789abcdef" * 2}).to_json()

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=10,
)


def check(value):
    """Read it: what comes out, if anything does, names nothing that it should not."""
    try:
        found = QueueOffset.from_json(value, account="acc")
    except CheckpointMismatch as error:
        told = str(error)
    else:
        names_only_what_is_legal(found)
        return
    assert len(told) < 500
    assert told.isprintable()


def names_only_what_is_legal(found):
    for lease in found.leases:
        assert re.fullmatch(r"[a-z0-9](-?[a-z0-9])+", lease.queue.name)
        assert re.fullmatch(r"[0-9A-Za-z-]{1,64}", lease.message_id)
        assert re.fullmatch(r"[ -~]{1,512}", lease.pop_receipt)
    for name in found.blobs.values():
        assert re.fullmatch(r"[0-9a-f]{32}", name)
    assert QueueOffset.from_json(found.to_json(), account="acc") == found


def places(value, here=()):
    """Every place in a JSON value."""
    yield here
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from places(inner, (*here, key))


def changed(value, place, new):
    if not place:
        return new
    return {**value, place[0]: changed(value[place[0]], place[1:], new)}


PLACES = sorted(places(GOOD))


@given(anything)
def test_any_value(value):
    check(value)
    check({**GOOD, "queues": value})
    check({**GOOD, "queues": {"orders": value}})


@given(st.sampled_from(PLACES), anything)
def test_any_value_in_any_place(place, new):
    check(changed(GOOD, place, new))


@given(st.data())
def test_any_change_of_the_text(data):
    text = json.dumps(GOOD)
    at = data.draw(st.integers(0, len(text)))
    cut = data.draw(st.integers(0, 5))
    try:
        value = json.loads(text[:at] + data.draw(st.text(max_size=3)) + text[at + cut :])
    except ValueError:
        return
    check(value)


@given(st.sampled_from(["leases", "blobs"]), st.binary(max_size=200), st.booleans(), st.data())
def test_any_bytes_where_leases_are(key, raw, deflated, data):
    if data.draw(st.booleans()):  # a change of what is there, rather than anything
        raw = base64.b64decode(GOOD["queues"]["orders"][key])
        raw = zlib.decompress(raw) if key == "leases" else raw
        at = data.draw(st.integers(0, len(raw)))
        raw = raw[:at] + data.draw(st.binary(max_size=3)) + raw[at + data.draw(st.integers(0, 5)) :]
    packed = zlib.compress(raw) if deflated and key == "leases" else raw
    new = base64.b64encode(packed).decode()
    check(changed(GOOD, ("queues", "orders", key), new))
