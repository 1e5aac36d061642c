"""Many rows in one message, beside one: the section `packed` of the benchmarks, and its table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from figures import by, cores_used, cpu_ms, median_of, ms, rate, table

if TYPE_CHECKING:
    from lab import Lab

Saw = dict[str, Any]

_PLAIN, _MANY = 40_000, 600_000
_MODES = ("plain", "json", "arrow")
_LATENCY_S = 0.01
_LIMIT = 2_000
"""Requests a second that the service answers for one queue."""


def packed(lab: Lab) -> Saw:
    """The three in turns in one JVM; at the end `arrow` on a queue that is held to its limit."""
    kept = []

    def round_(mode: str, limit: int) -> None:
        saw = ours.round(rows=_PLAIN if mode == "plain" else _MANY, mode=mode)
        for phase, each in saw.items():
            about = {"name": mode, "phase": phase, "limit": limit, "latency_s": _LATENCY_S}
            kept.append(about | each)
            lab.tell(f"{phase} {limit or ''}", kept[-1])

    with lab.contenders("packed.py", "ours") as (server, (ours,)):
        server.latency(_LATENCY_S)
        for mode in _MODES:  # for as long the JVM gets faster
            ours.round(rows=_PLAIN, mode=mode)
        for _ in range(lab.rounds):
            for mode in _MODES:
                round_(mode, 0)
        server.rate(_LIMIT)
        for _ in range(lab.rounds):
            for mode in ("plain", "arrow"):
                round_(mode, _LIMIT)
    return {"rounds": kept}


def requests_for_1000(saw: Saw) -> float:
    """For 1,000 rows."""
    return float(saw["requests"]) * 1_000 / float(saw["messages"])


def packed_table(saw: Saw) -> str:
    """A row for each mode and way, with its ratio to plain rows of the same run."""
    groups = by(saw["rounds"], "phase", "limit", "name")
    rows = []
    for (phase, limit, name), rounds in groups.items():
        plain = groups[phase, limit, "plain"]
        rows.append(
            [
                f"{phase}, {name}",
                ms(rounds[0]["latency_s"]),
                f"{limit:,}" if limit else "as many as come",
                f"{median_of(rounds, rate):,.0f}",
                f"{median_of(rounds, rate) / median_of(plain, rate):.1f}",
                f"{median_of(rounds, cpu_ms):.4f}",
                f"{median_of(rounds, cores_used):.2f} of 2",
                f"{median_of(rounds, lambda each: each['messages'] / each['sent']):.0f}",
                f"{median_of(rounds, requests_for_1000):,.1f}",
            ]
        )
    head = (
        *("rows of 800 bytes", "latency", "requests/s the queue answers", "rows/s", "times plain"),
        *("CPU ms/row: all but the server", "cores busy", "rows/message", "requests/1,000 rows"),
    )
    return "![rows per second](packed.png)\n\n" + table(head, rows)
