"""What was sent into a chain against what stands in its table: each message once, or it is told."""

from __future__ import annotations

import json
import operator
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from table import rows
from targets import Middle

_ABANDONED = ("abandoned", "vanished", "expired")


@dataclass
class ChainFindings:
    """The outcome of an audit.

    lost, twice, foreign, altered: ids of messages in the first queues. hidden: messages in the
    middle that no record holds, and nobody gets before their last second. told: what the sink's
    lines add up to.
    """

    lost: list[str]
    twice: list[str]
    foreign: list[str]
    altered: list[str]
    rows: int
    hidden: int
    told: Counter[str]

    @property
    def good(self) -> bool:
        """Each message is in the table, once and unchanged, and nothing else is."""
        return not (self.lost or self.twice or self.foreign or self.altered)

    @property
    def stories(self) -> dict[str, str]:
        """For each message that should not be as it is: what is wrong."""
        kinds = ("lost", "twice", "foreign", "altered")
        return {id_: f"    {kind}" for kind in kinds for id_ in getattr(self, kind)}

    def lines(self) -> list[tuple[str, str]]:
        """For the report: names and values."""
        transactions = ", ".join(f"{step} {self.told[step]}" for step in ("write", "show", "over"))
        return [
            ("lost", f"{len(self.lost)}"),
            ("twice", f"{len(self.twice)}"),
            ("altered, or never sent", f"{len(self.altered)}, {len(self.foreign)}"),
            ("rows in the table", f"{self.rows}"),
            (
                "hidden in the middle, in no record",
                f"{self.hidden}  (abandoned, or of killed tasks)",
            ),
            ("transactions that the sink told", transactions),
            *((f"  {name}, as it told", f"{self.told[name]}") for name in _ABANDONED),
        ]


def audit_chain(
    sent: Mapping[str, str],
    table: Path,
    middle: Middle,
    told: Path,
    *,
    is_body: Callable[[str, str], bool] = operator.eq,
) -> ChainFindings:
    """Compare. sent: texts by message id. told: the sink's lines. is_body: of this text."""
    found: dict[str, list[str]] = defaultdict(list)
    for id_, body in rows(table):
        found[id_].append(body)
    return ChainFindings(
        lost=[id_ for id_ in sent if id_ not in found],
        twice=[id_ for id_, bodies in found.items() if len(bodies) > 1],
        foreign=[id_ for id_ in found if id_ not in sent],
        altered=[
            id_ for id_ in sent if any(not is_body(body, sent[id_]) for body in found.get(id_, ()))
        ],
        rows=sum(map(len, found.values())),
        hidden=middle.hidden,
        told=_added(told),
    )


def _added(told: Path) -> Counter[str]:
    """How many transactions there were of each kind, and the sums of what became of messages."""
    found: Counter[str] = Counter()
    lines = told.read_text(encoding="utf-8").splitlines() if told.exists() else []
    for context in map(json.loads, lines):
        if step := context.get("transaction"):
            found[step] += 1
            found.update({name: int(context[name]) for name in _ABANDONED})
    return found
