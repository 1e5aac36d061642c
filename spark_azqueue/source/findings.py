"""Findings about suspects, in the form that offsets and logs store for the next process.

    {"lastCommit": 7, "moved": 2, "delivered": 480, "recovered": 1, "inARow": 12, "firsts": 40,
     "firstsFailed": 3, "failed": true, "suspects": [
        {"history": [6, 6, 1, 3, 3, 500, false], "queues": {"orders": [32, "<packed>"]}}]}

Equal findings always have the same text. When a text is parsed, its values and their number are
checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from spark_azqueue.service.messages import MessageKey, QueueRef, is_queue_name

from .offset_columns import DamagedOffset, pack_ids, unpack_ids
from .suspects import HISTORIES_AT_MOST, Evidence, FailureHistory

_MOST = 2**63 - 1
_COUNTS = {
    "lastCommit": "committed",
    "moved": "moved",
    "delivered": "delivered",
    "recovered": "recovered",
    "inARow": "in_a_row",
    "firsts": "firsts",
    "firstsFailed": "firsts_failed",
}
_FLAGS = {"failed": "has_failed", "unproven": "is_unproven"}
_SUSPECTS = "suspects"


@dataclass(frozen=True, slots=True)
class Findings:
    """The histories of suspects, and the evidence. An instance without any of both is falsy."""

    histories: Mapping[MessageKey, FailureHistory] = field(default_factory=dict)
    evidence: Evidence = field(default_factory=Evidence)

    def __bool__(self) -> bool:
        return bool(self.histories) or self.evidence != Evidence()

    def to_json(self) -> dict[str, Any]:
        """Return JSON values in a fixed order. Raises ServiceError for an invalid message id."""
        value = evidence_to_json(self.evidence)
        groups: dict[FailureHistory, dict[str, list[str]]] = {}
        for key, history in self.histories.items():
            groups.setdefault(history, {}).setdefault(key.queue.name, []).append(key.message_id)
        if groups:
            value[_SUSPECTS] = [
                {
                    "history": list(history),
                    "queues": {
                        queue: [len(ids), pack_ids(sorted(ids))]
                        for queue, ids in sorted(by_queue.items())
                    },
                }
                for history, by_queue in sorted(groups.items())
            ]
        return value

    @classmethod
    def from_json(cls, value: object, account: str) -> Findings:
        """Parse the result of `to_json`. account: storage account of the queues. Raises
        DamagedOffset."""
        evidence = evidence_from_json(value)
        assert isinstance(value, Mapping)
        histories: dict[MessageKey, FailureHistory] = {}
        groups = value.get(_SUSPECTS, [])
        if not isinstance(groups, list) or len(groups) > HISTORIES_AT_MOST:
            raise DamagedOffset("its suspects are not valid")
        for group in groups:
            if not isinstance(group, Mapping) or not isinstance(group.get("queues"), Mapping):
                raise DamagedOffset("its suspects are not valid")
            history = history_from_json(group.get("history"))
            for name, packed in group["queues"].items():
                for key in _keys(account, name, packed, HISTORIES_AT_MOST - len(histories)):
                    histories[key] = history
        return cls(histories, evidence)


def _keys(account: str, name: object, packed: object, most: int) -> list[MessageKey]:
    if not isinstance(name, str) or not is_queue_name(name):
        raise DamagedOffset("the name of a queue of its suspects is not valid")
    if not isinstance(packed, list) or len(packed) != 2:
        raise DamagedOffset("its suspects are not valid")
    count, text = packed
    if type(count) is not int or not 0 < count <= most:
        raise DamagedOffset("the number of its suspects is not valid")
    queue = QueueRef(account, name)
    return [MessageKey(queue, each) for each in unpack_ids(text, count)]


def evidence_to_json(evidence: Evidence) -> dict[str, Any]:
    """Return the evidence as JSON values. Values that are 0 or false are left out."""
    names = _COUNTS | _FLAGS
    values = {name: getattr(evidence, attribute) for name, attribute in names.items()}
    return {name: value for name, value in values.items() if value}


def evidence_from_json(value: object) -> Evidence:
    """Parse the result of `evidence_to_json`. Raises DamagedOffset."""
    if not isinstance(value, Mapping):
        raise DamagedOffset("what it says of suspects is not valid")
    if not {*value} <= {*_COUNTS, *_FLAGS, _SUSPECTS}:
        raise DamagedOffset("what it says of suspects is of another release")
    counts = {attribute: value.get(name, 0) for name, attribute in _COUNTS.items()}
    flags = {attribute: value.get(name, False) for name, attribute in _FLAGS.items()}
    are_flags = all(isinstance(each, bool) for each in flags.values())
    if not are_flags or not all(map(_is_count, counts.values())):
        raise DamagedOffset("what it says of suspects is not valid")
    return Evidence(**counts, **flags)


def history_from_json(value: object) -> FailureHistory:
    """Parse the JSON list of a suspect's history. Raises DamagedOffset."""
    if isinstance(value, list) and len(value) == 7 and all(map(_is_count, value[:6])):
        history = FailureHistory(*value)
        is_counted = history.failures >= history.tries >= max(history.counted, 1)
        is_whole = history.size > 0 and isinstance(history.proven, bool)
        if is_counted and is_whole and history.since <= history.batch:
            return history
    raise DamagedOffset("the history of a suspect is not valid")


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value <= _MOST
