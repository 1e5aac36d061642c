"""What is measured: each section is a function of a `Lab`, and returns what is to be kept (JSON).

A section's contenders take turns, round by round, against one server on the same two cores.
"""

from __future__ import annotations

import base64
import random
import time
import uuid
from collections.abc import Callable
from typing import Any

from columns_section import columns
from duplicates_section import duplicates, forgotten_keys
from executors_section import executors, growth, large_executors, one_table, slow_executors
from lab import LATENCIES_S, STEADY, Lab, Saw
from limits_section import limits
from log_section import log, restarts
from packed_section import packed
from service_limits_section import service_limits
from transactions_section import transactional

from spark_azqueue.service.messages import Lease, QueueRef
from spark_azqueue.source.offsets import QueueOffset, offset_text


def source(lab: Lab) -> Saw:
    """Dequeue to deleted, with a deep backlog: ours against what is written by hand."""
    at_0 = {"sdk-1": 2000, "sdk-32": 8000, "sdk-async": 8000, "raw": 40_000}
    at_10 = {"sdk-1": 400, "sdk-32": 8000, "sdk-async": 8000, "raw": 40_000}

    def work(name: str, latency: float) -> Saw:
        counts = at_10 if latency else at_0
        return {"messages": counts[name]} if name in counts else STEADY

    names = ("sdk-1", "sdk-32", "sdk-async", "raw", "ours", "ours-parquet")
    with lab.contenders("consume.py", *names) as (server, made):
        return {"rounds": lab.turns(server, made, work)}


def sink(lab: Lab) -> Saw:
    """Rows to enqueued messages: ours against what is written by hand."""
    counts = {"sdk-threads": 8000, "sdk-async": 8000}
    with lab.contenders("produce.py", "sdk-threads", "sdk-async", "raw", "ours") as (server, made):
        return {
            "rounds": lab.turns(
                server, made, lambda name, _: {"messages": counts.get(name, 120_000)}
            )
        }


def tls(lab: Lab) -> Saw:
    """The same over TLS, as every real account is used."""
    counts = {"sdk-32": 4000, "sdk-async": 4000}
    with lab.contenders("consume.py", *counts, "ours", tls=True) as (server, made):
        return {
            "rounds": lab.turns(
                server,
                made,
                lambda name, _: {"messages": counts.get(name, 120_000)},
                (0.002, 0.01, 0.05),
            )
        }


def large(lab: Lab) -> Saw:
    """Bodies of 48 KB: consumed by ours, into noop and Parquet, and by hand."""
    by_hand: Saw = {"messages": 1000, "size": 48_000}
    of_ours: Saw = {"messages": 12_000, "size": 48_000, "warm": 3000}
    names = ("ours", "ours-parquet")
    with lab.contenders("consume.py", "sdk-32", "sdk-async", *names) as (server, made):
        for contender in made[2:]:
            contender.round(**of_ours)  # for as long the JVM gets faster
        return {
            "rounds": lab.turns(
                server, made, lambda name, _: of_ours if name in names else by_hand, (0.01,)
            )
        }


def large_sink(lab: Lab) -> Saw:
    """Bodies of 48 KB: produced by ours and by hand."""
    counts = {"sdk-threads": 2000, "sdk-async": 2000}
    with lab.contenders("produce.py", *counts, "raw", "ours") as (server, made):
        return {
            "rounds": lab.turns(
                server,
                made,
                lambda name, _: {"messages": counts.get(name, 6000), "size": 48_000},
                (0.01,),
            )
        }


def ingest(lab: Lab) -> Saw:
    """A queue into Parquet: `IngestJob` beside the job by hand, in turns."""
    with lab.contenders("ingest.py", "by-hand", "ingest-job") as (server, made):
        for contender in made:
            contender.round(messages=20_000)  # for as long the JVM gets faster
        return {"rounds": lab.turns(server, made, lambda *_: {"messages": 60_000}, (0.0,))}


def clients(lab: Lab) -> Saw:
    """A DELETE over each HTTP client; client and server have a core each."""
    names = (
        *("sdk-threads", "sdk-async", "urllib3", "http-client", "aiohttp"),
        *("curl-threads", "curl-multi"),
    )
    with lab.contenders("clients.py", *names, apart=True) as (server, made):
        slow = {"sdk-threads", "sdk-async"}
        return {
            "rounds": lab.turns(
                server, made, lambda name, _: {"messages": 4000 if name in slow else 16_000}
            )
        }


def batch(lab: Lab) -> Saw:
    """How large batches and partitions should be, and what offsets weigh."""
    kept: list[Saw] = []
    with lab.contenders("consume.py", "ours") as (server, (ours,)):

        def measure(latency: float, **work: Any) -> None:
            server.latency(latency)
            saw = ours.round(**work)
            kept.append({"name": "ours", "latency_s": latency, "asked": work, **saw})
            lab.tell("batch", kept[-1])

        for latency in LATENCIES_S:
            for most in (256, 1000, 2048, 4096, 10_000, 16_384):
                measure(
                    latency,
                    messages=min(30_000, most * 20),
                    maxMessagesPerTrigger=str(most),
                    maxBytesPerTrigger="1g",
                )
        # Bodies so small that a partition does not end at its 900 KiB before.
        for rows in (256, 1024, 2048, 4096):
            measure(0.01, messages=30_000, messagesPerPartition=str(rows), size=200)
    return {"rounds": kept, "offsets": [_offset(count) for count in (1, 1000, 4096, 10_000)]}


def _offset(count: int) -> Saw:
    """What an offset of `count` leases weighs, with ids and receipts as the service's are."""
    chance = random.Random(count)
    leases = []
    queue = QueueRef("account", "orders")
    for number in range(count):
        if number % 32 == 0:  # receipts end in a time; those of one page are alike
            moment = 0x01DC5AF000000000 + number * 300_000
        raw = bytes((2, 0, 0, 0, 3)) + bytes(7) + (moment + number % 32).to_bytes(8, "little")
        identity = str(uuid.UUID(int=chance.getrandbits(128), version=4))
        leases.append(Lease(queue, identity, base64.b64encode(raw).decode()))
    started = time.perf_counter()
    text = offset_text(QueueOffset("account", 1, tuple(leases), 1_790_000_000).to_json())
    return {"messages": count, "bytes": len(text), "ms": (time.perf_counter() - started) * 1000}


def depth(lab: Lab) -> Saw:
    """A backlog that stays as deep while it is consumed."""
    kept = []
    with lab.contenders("consume.py", "ours") as (_, (ours,)):
        # One for nothing: the JVM gets faster for about 100,000 messages, and the first would pay.
        ours.round(messages=80_000)
        for _ in range(lab.rounds):
            for held in (10_000, 100_000, 1_000_000):
                saw = ours.round(messages=60_000, warm=20_000, held=held)
                kept.append({"name": f"{held:,} held", **saw})
                lab.tell("depth", kept[-1])
    return {"rounds": kept}


def drain(lab: Lab) -> Saw:
    """A million messages, from the first to the last."""
    with lab.contenders("consume.py", "ours") as (_, (ours,)):
        saw = ours.round(messages=1_000_000, warm=20_000)
        return {"rounds": [{"name": "1,000,000 drained", **saw}]}


def latency(lab: Lab) -> Saw:
    """From put to row at a low rate, beside a source that costs nothing."""
    often, seldom = (0.5, 2.0), (2.0, 3.0)  # after 1.5 s the queue is asked most seldom
    leased = {"leaseOn": "executors", "writeAheadLog": "file:PLACE/log", "deleteAfter": "log"}
    kinds: list[tuple[str, tuple[float, float], Saw]] = [
        ("trivial", often, {"kind": "trivial"}),
        ("1", often, {"kind": "messages"}),
        ("1", seldom, {"kind": "messages"}),
        ("0.1", often, {"kind": "messages", "maxPollInterval": "0.1"}),
        ("1, leaseOn=executors", often, {"kind": "messages", **leased}),
    ]
    kept = []
    with lab.contenders("waiting.py", "waiting") as (_, (waiting,)):
        for _ in range(lab.rounds):
            for name, gaps, work in kinds:
                saw = waiting.round(count=30, gaps=gaps, **work)
                kept.append({"name": name, "gaps_s": gaps, **saw})
                lab.tell("latency", kept[-1])
    return {"rounds": kept}


def idle(lab: Lab) -> Saw:
    """A minute without a message, and how soon it ends when one comes."""
    with lab.contenders("waiting.py", "waiting") as (_, (waiting,)):
        return waiting.round(kind="idle", seconds=60, picked_up=12)


def sockets(lab: Lab) -> Saw:
    """Spark and its Python processes over TCP and over Unix sockets: small and large batches."""
    kept = []
    asked: tuple[Saw, ...] = (
        {"messages": 16_000, "maxMessagesPerTrigger": "256"},
        {"messages": 80_000, "maxMessagesPerTrigger": "8192", "warm": 20_000},
    )
    with lab.contenders("consume.py", "ours", "ours-unix") as (_, made):
        for work in asked:
            for contender in made:
                contender.round(**work)  # for as long the JVM gets faster
            for number in range(lab.rounds):
                for contender in made if number % 2 else made[::-1]:
                    saw = contender.round(**work)
                    size = int(work["maxMessagesPerTrigger"])
                    kept.append({"name": contender.name, "size": size, "latency_s": 0.0, **saw})
                    lab.tell(f"round {number + 1}", kept[-1])
    return {"rounds": kept}


def queues(lab: Lab) -> Saw:
    """Several queues in one stream at 10 ms, each as fast as the service's, and unbounded."""
    kept = []
    usual = {"parallelism": "64"}
    wide = {"parallelism": "128"}
    with lab.contenders("consume.py", "ours") as (server, (ours,)):
        server.latency(0.01)
        for rate in (2000, 0):
            server.rate(rate)
            for count, options in [*((each, usual) for each in (1, 2, 4, 8)), (8, wide)]:
                saw = ours.round(messages=40_000, queues=count, warm=8000, **options)
                asked = {"queues": count, "rate": rate, "wide": options is wide}
                kept.append({"name": str(count), "latency_s": 0.01, **asked, **saw})
                lab.tell(f"at {rate}/s", kept[-1])
    return {"rounds": kept}


SECTIONS: dict[str, Callable[[Lab], Saw]] = {
    each.__name__: each
    for each in (
        source,
        sink,
        tls,
        large,
        large_sink,
        clients,
        batch,
        depth,
        drain,
        latency,
        idle,
        ingest,
        columns,
        sockets,
        queues,
        limits,
        log,
        restarts,
        transactional,
        executors,
        slow_executors,
        one_table,
        large_executors,
        growth,
        service_limits,
        packed,
        duplicates,
        forgotten_keys,
    )
}
