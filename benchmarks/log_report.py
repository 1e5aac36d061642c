"""The sections `log` and `restarts` as Markdown."""

from __future__ import annotations

from figures import Saw, by, cpu_ms, median_of, rate, table

_SINKS = {"ours": "noop", "ours-parquet": "Parquet"}


def log(saw: Saw) -> str:
    """Three tables: speed, a slow store, a long run."""
    return "\n\n".join(
        [
            "On a local disk:",
            _compared(saw["rounds"]),
            "In blobs, with 20 ms added to every request to them:",
            _compared(saw["slow_store"]),
            "Many messages to the last:",
            _long(saw["long"]),
        ]
    )


def _compared(rounds: list[Saw]) -> str:
    groups = by(rounds, "name", "mode")
    rows = []
    for (name, mode), some in groups.items():
        without = groups[name, ""]
        more = {
            role: (median_of(some, _us(*role)) - median_of(without, _us(*role)))
            for role in (("source",), ("jvm",), ())
        }
        rows.append(
            [
                _SINKS[name],
                mode or "without",
                f"{median_of(some, rate):,.0f}",
                f"{median_of(some, rate) / median_of(without, rate):.2f}",
                *(f"{each:+.1f}" for each in more.values()),
                f"{max(each['memory_mb'].get('source', 0) for each in some):.0f}",
            ]
        )
    head = (
        *("sink", "deleteAfter", "messages/s", "times without"),
        *("CPU µs/message more: source", "JVM", "all but the server", "peak MB of the source"),
    )
    return table(head, rows)


def _us(*roles: str):  # type: ignore[no-untyped-def]
    return lambda saw: cpu_ms(saw, *roles) * 1000


def _long(rounds: list[Saw]) -> str:
    rows = [
        [
            f"{saw['messages']:,}",
            saw["mode"],
            f"{rate(saw):,.0f}",
            *(f"{held:.0f}" for held in saw["source_mb"]),
        ]
        for saw in rounds
    ]
    head = ("messages", "deleteAfter", "messages/s", "MB of the source, first third", "last third")
    return table(head, rows)


def restarts(saw: Saw) -> str:
    """After a kill of the source's process, from start() to the first rows."""
    rows = []
    for (mode,), some in by(saw["restarts"], "mode").items():
        spent = sorted(each for one in some for each in one["restarts_s"])
        rows.append(
            [
                mode or "without",
                f"{some[0]['segments']}",
                f"{spent[len(spent) // 2]:.1f}",
                f"{spent[-1]:.1f}",
                f"{len(spent)}",
            ]
        )
    return table(("deleteAfter", "segments", "s, median", "at most", "restarts"), rows)
