"""The offset of leaseOn=executors: what goes in comes out, and nothing else is ever read as one."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refs import ACCOUNT

from spark_azqueue.errors import CheckpointMismatch
from spark_azqueue.service.messages import QueueRef
from spark_azqueue.source.executors.names import START, PlanId
from spark_azqueue.source.executors.plan import Learned, Part, Plan, Slot
from spark_azqueue.source.log.state import LogOffset
from spark_azqueue.source.offsets import QueueOffset

LOG, NONCE = "a" * 32, "b" * 32
NAMES = [f"orders-{number}" for number in range(6)]


def ref(name: str) -> QueueRef:
    return QueueRef(ACCOUNT, name)


def a_plan(**fields: object) -> Plan:
    slots = (Slot((ref("orders-0"), ref("orders-1")), 4096, 2**25), Slot((ref("orders-2"),), 1, 1))
    made = {"account": ACCOUNT, "log": LOG, "id": PlanId(7, NONCE), "slots": slots} | fields
    return Plan(**made)  # type: ignore[arg-type]


def again(*numbers: int) -> tuple[Slot, ...]:
    """Slots that give messages of the first plan again."""
    part = Part(PlanId(1, NONCE), 0, 2, 9)
    return tuple(Slot((), 7, 1, part._replace(slot=number)) for number in numbers)


plans = st.builds(
    a_plan,
    id=st.builds(PlanId, st.integers(1, 10**9), st.just(NONCE)),
    issued=st.integers(0, 4_000_000_000),
    lease_s=st.integers(30, 604_800),
    cutoff=st.none() | st.integers(0, 4_000_000_000).map(lambda s: s * 1_000_000),
    has_known=st.booleans(),
    limits=st.dictionaries(
        st.sampled_from(NAMES[:3]),
        st.builds(Learned, st.integers(1, 256), st.none() | st.integers(1, 10_000)),
    ),
    gave_up=st.booleans(),
) | st.builds(
    a_plan,
    id=st.builds(PlanId, st.integers(2, 10**9), st.just(NONCE)),
    slots=st.just(again(0, 1)),
    gave_up=st.booleans(),
    waiting=st.lists(st.just(tuple(slot.again for slot in again(2, 3))), max_size=3).map(tuple),
)


@given(plans)
def test_what_goes_in_comes_out(plan: Plan) -> None:
    offset = json.loads(json.dumps(plan.to_json()))
    assert Plan.from_json(offset, account=ACCOUNT) == plan
    assert json.loads(plan.to_bytes()) == offset


def test_the_start_is_the_same_as_without_executors() -> None:
    initial = QueueOffset(ACCOUNT).to_json()
    assert Plan.from_json(initial, account=ACCOUNT) == Plan.start(ACCOUNT)
    assert Plan.start(ACCOUNT).id == START


@pytest.mark.parametrize(
    "offset",
    [
        QueueOffset(ACCOUNT, batch=3).to_json(),
        LogOffset(ACCOUNT, 3, LOG, "c" * 16, 5).to_json(),
    ],
    ids=["leases", "log"],
)
def test_an_offset_of_the_drivers_mode_is_refused(offset: dict[str, object]) -> None:
    with pytest.raises(CheckpointMismatch, match="written with leaseOn=driver"):
        Plan.from_json(offset, account=ACCOUNT)


def test_the_drivers_mode_refuses_a_plan() -> None:
    offset = a_plan().to_json()
    for read in (QueueOffset.from_json, LogOffset.from_json):
        with pytest.raises(CheckpointMismatch, match="written with leaseOn=executors"):
            read(offset, account=ACCOUNT)


@pytest.mark.parametrize(
    "change",
    [
        {"version": 4},
        {"account": "another"},
        {"batch": 0},
        {"batch": -1},
        {"known": 1},
        {"gaveUp": "yes"},
        {"log": "A" * 32},
        {"log": None},
        {"nonce": "b" * 31},
        {"nonce": "../" + "b" * 29},
        {"lease": 29},
        {"lease": 604_801},
        {"lease": "90"},
        {"issued": "yesterday"},
        {"cutoff": 5},
        {"slots": []},
        {"slots": [{}]},
        {"slots": [{"queues": [], "messages": 1, "bytes": 1}]},
        {"slots": [{"queues": ["a/b"], "messages": 1, "bytes": 1}]},
        {"slots": [{"queues": ["orders-0", "orders-0"], "messages": 1, "bytes": 1}]},
        {"slots": [{"queues": ["orders-0"], "messages": 0, "bytes": 1}]},
        {"slots": [{"queues": ["orders-0"], "messages": 10**7, "bytes": 1}]},
        {"slots": [{"queues": ["orders-0"], "messages": 1, "bytes": 2**40}]},
        {"slots": [{"queues": [f"q-{n}" for n in range(257)], "messages": 1, "bytes": 1}]},
        {"slots": [{"queues": [], "messages": 1, "bytes": 1, "from": None}]},
        {"slots": [{"queues": [], "messages": 1, "bytes": 1, "from": [7, NONCE, 0, 0, 1]}]},
        {
            "slots": [
                {"queues": ["orders-0"], "messages": 1, "bytes": 1, "from": [1, NONCE, 0, 0, 1]}
            ]
        },
        {"waiting": None},
        {"waiting": [[]]},
        {"waiting": [[[7, NONCE, 0, 0, 1]]]},
        {"limits": {"another": [1, None]}},
        {"limits": {"orders-0": [0, None]}},
        {"limits": {"orders-0": [True, None]}},
        {"limits": {"orders-0": [1]}},
        {"limits": []},
    ],
    ids=str,
)
def test_what_the_driver_would_not_write_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(CheckpointMismatch):
        Plan.from_json(a_plan().to_json() | change, account=ACCOUNT)


@given(plans, st.data())
def test_any_change_is_refused_or_read_as_a_plan(plan: Plan, data: st.DataObject) -> None:
    offset = plan.to_json()
    name = data.draw(st.sampled_from(sorted(offset)))
    junk = (
        st.none() | st.booleans() | st.integers() | st.text(max_size=40) | st.lists(st.integers())
    )
    offset[name] = data.draw(junk)
    with contextlib.suppress(CheckpointMismatch):
        Plan.from_json(offset, account=ACCOUNT)
