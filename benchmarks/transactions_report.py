"""The table of the section `transactional`."""

from __future__ import annotations

from figures import Saw, by, cpu_ms, median_of, ms, rate, table

_WANTED = 0.45


def transactional(saw: Saw) -> str:
    groups = by(saw["rounds"], "messages", "latency_s", "mode")
    rows = []
    for (count, latency, mode), rounds in groups.items():
        plain = median_of(groups[count, latency, ""], rate)
        speed = median_of(rounds, rate)
        driver = max(each["memory_mb"].get("driver", 0) for each in rounds)
        rows.append(
            [
                mode or "plain",
                f"{count:,}",
                ms(latency),
                f"{speed:,.0f}",
                f"{speed / plain:.2f}" if mode else "",
                f"{median_of(rounds, lambda each: each['show_s']):.2f}" if mode else "",
                *(
                    f"{median_of(rounds, lambda each, role=role: cpu_ms(each, role)):.3f}"
                    if role in rounds[0]["cpu"]
                    else "-"
                    for role in ("workers", "jvm", "server")
                ),
                f"{driver:.0f}",
                f"{median_of(rounds, lambda each: each['requests'] / each['messages']):.3f}",
            ]
        )
    head = (
        *("sink", "messages", "latency", "messages/s", f"of plain (wanted ≥ {_WANTED})"),
        *("seconds to show", "CPU ms/message: workers", "JVM", "server", "peak MB: driver"),
        "requests/message",
    )
    return table(head, rows)
