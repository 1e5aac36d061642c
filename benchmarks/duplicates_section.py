"""What keeping one row for each key costs: sections `duplicates` and `forgotten_keys`."""

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
"""Two minutes, so a key is forgotten after a sixth of it."""


def duplicates(lab: Lab) -> Saw:
    """Ten batches, a tenth of the rows twice; all ways in one JVM, with RocksDB."""
    kept = []
    with lab.contenders("deduplicate.py", "duplicates") as (_, (ours,)):
        for way in WAYS:
            ours.round(way=way, files=FILES, rows=SIZES[0])  # for as long the JVM gets faster
        for rows in SIZES:
            for _ in range(lab.rounds):
                for way in WAYS:
                    saw = ours.round(way=way, files=FILES, rows=rows)
                    kept.append({"name": way, "rows": rows, **saw})
                    lab.tell(f"{rows} a batch", kept[-1])
    return {"rounds": kept}


def forgotten_keys(lab: Lab) -> Saw:
    """Batches at a steady pace, of keys that are forgotten meanwhile: how much stays."""
    with lab.contenders("deduplicate.py", "duplicates") as (_, (ours,)):
        return {"rounds": [{**EXPIRING, **ours.round(**EXPIRING)} for _ in range(lab.rounds)]}
