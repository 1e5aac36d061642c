"""What transactions cost the sink: the section `transactional` of the benchmarks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lab import Lab

Saw = dict[str, Any]

LATENCIES_S = (0.002, 0.01, 0.05)
LARGE = 100_000
SMALL = 10_000


def transactional(lab: Lab) -> Saw:
    """The sink with transactionLog and without, in turns in one JVM; the log is on a disk."""
    kept = []
    with lab.contenders("produce.py", "ours") as (server, (ours,)):
        ours.round(messages=LARGE)  # for as long the JVM gets faster
        for latency in LATENCIES_S:
            server.latency(latency)
            for _ in range(lab.rounds):
                for count in (SMALL, LARGE):
                    for mode in ("", "transactions"):
                        saw = ours.round(messages=count, mode=mode)
                        kept.append({"name": ours.name, "mode": mode, "latency_s": latency, **saw})
                        lab.tell(mode or "plain", kept[-1])
    return {"rounds": kept}
