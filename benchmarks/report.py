"""Turns results (JSON) into Markdown: a table for each section, medians over the rounds."""

from __future__ import annotations

import statistics
from collections.abc import Callable

from duplicates_report import duplicates, forgotten_keys
from executors_report import executors, growth, limited, modes, service_limits
from figures import (
    Saw,
    best_by_hand,
    by,
    cores_used,
    cpu_ms,
    median_of,
    ms,
    percentile,
    rate,
    table,
)
from limits_report import limits
from log_report import log, restarts
from packed_section import packed_table
from transactions_report import transactional


def source(saw: Saw) -> str:
    groups = by(saw["rounds"], "name", "latency_s")
    rows = []
    for (name, latency), rounds in groups.items():
        best = median_of(best_by_hand(groups, latency), rate)
        one = rounds[0]
        shares = [
            f"{median_of(rounds, lambda each, role=role: cpu_ms(each, role)):.3f}"
            if role in one["cpu"]
            else "-"
            for role in ("source", "jvm", "workers", "server")
        ]
        memory = [
            f"{max(each['memory_mb'].get(role, 0) for each in rounds):.0f}"
            if role in one["memory_mb"]
            else "-"
            for role in ("source", "jvm", "workers")
        ]
        rows.append(
            [
                name,
                ms(latency),
                f"{median_of(rounds, rate):,.0f}",
                f"{median_of(rounds, rate) / best:.2f}",
                *shares,
                f"{median_of(rounds, lambda each: each['requests'] / each['messages']):.4f}",
                " / ".join(memory),
            ]
        )
    head = (
        *("consumer", "latency", "messages/s", "times best SDK"),
        *("CPU ms/message: source", "JVM", "workers", "server"),
        *("requests/message", "peak MB: source / JVM / workers"),
    )
    return table(head, rows) + "\n\n" + _source_verdict(groups)


def _source_verdict(groups: dict[tuple[str, float], list[Saw]]) -> str:
    rows = []
    for latency in sorted({latency for _, latency in groups}):
        ours, hand = groups["ours", latency], best_by_hand(groups, latency)
        own, theirs = (
            median_of(rounds, lambda each: cpu_ms(each, "source")) for rounds in (ours, hand)
        )
        speed = median_of(ours, rate)
        asked = median_of(ours, lambda each: each["requests"] / each["messages"])
        times = speed / median_of(hand, rate)
        whole = theirs / median_of(ours, cpu_ms)
        rows += [
            ["noop against the best SDK consumer", ms(latency), "≥ 3 times", f"{times:.1f} times"],
            ["messages/s", ms(latency), "≥ 2,000", f"{speed:,.0f}"],
            ["requests per message", ms(latency), "≤ 1.035", f"{asked:.4f}"],
            ["CPU of the source's process per message", ms(latency), "≤ 0.15 ms", f"{own:.3f} ms"],
            ["… against the SDK consumer's", ms(latency), "≤ 1/6", f"1/{theirs / own:.1f}"],
            ["… with all of Spark's CPU added", ms(latency), "-", f"1/{whole:.1f}"],
        ]
    return table(("aim", "latency", "wanted", "measured"), rows)


def sink(saw: Saw) -> str:
    groups = by(saw["rounds"], "name", "latency_s")
    rows = []
    for (name, latency), rounds in groups.items():
        best = median_of(best_by_hand(groups, latency), rate)
        limit = median_of(groups["raw", latency], rate)
        speed = median_of(rounds, rate)
        rows.append(
            [
                name,
                ms(latency),
                f"{speed:,.0f}",
                f"{speed / best:.2f}",
                f"{speed / limit:.0%}",
                f"{median_of(rounds, cpu_ms):.3f}",
                f"{median_of(rounds, lambda each: cpu_ms(each, 'server')):.3f}",
                f"{median_of(rounds, lambda each: each['requests'] / each['messages']):.3f}",
            ]
        )
    head = (
        *("producer", "latency", "messages/s", "times best SDK", "of raw"),
        *("CPU ms/message: all but the server", "server", "requests/message"),
    )
    aims = [
        [what, row[1], wanted, row[place]]
        for row in rows
        if row[0] == "ours"
        for what, wanted, place in (
            ("times the best SDK producer", "≥ 3", 3),
            ("of the raw client", "≥ 70%", 4),
        )
    ]
    return table(head, rows) + "\n\n" + table(("aim", "latency", "wanted", "measured"), aims)


def clients(saw: Saw) -> str:
    groups = by(saw["rounds"], "name", "latency_s")
    rows = [
        [
            name,
            *(f"{median_of(groups[name, at], cpu_ms):.3f}" for at in latencies),
            *(f"{median_of(groups[name, at], rate):,.0f}" for at in latencies),
        ]
        for latencies in [sorted({latency for _, latency in groups})]
        for name in dict.fromkeys(name for name, _ in groups)
    ]
    head = ("client", "CPU ms/DELETE at 0 ms", "at 10 ms", "DELETE/s at 0 ms", "at 10 ms")
    return table(head, rows)


def batch(saw: Saw) -> str:
    rows = []
    for each in saw["rounds"]:
        asked, phases = each["asked"], each["batch"]["ms"]
        rows.append(
            [
                asked.get("maxMessagesPerTrigger", "auto (default)"),
                asked.get("messagesPerPartition", "auto (default)"),
                f"{asked.get('size', 1000)} B",
                ms(each["latency_s"]),
                f"{rate(each):,.0f}",
                *(
                    f"{phases.get(phase, 0):.0f}"
                    for phase in (
                        *("triggerExecution", "latestOffset", "addBatch"),
                        *("walCommit", "commitOffsets"),
                    )
                ),
                f"{cpu_ms(each):.3f}",
            ]
        )
    head = (
        *("maxMessagesPerTrigger", "messagesPerPartition", "bodies", "latency", "messages/s"),
        *("ms per batch", "latestOffset", "addBatch", "walCommit", "commitOffsets"),
        "CPU ms/message: all",
    )
    sizes = [
        [
            f"{each['messages']:,}",
            f"{each['bytes']:,}",
            f"{each['bytes'] / each['messages']:.1f}",
            f"{each['ms']:.1f}",
        ]
        for each in saw["offsets"]
    ]
    return (
        table(head, rows)
        + "\n\nWhat an offset weighs, with ids and receipts as random as the service's:\n\n"
        + table(("messages", "bytes", "bytes/message", "ms to make it"), sizes)
    )


def depth(saw: Saw) -> str:
    groups = by(saw["rounds"], "name")
    first = next(iter(groups.values()))
    base = median_of(first, cpu_ms)
    rows = [
        [
            name,
            f"{median_of(rounds, rate):,.0f}",
            f"{median_of(rounds, lambda each: cpu_ms(each, 'source')):.4f}",
            f"{median_of(rounds, cpu_ms):.3f}",
            f"{median_of(rounds, cpu_ms) / base:.2f}",
            f"{max(each['memory_mb']['source'] for each in rounds):.0f}",
        ]
        for (name,), rounds in groups.items()
    ]
    head = (
        *("backlog", "messages/s", "CPU ms/message: source", "all but the server"),
        *("all, times the first", "peak MB of the source"),
    )
    return table(head, rows)


def latency(saw: Saw) -> str:
    ages: dict[tuple[str, float, float], list[float]] = {}
    for each in saw["rounds"]:
        ages.setdefault((each["name"], *each["gaps_s"]), []).extend(each["ages_s"])
    engine = statistics.median(
        age for (name, *_), values in ages.items() if name == "trivial" for age in values
    )
    rows = []
    for (name, low, high), values in ages.items():
        what, bound = "a source that costs nothing (the engine's share)", "-"
        if name != "trivial":
            pause, _, mode = name.partition(", ")
            what = ", ".join(filter(None, (f"ours, maxPollInterval {pause} s", mode)))
            bound = "-" if mode else f"{(engine + float(pause) / 2) * 1000:.0f} + 2 requests"
        points = (f"{percentile(values, share) * 1000:.0f}" for share in (0.5, 0.95, 0.99))
        rows.append([what, f"{low:g} to {high:g} s", len(values), *points, bound])
    head = (
        *("put to row in foreachBatch", "messages come every", "messages"),
        *("p50 ms", "p95", "p99", "p50 wanted at most"),
    )
    return table(head, rows)


def idle(saw: Saw) -> str:
    seconds = saw["seconds"]
    cpu = "; ".join(f"{role} {used:.2f} s" for role, used in saw["cpu"].items())
    picks = saw["picked_up_s"]
    rows = [
        ["requests in the minute", f"{saw['requests'] * 60 / seconds:.0f}"],
        ["CPU in the minute", cpu],
        ["a new message is dequeued after, median", ms(statistics.median(picks))],
        [f"… at most, of {len(picks)}", ms(max(picks))],
        ["and is a row after, median", ms(statistics.median(saw["ages_s"]))],
    ]
    return table(("an idle stream", ""), rows)


def queues(saw: Saw) -> str:
    rows = [
        [
            each["queues"],
            "128 / 32" if each["wide"] else "64 / 8",
            f"{each['rate']:,}" if each["rate"] else "as many as come",
            f"{rate(each):,.0f}",
            f"{cores_used(each):.2f} of 2",
            f"{cores_used({**each, 'cpu': {'server': each['cpu']['server']}}):.2f}",
            f"{cpu_ms(each, 'source'):.3f}",
            f"{cpu_ms(each):.3f}",
        ]
        for each in saw["rounds"]
    ]
    head = (
        *("queues", "parallelism", "requests/s a queue answers", "messages/s"),
        *("cores busy", "server's share", "CPU ms/message: source", "all but the server"),
    )
    return table(head, rows)


def columns(saw: Saw) -> str:
    head = ("bytes of a body", "", "all columns", "`message_id, queue`", "ratio, median of rounds")
    alone = [
        [
            f"{each['size']:,}",
            *(f"{each['bytes'][name]:,.0f}" for name in ("all", "two")),
            *(str(each["partitions"][name]) for name in ("all", "two")),
            f"{each['cpu_ratio']:.3f}",
        ]
        for each in saw["partitions"]
    ]
    of_batch = (
        *("bytes of a body", "bytes/message in partitions, all", "two"),
        *("partitions, all", "two", "CPU to make them: ratio"),
    )
    return table(head, _pairs(saw, "all", "two", _COSTS)) + "\n\n" + table(of_batch, alone)


def ingest(saw: Saw) -> str:
    head = ("bytes of a body", "", "by hand", "`IngestJob`", "ratio, median of rounds")
    figures: dict[str, Callable[[Saw], float]] = {
        "messages/s": rate,
        "CPU ms/message": cpu_ms,
        "batches": lambda each: float(each["batches"]),
        "files a batch": lambda each: each["files"] / each["batches"],
    }
    return table(head, _pairs(saw, "by-hand", "ingest-job", figures))


def sockets(saw: Saw) -> str:
    head = ("messages a batch", "", "TCP", "Unix sockets", "ratio, median of rounds")
    batches: dict[str, Callable[[Saw], float]] = {
        "addBatch, ms": lambda each: float(each["batch"]["ms"]["addBatch"]),
        "the whole batch, ms": lambda each: float(each["batch"]["ms"]["triggerExecution"]),
    }
    return table(head, _pairs(saw, "ours", "ours-unix", batches | _COSTS))


_COSTS: dict[str, Callable[[Saw], float]] = {
    "messages/s": rate,
    "CPU ms/message": cpu_ms,
    "… source": lambda saw: cpu_ms(saw, "source"),
    "… workers": lambda saw: cpu_ms(saw, "workers"),
    "… JVM": lambda saw: cpu_ms(saw, "jvm"),
}


def _pairs(
    saw: Saw, first: str, second: str, figures: dict[str, Callable[[Saw], float]]
) -> list[list[str]]:
    """Two contenders, figure by figure, for each size."""
    groups = by(saw["rounds"], "size", "name")
    rows = []
    for size in dict.fromkeys(size for size, _ in groups):
        both = groups[size, first], groups[size, second]
        for name, figure in figures.items():
            ratios = [figure(b) / figure(a) for a, b in zip(*both, strict=True) if figure(a)]
            ratio = f"{statistics.median(ratios):.2f}" if ratios else "-"
            shown = [f"{median_of(each, figure):,.3g}" for each in both]
            rows.append([f"{size:,}", name, *shown, ratio])
    return rows


_TITLES: dict[str, tuple[str, Callable[[Saw], str]]] = {
    "source": ("Source: dequeue to deleted", source),
    "sink": ("Sink: rows to enqueued messages", sink),
    "tls": ("Source over TLS", source),
    "large": ("Source: bodies of 48 KB", source),
    "large_sink": ("Sink: bodies of 48 KB", sink),
    "clients": ("HTTP clients: one DELETE", clients),
    "batch": ("Sizes of batches, partitions and offsets", batch),
    "depth": ("Backlog", depth),
    "drain": ("A million messages to the last", depth),
    "latency": ("Latency at a low rate", latency),
    "idle": ("An idle minute", idle),
    "ingest": ("A queue into a table: IngestJob and by hand", ingest),
    "columns": ("Columns that leave the body out", columns),
    "sockets": ("TCP or Unix sockets between Spark and Python", sockets),
    "queues": ("Several queues in one stream", queues),
    "limits": ("Limits that are learned", limits),
    "log": ("A write-ahead log", log),
    "transactional": ("Sink: transactions", transactional),
    "executors": ("Who leases: the driver or the executors", executors),
    "slow_executors": ("Who leases: a slow sink, and queues at their limit", limited),
    "one_table": ("Who leases: into one Delta table", modes),
    "large_executors": ("Who leases: 48 KB into Parquet, beside the SDK by hand", modes),
    "growth": ("Executors: growth", growth),
    "service_limits": ("Executors: what they use of the service's limits", service_limits),
    "packed": ("Many rows in one message", packed_table),
    "duplicates": ("One row for each key", duplicates),
    "forgotten_keys": ("One row for each key: keys that are forgotten", forgotten_keys),
    "restarts": ("Restarts after a kill of the source's process", restarts),
}


def report(results: dict[str, Saw]) -> str:
    """All sections that have results."""
    parts = [
        "# Results",
        "",
        "Written by `make bench`; how to read it: [README](../README.md).",
        "",
    ]
    parts += ["![messages per second](throughput.png)", ""] if "source" in results else []
    said: object = None
    for name, (title, write) in _TITLES.items():
        if name not in results:
            continue
        saw = results[name]
        about = {**saw["machine"], **saw["versions"]}
        parts += [f"## {title}", "", f"{saw['date']}, `{saw['command']}`."]
        if about != said:
            said = about
            parts += ["", "; ".join(f"{key}: {value}" for key, value in about.items()) + "."]
        parts += ["", write(saw), ""]
    return "\n".join(parts)
