"""What keeping one row for each key costs: the section `duplicates` of the benchmarks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lab import Lab

Saw = dict[str, Any]

FILES = 10
SIZES = (1_000, 10_000)
"""Rows of a batch."""
WAYS = ("none", "without_duplicates", "transformWithStateInPandas")
EXPIRING = {"files": 80, "rows": 2_000, "within_s": 20, "every_s": 1.5, "retained": 10}
"""Of the run in which keys are forgotten: two minutes, so it sees each key go after a sixth."""


def duplicates(lab: Lab) -> Saw:
    """Ten batches, a tenth of the rows twice; all ways in one JVM, with RocksDB.

    And batches at a steady pace, of keys that are forgotten meanwhile.
    """
    kept, expiring = [], []
    with lab.contenders("deduplicate.py", "duplicates") as (_, (ours,)):
        for way in WAYS:
            ours.round(way=way, files=FILES, rows=SIZES[0])  # for as long the JVM gets faster
        for _ in range(lab.rounds):
            saw = ours.round(**EXPIRING)
            expiring.append({**EXPIRING, **saw})
        for rows in SIZES:
            for _ in range(lab.rounds):
                for way in WAYS:
                    saw = ours.round(way=way, files=FILES, rows=rows)
                    kept.append({"name": way, "rows": rows, **saw})
                    lab.tell(f"{rows} a batch", kept[-1])
    return {"rounds": kept, "expiring": expiring}
