"""Plan of a micro-batch: the slots and the limits of each slot. The plan is the offset of the
batch.

    {"version": 3, "batch": 42, "account": "myaccount", "log": "3f2a…", "nonce": "9c41…",
     "issued": "2026-11-23T10:00:00Z", "lease": 90, "known": true,
     "reading": {"messageEncoding": "base64", "onUndecodable": "poison", …},
     "slots": [{"queues": ["orders-1", "orders-5"], "messages": 4096, "bytes": 33554432}],
     "limits": {"orders-1": [24, 1950]}}

The slots of a batch are stored only in its plan, so a replay of the batch has the same slots. A
plan may retry messages of an abandoned plan. In such a plan, "from" names the messages that a slot
delivers (see `Part`). "gaveUp" says that the previous plan was abandoned and has no rows. "waiting"
lists the groups of messages that later plans retry. "histories" lists the failure histories of the
retried group and of the waiting groups. "evidence" is collected over all groups (see
`../suspects.py`). "reading" contains the options that control how bodies are decoded. This module
has pure values. A plan from a checkpoint is validated.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from spark_azqueue.journal.codec import (
    HIGHEST,
    Damaged,
    flag,
    hexadecimal,
    list_of,
    number,
    object_of,
    queue,
)
from spark_azqueue.options.log import MOST_STORED_BYTES, SHORTEST_LEASE_S
from spark_azqueue.service.messages import MAX_VISIBILITY_S, MOST_IN_A_BATCH, QueueRef

from ..findings import evidence_from_json, evidence_to_json, history_from_json
from ..logged.options import READING
from ..offset_columns import DamagedOffset
from ..offsets import (
    ISOLATION,
    OFFSET_VERSION,
    STATUS_AT_MOST,
    OffsetJson,
    moment,
    refusing_damage,
    seconds,
    status_in,
    version_and_batch,
)
from ..refusals import offset_of_driver
from ..suspects import Evidence, FailureHistory
from .names import MOST_SLOTS, START, PlanId

MOST_WAITING = 16_384
"""Maximum number of waiting parts in one plan.

Each time a group is split, one part is added for each smaller group and slot.
"""

_NONCE = 32


class Part(NamedTuple):
    """Range of messages in a slot's segment: from `first` to `end` - 1."""

    plan: PlanId
    slot: int
    first: int
    end: int

    @property
    def messages(self) -> int:
        """Number of messages in the range; 0 for a slot that has nothing to retry."""
        return self.end - self.first

    def to_json(self) -> list[Any]:
        """Return plain values for JSON."""
        return [self.plan.number, self.plan.nonce, self.slot, self.first, self.end]

    @classmethod
    def from_json(cls, value: object, before: int) -> Part:
        """Read a part from plain values. before: number of the plan that retries the part. Raises
        Damaged."""
        if not isinstance(value, list) or len(value) != 5:
            raise Damaged("a part of an earlier batch is not valid")
        found = dict(zip(("plan", "nonce", "slot", "first", "end"), value, strict=True))
        part = cls(
            PlanId(number(found, "plan", 1), hexadecimal(found, "nonce")),
            number(found, "slot"),
            number(found, "first"),
            number(found, "end"),
        )
        is_range = part.first <= part.end and part.slot < MOST_SLOTS
        if not is_range or len(part.plan.nonce) != _NONCE or part.plan.number >= before:
            raise Damaged("a part of an earlier batch is not valid")
        return part


Group = tuple[Part, ...]


class Suspected(NamedTuple):
    """A group of messages that are delivered together, and the history of their failed batches."""

    parts: Group
    history: FailureHistory

    @property
    def messages(self) -> int:
        """Number of messages."""
        return sum(part.messages for part in self.parts)


def groups_from_json(value: Sequence[object], before: int) -> tuple[Group, ...]:
    """Read the groups that are retried after plan `before`. Raises Damaged."""
    groups = tuple(
        tuple(
            Part.from_json(part, before) for part in list_of({"group": each}, "group", MOST_SLOTS)
        )
        for each in value
    )
    if not all(groups) or sum(map(len, groups)) > MOST_WAITING:
        raise Damaged("the parts of earlier batches that wait are not valid")
    return groups


def groups_of(parts: Iterable[Part], most: int) -> list[Group]:
    """Split these parts, in order, into groups of `most` messages.

    The last group may have fewer messages.
    """
    parts = [each for each in parts if each.messages]
    groups: list[list[Part]] = []
    room = 0
    for part in parts:
        first = part.first
        while first < part.end:
            if not room:
                groups.append([])
                room = most
            end = min(part.end, first + room)
            groups[-1].append(part._replace(first=first, end=end))
            room -= end - first
            first = end
    return [tuple(group) for group in groups]


def oldest(groups: Iterable[Group]) -> int | None:
    """Return the number of the oldest plan whose segments have messages of these groups; None
    without groups.
    """
    return min((part.plan.number for group in groups for part in group), default=None)


PLAN_OFFSET_VERSION = 3

MOST_QUEUES_OF_PLAN = 256
"""Maximum number of queues in one plan, so that an offset stays small. Later plans read the other
queues.
"""

MOST_MESSAGES = MOST_IN_A_BATCH
"""Maximum number of messages in one slot; `maxMessagesPerTrigger` has the same limit."""

MORE_THAN_BUDGET = 128 * 32
"""Maximum number of messages that a slot may receive beyond its limit, in pages that it had already
requested.
"""

_MOST_LIMIT = 10**6
_LEAST_LEASING_S = 1.0


@dataclass(frozen=True, slots=True)
class Slot:
    """Work of one task: dequeue from these queues up to a limit of messages or bytes.

    again: messages of an abandoned plan; if given, the slot delivers these messages and has no
    queues.
    """

    queues: tuple[QueueRef, ...]
    messages: int
    bytes: int
    again: Part | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        value: dict[str, Any] = {
            "queues": [each.name for each in self.queues],
            "messages": self.messages,
            "bytes": self.bytes,
        }
        return value if self.again is None else value | {"from": self.again.to_json()}


@dataclass(frozen=True, slots=True)
class Learned:
    """Limits of a queue that tasks learned: parallel requests (under_way), and requests per second
    (None: no limit).
    """

    under_way: int
    per_s: int | None = None


@dataclass(frozen=True)
class Plan:
    """Plan `number` of folder `log`.

    issued: time at which the plan was made, by the driver's clock, in seconds since 1970; for
    information only. lease_s: length of the tasks' leases in seconds. leasing_s: seconds for which
    a task dequeues. cutoff: an availableNow run reads only messages that were inserted up to this
    time, in microseconds since 1970; None in other runs. has_known: the folder has an object that
    names the messages which get no second row in this plan. limits: limits that earlier tasks
    learned, by queue name. gave_up: the previous plan was abandoned and has no rows. waiting:
    groups of messages of abandoned plans that later plans retry, one group in each plan. histories:
    failure history of the group that this plan retries, followed by the histories of the waiting
    groups; empty if an earlier release wrote the plan. evidence: findings about all groups. status:
    one line about the isolation of poison messages. reading: options that control how bodies are
    decoded; empty if the plan leases nothing.
    """

    account: str
    log: str
    id: PlanId
    slots: tuple[Slot, ...]
    issued: int = 0
    lease_s: int = 90
    cutoff: int | None = None
    has_known: bool = False
    limits: Mapping[str, Learned] = field(default_factory=dict)
    gave_up: bool = False
    waiting: tuple[Group, ...] = ()
    histories: tuple[FailureHistory, ...] = ()
    evidence: Evidence = field(default_factory=Evidence)
    status: str = ""
    reading: Mapping[str, str] = field(default_factory=dict)

    @property
    def number(self) -> int:
        """Position of the plan in the chain of plans, from 1; 0 for the start."""
        return self.id.number

    @property
    def leasing_s(self) -> float:
        """Seconds for which a task may dequeue messages.

        The rest of the lease is the time to store the segment and delete the messages.
        """
        return max(min(self.lease_s / 6, 10.0), _LEAST_LEASING_S)

    @property
    def queues(self) -> list[QueueRef]:
        """Queues that the slots dequeue from."""
        return [each for slot in self.slots for each in slot.queues]

    @property
    def is_again(self) -> bool:
        """True if the plan retries messages of abandoned plans. Any of these messages may be
        poison.
        """
        return any(slot.again is not None for slot in self.slots)

    @property
    def suspected(self) -> Suspected | None:
        """Group that this plan retries, or None if the plan retries nothing."""
        group = tuple(slot.again for slot in self.slots if slot.again is not None)
        return Suspected(group, self._history(0, group)) if group else None

    @property
    def suspects(self) -> tuple[Suspected, ...]:
        """Groups that later plans retry."""
        first = int(self.is_again)
        return tuple(
            Suspected(group, self._history(place, group))
            for place, group in enumerate(self.waiting, first)
        )

    def _history(self, place: int, group: Group) -> FailureHistory:
        if self.histories:
            return self.histories[place]
        before = max(0, self.number - 1)
        size = max(1, sum(part.messages for part in group))
        return FailureHistory(1, 1, 0, before, before, size)

    def to_json(self) -> OffsetJson:
        """Return the offset for Spark: plain values, always in the same key order."""
        value: OffsetJson = {
            "version": PLAN_OFFSET_VERSION,
            "batch": self.number,
            "account": self.account,
            "log": self.log,
            "nonce": self.id.nonce,
            "issued": moment(self.issued),
            "lease": self.lease_s,
            "slots": [slot.to_json() for slot in self.slots],
        }
        if self.cutoff is not None:
            value["cutoff"] = moment(self.cutoff // 1_000_000)
        if self.has_known:
            value["known"] = True
        if self.limits:
            value["limits"] = {
                name: [each.under_way, each.per_s] for name, each in sorted(self.limits.items())
            }
        if self.gave_up:
            value["gaveUp"] = True
        if self.waiting:
            value["waiting"] = [[part.to_json() for part in group] for group in self.waiting]
        if self.histories:
            value["histories"] = [list(each) for each in self.histories]
        if evidence := evidence_to_json(self.evidence):
            value["evidence"] = evidence
        if self.status:
            value[ISOLATION] = self.status[:STATUS_AT_MOST]
        if self.reading:
            value["reading"] = dict(self.reading)
        return value

    def to_bytes(self) -> bytes:
        """Return the offset as JSON text in UTF-8."""
        return json.dumps(self.to_json(), separators=(",", ":")).encode()

    @classmethod
    def start(cls, account: str, log: str = "") -> Plan:
        """Return plan 0, the start, which the first plan follows."""
        return cls(account, log, START, ())

    @classmethod
    def from_json(cls, offset: Mapping[str, Any], *, account: str) -> Plan:
        """Read an offset from a checkpoint. An offset without a batch becomes `start`.

        Raises CheckpointMismatch if the offset is damaged, or was written with leaseOn=driver.
        """
        version, batch = version_and_batch(offset, account=account)
        if version == OFFSET_VERSION and batch == 0:
            return cls.start(account)
        if version != PLAN_OFFSET_VERSION:
            raise offset_of_driver()
        with refusing_damage():
            try:
                return _read(offset, account, batch)
            except Damaged as error:
                raise DamagedOffset(str(error)) from None


def _read(offset: Mapping[str, Any], account: str, batch: int) -> Plan:
    """Raises Damaged or DamagedOffset."""
    if batch < 1:
        raise Damaged("its batch number is not valid")
    lease_s = number(offset, "lease", SHORTEST_LEASE_S, MAX_VISIBILITY_S)
    slots = tuple(_slot(each, account, batch) for each in list_of(offset, "slots", MOST_SLOTS))
    names = [each.name for slot in slots for each in slot.queues]
    if not slots or len(names) > MOST_QUEUES_OF_PLAN or len(set(names)) != len(names):
        raise Damaged("its slots are not valid")
    waiting = (
        groups_from_json(list_of(offset, "waiting", MOST_WAITING), batch)
        if "waiting" in offset
        else ()
    )
    retries = any(slot.again is not None for slot in slots)
    cutoff = seconds(offset["cutoff"]) * 1_000_000 if "cutoff" in offset else None
    return Plan(
        account,
        _nonce(offset, "log"),
        PlanId(batch, _nonce(offset, "nonce")),
        slots,
        seconds(offset.get("issued")),
        lease_s,
        cutoff,
        flag(offset, "known"),
        _limits(offset.get("limits", {}), names),
        flag(offset, "gaveUp"),
        waiting,
        _histories(offset, len(waiting) + retries),
        evidence_from_json(offset.get("evidence", {})),
        status_in(offset),
        READING.read(offset, "reading") if "reading" in offset else {},
    )


def _histories(offset: Mapping[str, Any], count: int) -> tuple[FailureHistory, ...]:
    if "histories" not in offset:
        return ()
    values = list_of(offset, "histories", count)
    if len(values) != count:
        raise Damaged("its histories are not valid")
    return tuple(map(history_from_json, values))


def _nonce(found: Mapping[str, Any], name: str) -> str:
    value = hexadecimal(found, name)
    if len(value) != _NONCE:
        raise Damaged(f"'{name}' is missing or not valid")
    return value


def _slot(value: object, account: str, batch: int) -> Slot:
    found = object_of(value, "slot")
    queues = tuple(queue(each, account) for each in list_of(found, "queues", MOST_QUEUES_OF_PLAN))
    messages, size = number(found, "messages", 1), number(found, "bytes", 1)
    again = Part.from_json(found["from"], batch) if "from" in found else None
    most = MOST_MESSAGES + (MORE_THAN_BUDGET if again else 0)
    if bool(queues) == bool(again) or messages > most or size > MOST_STORED_BYTES:
        raise Damaged("a slot is not valid")
    return Slot(queues, messages, size, again)


def _limits(value: object, names: list[str]) -> Mapping[str, Learned]:
    found = object_of(value, "limits")
    if not set(found) <= set(names):
        raise Damaged("it has limits of a queue that is in no slot")
    return {name: learned(found[name]) for name in found}


def learned(value: object) -> Learned:
    """Read the learned limits of a queue. Raises Damaged."""
    if isinstance(value, list) and len(value) == 2:
        under_way, per_s = value
        if _is_limit(under_way) and (per_s is None or _is_limit(per_s)):
            return Learned(under_way, per_s)
    raise Damaged("the limits of a queue are not valid")


def _is_limit(value: object) -> bool:
    return type(value) is int and 0 < value <= min(_MOST_LIMIT, HIGHEST)
