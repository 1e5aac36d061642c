"""Figures of rounds: medians, rates, CPU per message; and tables of them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any

Saw = dict[str, Any]
BY_HAND = ("sdk-1", "sdk-32", "sdk-threads", "sdk-async")


def median_of(rounds: Iterable[Saw], figure: Callable[[Saw], float]) -> float:
    """The median of a figure over rounds."""
    return statistics.median(figure(saw) for saw in rounds)


def rate(saw: Saw) -> float:
    """Messages per second."""
    return float(saw["messages"]) / float(saw["seconds"])


def cpu_ms(saw: Saw, *roles: str) -> float:
    """CPU ms per message, of some roles or (none named) of all but the server."""
    used = sum(
        seconds
        for role, seconds in saw["cpu"].items()
        if (role in roles if roles else role != "server")
    )
    return used * 1000 / float(saw["messages"])


def cores_used(saw: Saw) -> float:
    """Cores busy on average, the server's included."""
    return sum(saw["cpu"].values()) / float(saw["seconds"])


def by(rounds: Iterable[Saw], *keys: str) -> dict[tuple[Any, ...], list[Saw]]:
    """Rounds in groups, in order of appearance."""
    groups: dict[tuple[Any, ...], list[Saw]] = {}
    for saw in rounds:
        groups.setdefault(tuple(saw[key] for key in keys), []).append(saw)
    return groups


def best_by_hand(groups: dict[tuple[Any, ...], list[Saw]], latency: float) -> list[Saw]:
    """The rounds of the fastest SDK contender at this latency."""
    return max(
        (groups[name, latency] for name in BY_HAND if (name, latency) in groups),
        key=lambda rounds: median_of(rounds, rate),
    )


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of all does not exceed."""
    return sorted(values)[max(0, math.ceil(len(values) * share) - 1)]


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table; all columns but the first are aligned right."""
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def ms(seconds: float) -> str:
    """As in `10 ms`."""
    return f"{seconds * 1000:.0f} ms"
