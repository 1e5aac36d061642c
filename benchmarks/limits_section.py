"""What concurrency that finds its own size brings: the section `limits` of the benchmarks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lab import Lab

Saw = dict[str, Any]

CAP = 2_000
"""Requests/s that the service carries out for one queue."""
LATENCIES_S = (0.002, 0.01, 0.05)
FIXED = (16, 32, 64, 96, 128)
USUAL: Saw = {"parallelism": "64"}
ONE_QUEUE = 40_000
EIGHT_QUEUES = 80_000
HELD = 40_000
"""The queues are kept so full, so that every round is a part of a long run."""
WARM = 20_000


def limits(lab: Lab) -> Saw:
    """One queue at its cap, at three latencies; eight queues against fixed numbers."""
    one: list[Saw] = []
    eight: list[Saw] = []
    with lab.contenders("consume.py", "ours") as (server, (ours,)):
        ours.round(messages=80_000)  # the JVM gets faster for about 100,000 messages
        server.cap(CAP)
        for _ in range(lab.rounds):
            for latency in LATENCIES_S:
                server.latency(latency)
                for name, options in (("auto", {}), ("64 / 8", USUAL)):
                    saw = ours.round(messages=ONE_QUEUE, held=HELD, warm=WARM, **options)
                    one.append({"name": name, "latency_s": latency, **saw})
                    lab.tell(f"one, {name}", one[-1])
            server.latency(0.01)
            for fixed in ("auto", *FIXED):
                saw = ours.round(
                    messages=EIGHT_QUEUES, held=HELD, warm=WARM, queues=8, **_fixed(fixed)
                )
                eight.append({"name": str(fixed), "latency_s": 0.01, **saw})
                lab.tell(f"eight, {fixed}", eight[-1])
    return {"cap": CAP, "one": one, "eight": eight}


def _fixed(number: int | str) -> Saw:
    """The option that sets so many deletes."""
    if number == "auto":
        return {}
    return {"parallelism": str(number)}
