"""The table of the section `executors`."""

from __future__ import annotations

from figures import Saw, by, cpu_ms, median_of, ms, rate, table

_SINKS = {
    "ours-cluster": "noop",
    "ours-parquet-cluster": "Parquet",
    "ours-slow-cluster": "2 s a batch",
}
_DRIVER = ("source", "jvm", "driver")


def executors(saw: Saw) -> str:
    """Each mode beside `log`, which is the driver's mode with deleteAfter=log."""
    groups = by(saw["rounds"], "name", "size", "latency_s", "tls", "mode")
    rows = []
    for (name, size, latency, tls, mode), rounds in groups.items():
        beside = groups[name, size, latency, tls, "log"]
        speed = median_of(rounds, rate)
        driver = median_of(rounds, lambda each: cpu_ms(each, *_DRIVER))
        total = median_of(rounds, cpu_ms)
        rows.append(
            [
                size,
                _SINKS[name],
                ms(latency) + (", TLS" if tls else ""),
                mode,
                f"{speed:,.0f}",
                f"{speed / median_of(beside, rate):.2f}",
                f"{driver:.4f}",
                f"{driver / median_of(beside, lambda each: cpu_ms(each, *_DRIVER)):.2f}",
                f"{total:.3f}",
                f"{total / median_of(beside, cpu_ms):.2f}",
                f"{median_of(rounds, lambda each: each['requests'] / each['messages']):.3f}",
                f"{max(each['batch']['rows'] for each in rounds):,}",
            ]
        )
    head = (
        *("bodies", "sink", "latency", "mode", "messages/s", "times log"),
        *("CPU ms/message: driver", "times log", "all but the server", "times log"),
        *("requests/message", "rows of a batch"),
    )
    return table(head, rows)
