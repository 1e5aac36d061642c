"""What a write-ahead log costs: the sections `log` and `restarts` of the benchmarks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lab import STEADY

from spark_azqueue.testing.blobs import FakeBlobService

if TYPE_CHECKING:
    from lab import Lab

Saw = dict[str, Any]

STORE_LATENCY_S = 0.02
RETAINED = 100
_FULL = 4096
"""Messages of each retained segment."""
WARM = 20_000
_ON_DISK = {"writeAheadLog": "file:PLACE/log"}
MODES: dict[str, Saw] = {
    "": {},
    "commit": _ON_DISK,
    "log": _ON_DISK | {"deleteAfter": "log"},
}


def log(lab: Lab) -> Saw:
    """With a log and without: speed, memory over a long run, and a slow store."""
    with lab.contenders("consume.py", "ours", "ours-parquet") as (_, made):
        return {
            "rounds": _speed(lab, made),
            "slow_store": _slow_store(lab, made[0]),
            "long": _long(lab, made[0]),
        }


def _speed(lab: Lab, made: list[Any]) -> list[Saw]:
    """Noop and Parquet, with a log on a disk and without: turns in one JVM for each sink."""
    kept = []
    for ours in made:
        ours.round(messages=100_000)  # for as long the JVM gets faster
        for _ in range(lab.rounds):
            for mode, options in MODES.items():
                saw = ours.round(**STEADY, **options)
                kept.append({"name": ours.name, "mode": mode, **saw})
                lab.tell(f"log {mode or 'none'}", kept[-1])
    return kept


def _slow_store(lab: Lab, ours: Any) -> list[Saw]:
    """A log in blobs, each request to which takes 20 ms more, beside no log."""
    kept = []
    with FakeBlobService() as blobs:
        blobs.latency_s = STORE_LATENCY_S
        text = f"AccountName=fakeaccount;AccountKey=a2V5;BlobEndpoint={blobs.url}"
        for number in range(lab.rounds):
            for mode, options in MODES.items():
                place = {
                    "writeAheadLog": f"blob:bench/{mode}-{number}",
                    "secret.blobConnectionString": text,
                }
                options = options | place if mode else {}
                saw = ours.round(**STEADY, **options)
                kept.append({"name": ours.name, "mode": mode, **saw})
                lab.tell(f"blobs {mode or 'none'}", kept[-1])
    return kept


def _long(lab: Lab, ours: Any) -> list[Saw]:
    """Many messages from the first to the last: does memory grow?"""
    kept = []
    for mode, options in MODES.items():
        if not mode:
            continue
        saw = ours.round(messages=lab.messages, warm=WARM, sampled=True, **options)
        held = [each.get("source", 0.0) for each in saw.pop("samples")]
        third = max(1, len(held) // 3)
        saw["source_mb"] = [max(some, default=0.0) for some in (held[:third], held[-third:])]
        kept.append({"name": ours.name, "mode": mode, **saw})
        lab.tell(f"long {mode}", kept[-1])
    return kept


def restarts(lab: Lab) -> Saw:
    """The source's process is killed: from the start of the query to the first rows."""
    kept = []
    with lab.contenders("consume.py", "ours") as (_, (ours,)):
        for mode, options in MODES.items():  # four restarts each
            full = {"maxMessagesPerTrigger": str(_FULL)}
            saw = ours.round(kind="restart", messages=_FULL * (RETAINED + 5), **full, **options)
            kept.append({"mode": mode, **saw})
            spent = ", ".join(f"{each:.1f}" for each in saw["restarts_s"])
            lab.tell(f"restart {mode or 'none'}: {spent} s", {"messages": 0})
    return {"restarts": kept}
