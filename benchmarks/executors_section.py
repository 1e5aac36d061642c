"""Who leases: the sections `executors` and `growth` of the benchmarks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import harness

if TYPE_CHECKING:
    from lab import Lab

Saw = dict[str, Any]

LATENCIES_S = (0.002, 0.01, 0.05)
QUEUES = 4
_LOGGED = {"writeAheadLog": "file:PLACE/log", "deleteAfter": "log"}
MODES: dict[str, Saw] = {
    "driver": {},
    "log": _LOGGED,
    "executors": _LOGGED | {"leaseOn": "executors"},
    "union": _LOGGED | {"loads": "2"},
}
SMALL: Saw = {"messages": 60_000, "warm": 30_000, "held": 50_000, "queues": QUEUES}
LARGE: Saw = {"messages": 8_000, "warm": 4_000, "held": 8_000, "queues": QUEUES, "size": 48_000}


def executors(lab: Lab) -> Saw:
    """Executors that are processes of their own, on the same cores; four queues that stay full."""
    kept = []
    names = ("ours-cluster", "ours-parquet-cluster", "ours-slow-cluster")
    with lab.contenders("consume.py", *names) as (server, made):
        for ours in made:
            ours.round(**SMALL)  # for as long the JVM gets faster
        for latency in LATENCIES_S:
            server.latency(latency)
            for _ in range(lab.rounds):
                for ours in made if latency == LATENCIES_S[1] else made[:1]:
                    sizes = (("1 KB", SMALL), ("48 KB", LARGE))
                    for what, work in sizes[:1] if ours is made[2] else sizes:
                        kept += _turn(lab, ours, what, work, latency, tls=False)
    with lab.contenders("consume.py", names[0], tls=True) as (server, (ours,)):
        server.latency(LATENCIES_S[1])
        ours.round(**SMALL)
        for _ in range(lab.rounds):
            kept += _turn(lab, ours, "1 KB", SMALL, LATENCIES_S[1], tls=True)
    return {"rounds": kept}


LIMITED: Saw = {"messages": 60_000, "warm": 240_000, "held": 90_000, "queues": QUEUES}
"""Warm for as long: it takes some plans until a query knows how many tasks run at once."""
QUEUE_PER_S = 2_000


def slow_executors(lab: Lab) -> Saw:
    """A sink of two seconds a batch, and queues that answer as many requests as the service's."""
    kept = []
    with lab.contenders("consume.py", "ours-slow-cluster") as (server, (ours,)):
        ours.round(**SMALL)  # for as long the JVM gets faster
        latency = LATENCIES_S[1]
        server.latency(latency)
        server.rate(QUEUE_PER_S)
        for _ in range(lab.rounds):
            kept += _turn(lab, ours, "1 KB", LIMITED, latency, tls=False)
    return {"rounds": kept, "queue_per_s": QUEUE_PER_S}


def one_table(lab: Lab) -> Saw:
    """Into one Delta table: one query, a union, executors, and two queries."""
    modes = MODES | {"two queries": _LOGGED | {"queries": "2"}}
    kept = []
    with lab.contenders("consume.py", harness.DELTA) as (server, (ours,)):
        ours.round(**SMALL)  # for as long the JVM gets faster
        latency = LATENCIES_S[1]
        server.latency(latency)
        for _ in range(lab.rounds):
            kept += _turn(lab, ours, "1 KB", SMALL, latency, tls=False, modes=modes)
    return {"rounds": kept}


BY_HAND = "sdk-async"
"""Receives and deletes with Azure's SDK, and writes nothing."""


def large_executors(lab: Lab) -> Saw:
    """Bodies of 48 KB into Parquet, beside the SDK by hand."""
    kept = []
    with lab.contenders("consume.py", "ours-parquet-cluster", BY_HAND) as (server, made):
        ours, by_hand = made
        latency = LATENCIES_S[1]
        server.latency(latency)
        ours.round(**LARGE, **MODES["executors"])  # for as long the JVM gets faster
        for _ in range(lab.rounds):
            saw = by_hand.round(messages=LARGE["messages"], size=LARGE["size"])
            about = {"mode": BY_HAND, "size": "48 KB", "latency_s": latency, "tls": False}
            kept.append({"name": BY_HAND, **about, **saw})
            lab.tell("48 KB", kept[-1])
            kept += _turn(lab, ours, "48 KB", LARGE, latency, tls=False)
    return {"rounds": kept}


FAR_S = 0.2
"""So far away, requests wait for answers rather than for one of the two cores."""


def growth(lab: Lab) -> Saw:
    """One query on one to three executors, far from its account."""
    kept = []
    with lab.contenders("consume.py", "ours-on-three") as (server, (ours,)):
        server.latency(LATENCIES_S[1])
        ours.round(**SMALL | {"queues": 6}, **MODES["executors"])
        server.latency(FAR_S)
        for _ in range(lab.rounds):
            for slots in (1, 2, 3):
                work = {
                    "messages": 15_000 * slots,
                    "warm": 8_000 * slots,
                    "held": 40_000,
                    "queues": 6,
                }
                saw = ours.round(**work, **MODES["executors"], executorSlots=str(slots))
                kept.append({"name": ours.name, "latency_s": FAR_S, "slots": slots, **saw})
                lab.tell(f"{slots} executors", kept[-1])
    return {"rounds": kept}


def _turn(
    lab: Lab,
    ours: Any,
    what: str,
    work: Saw,
    latency: float,
    *,
    tls: bool,
    modes: dict[str, Saw] = MODES,
) -> list[Saw]:
    """Each mode once."""
    kept = []
    for mode, options in modes.items():
        saw = ours.round(**work, **options)
        kept.append(
            {"name": ours.name, "mode": mode, "size": what, "latency_s": latency, "tls": tls, **saw}
        )
        lab.tell(f"{mode} {what}{' TLS' if tls else ''}", kept[-1])
    return kept
