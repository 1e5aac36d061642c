"""What is known of suspects, as offsets and the objects of logs keep it."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refs import ACCOUNT, ORDERS, ref

from spark_azqueue.errors import CheckpointMismatch
from spark_azqueue.service.messages import MessageKey
from spark_azqueue.source.executors.names import PlanId
from spark_azqueue.source.executors.plan import Part, Plan, Slot, Suspected
from spark_azqueue.source.findings import Findings
from spark_azqueue.source.log.progress import SegmentHeader
from spark_azqueue.source.log.state import LogOffset
from spark_azqueue.source.offset_columns import DamagedOffset
from spark_azqueue.source.offsets import QueueOffset, offset_text
from spark_azqueue.source.suspects import HISTORIES_AT_MOST, Evidence, FailureHistory

ROOT, ALONE = FailureHistory(6, 6, 1, 3, 3, 500), FailureHistory(8, 1, 1, 3, 9, 1, proven=True)


def key(number: int, queue: Any = ORDERS) -> MessageKey:
    return MessageKey(queue, f"{number:08x}-0000-4000-8000-000000000000")


FINDINGS = Findings(
    {key(2): ROOT, key(1): ROOT, key(7, ref("returns")): ROOT, key(3): ALONE},
    Evidence(8, True, 3, 12, 40, 5, True, 2, 480),
)

# Golden: checkpoints and logs of users hold this. Never change it; add others beside it.
KEPT = {
    "lastCommit": 8,
    "moved": 2,
    "delivered": 480,
    "recovered": 3,
    "inARow": 12,
    "firsts": 40,
    "firstsFailed": 5,
    "failed": True,
    "unproven": True,
    "suspects": [
        {
            "history": [6, 6, 1, 3, 3, 500, False],
            "queues": {
                "orders": [2, "EAAAAAEAAEAAgAAAAAAAAAAAAAACAABAAIAAAAAAAAAA"],
                "returns": [1, "EAAAAAcAAEAAgAAAAAAAAAA="],
            },
        },
        {
            "history": [8, 1, 1, 3, 9, 1, True],
            "queues": {"orders": [1, "EAAAAAMAAEAAgAAAAAAAAAA="]},
        },
    ],
}

histories = st.builds(
    lambda failures, tries, counted, since, later, size, proven: FailureHistory(
        failures,
        min(tries, failures),
        min(tries, failures, counted),
        since,
        since + later,
        size,
        proven,
    ),
    *(st.integers(1, 99), st.integers(1, 99), st.integers(0, 99), st.integers(0, 2**40)),
    *(st.integers(0, 99), st.integers(1, 40_000), st.booleans()),
)
keys = st.builds(
    lambda odd, number, queue: MessageKey(queue, f"odd{number}") if odd else key(number, queue),
    *(st.booleans(), st.integers(0, 2**31), st.sampled_from([ORDERS, ref("returns")])),
)


def test_they_are_written_and_read_as_ever() -> None:
    assert FINDINGS.to_json() == KEPT
    assert list(FINDINGS.to_json()) == list(KEPT), "in the same order"
    assert Findings.from_json(KEPT, ACCOUNT) == FINDINGS
    assert Findings.from_json({}, ACCOUNT) == Findings()
    assert Findings().to_json() == {}
    assert not Findings()
    assert FINDINGS


@given(st.dictionaries(keys, histories, max_size=20), st.randoms())
def test_equal_ones_have_the_same_text(
    found: dict[MessageKey, FailureHistory], shuffle: Any
) -> None:
    there = list(found.items())
    shuffle.shuffle(there)
    text = json.dumps(Findings(found).to_json())
    assert json.dumps(Findings(dict(there)).to_json()) == text
    assert Findings.from_json(json.loads(text), ACCOUNT) == Findings(found)


def test_they_are_small_and_bounded() -> None:
    most = Findings({key(number): ROOT for number in range(HISTORIES_AT_MOST)})
    assert len(json.dumps(most.to_json())) < 100_000
    assert Findings.from_json(most.to_json(), ACCOUNT) == most
    too_many = Findings({**most.histories, key(HISTORIES_AT_MOST): ALONE})
    with pytest.raises(DamagedOffset, match="number of its suspects"):
        Findings.from_json(too_many.to_json(), ACCOUNT)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ([], []),
        ([], 7),
        (["lastCommit"], -1),
        (["moved"], 1.0),
        (["delivered"], True),
        (["delivered"], 2**63),
        (["failed"], 1),
        (["recovered"], -1),
        (["byChance"], True),  # an earlier release
        (["unproven"], "yes"),
        (["suspects"], {}),
        (["suspects"], [7]),
        (["suspects"], [{}] * (HISTORIES_AT_MOST + 1)),
        (["suspects", 0, "queues"], []),
        (["suspects", 0, "queues"], {"../x": [1, "EAAAAAMAAEAAgAAAAAAAAAA="]}),
        (["suspects", 0, "queues", "orders"], [1]),
        (["suspects", 0, "queues", "orders", 0], 0),
        (["suspects", 0, "queues", "orders", 0], 3),
        (["suspects", 0, "queues", "orders", 0], 10**9),
        (["suspects", 0, "queues", "orders", 1], "no base64"),
        (["suspects", 0, "queues", "orders", 1], "EAAAAAE="),
        (["suspects", 0, "history"], None),
        (["suspects", 0, "history"], [6, 0, 3, 3, 500, False]),  # an earlier release
        (["suspects", 0, "history"], [6, 6, 1, 3, 3, 500]),
        (["suspects", 0, "history"], [6, 6, 1, 3, 3, 500, 0]),
        (["suspects", 0, "history"], [6, 6, 1, 3, 3, False, False]),
        (["suspects", 0, "history"], [0, 0, 0, 3, 3, 500, False]),
        (["suspects", 0, "history"], [6, 0, 0, 3, 3, 500, False]),
        (["suspects", 0, "history"], [6, 7, 1, 3, 3, 500, False]),
        (["suspects", 0, "history"], [6, 6, 7, 3, 3, 500, False]),
        (["suspects", 0, "history"], [6, 6, 1, 4, 3, 500, False]),
        (["suspects", 0, "history"], [6, 6, 1, 3, 3, 0, False]),
        (["suspects", 0, "history"], [6, 6, 1, 3, 3, -1, False]),
        (["suspects", 0, "history"], [6, 6, False, 3, 3, 500, False]),
    ],
)
def test_what_was_not_written_is_refused(path: list[Any], value: object) -> None:
    kept: Any = copy.deepcopy(KEPT)
    at = kept
    for step in path[:-1]:
        at = at[step]
    if path:
        at[path[-1]] = value
    with pytest.raises(DamagedOffset):
        Findings.from_json(kept if path else value, ACCOUNT)


STATUS = "batch 3 (500 messages) failed: split into 16; 4 suspects left"


def test_an_offset_without_a_log_has_them() -> None:
    offset = QueueOffset(ACCOUNT, 9, findings=FINDINGS, status=STATUS)
    written = offset.to_json()
    assert (written["suspects"], written["isolation"]) == (KEPT, STATUS)
    assert QueueOffset.from_json(json.loads(offset_text(written)), account=ACCOUNT) == offset
    plain = QueueOffset(ACCOUNT, 9).to_json()
    assert not {"suspects", "isolation"} & plain.keys()


@pytest.mark.parametrize("more", [{"suspects": 7}, {"isolation": 7}, {"isolation": "x" * 301}])
def test_a_damaged_offset_is_refused(more: dict[str, Any]) -> None:
    written = QueueOffset(ACCOUNT, 9).to_json() | more
    with pytest.raises(CheckpointMismatch, match="cannot read"):
        QueueOffset.from_json(written, account=ACCOUNT)
    logged = LogOffset(ACCOUNT, 9, "a" * 32, "b" * 16, 5).to_json() | more
    if "isolation" in more:
        with pytest.raises(CheckpointMismatch, match="cannot read"):
            LogOffset.from_json(logged, account=ACCOUNT)


def test_with_a_log_the_header_and_the_offset_say_what_isolation_does() -> None:
    header = SegmentHeader("a" * 32, 9, "b" * 32, ACCOUNT, cut=(1,), status=STATUS)
    assert SegmentHeader.from_bytes(header.to_bytes()) == header
    assert b'"isolation":"batch 3 (500' in header.to_bytes()
    offset = LogOffset(ACCOUNT, 9, "a" * 32, "b" * 16, 5, status=STATUS)
    assert LogOffset.from_json(offset.to_json(), account=ACCOUNT) == offset
    assert offset.to_json()["isolation"] == STATUS


def test_a_plan_has_a_history_for_all_that_it_retries() -> None:
    before = PlanId(8, "b" * 32)
    plan = Plan(
        *(ACCOUNT, "a" * 32, PlanId(9, "c" * 32), (Slot((), 1, 1, Part(before, 0, 0, 1)),)),
        gave_up=True,
        waiting=((Part(before, 0, 1, 3),),),
        histories=(ALONE, ROOT),
        evidence=FINDINGS.evidence,
        status=STATUS,
    )
    written = plan.to_json()
    assert written["histories"] == [[8, 1, 1, 3, 9, 1, True], [6, 6, 1, 3, 3, 500, False]]
    assert written["evidence"] == {name: KEPT[name] for name in KEPT if name != "suspects"}
    assert Plan.from_json(json.loads(offset_text(written)), account=ACCOUNT) == plan
    assert plan.suspected == Suspected((Part(before, 0, 0, 1),), ALONE)
    assert plan.suspects == (Suspected((Part(before, 0, 1, 3),), ROOT),)
    for damage in ({"histories": [[8, 1, 1, 3, 9, 1, True]]}, {"histories": 7}, {"evidence": []}):
        with pytest.raises(CheckpointMismatch, match="cannot read"):
            Plan.from_json(written | damage, account=ACCOUNT)


def test_a_plan_of_an_earlier_release_has_no_histories() -> None:
    before = PlanId(8, "b" * 32)
    slots = (Slot((), 2, 1, Part(before, 0, 0, 2)),)
    plan = Plan(ACCOUNT, "a" * 32, PlanId(9, "c" * 32), slots, waiting=((Part(before, 0, 2, 3),),))
    assert plan.suspected == Suspected((Part(before, 0, 0, 2),), FailureHistory(1, 1, 0, 8, 8, 2))
    assert plan.suspects == (Suspected((Part(before, 0, 2, 3),), FailureHistory(1, 1, 0, 8, 8, 1)),)
