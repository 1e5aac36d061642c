"""The section `limits` as Markdown."""

from __future__ import annotations

from figures import Saw, by, cpu_ms, median_of, ms, rate, table


def limits(saw: Saw) -> str:
    """Share of the cap of one queue; eight queues against fixed numbers."""
    cap = saw["cap"]
    one = [
        [
            name,
            ms(latency),
            f"{median_of(rounds, rate):,.0f}",
            f"{median_of(rounds, lambda each: _carried_out(each) / cap):.1%}",
            f"{median_of(rounds, _busy):.2%}",
            f"{max(map(_busy, rounds)):.2%}",
        ]
        for (name, latency), rounds in by(saw["one"], "name", "latency_s").items()
    ]
    fixed = by(saw["eight"], "name")
    best = max(median_of(rounds, rate) for (name,), rounds in fixed.items() if name != "auto")
    eight = [
        [
            name,
            f"{median_of(rounds, rate):,.0f}",
            f"{median_of(rounds, rate) / best:.1%}",
            f"{median_of(rounds, _busy):.2%}",
            f"{median_of(rounds, lambda each: cpu_ms(each, 'source')):.3f}",
            f"{median_of(rounds, cpu_ms):.3f}",
        ]
        for (name,), rounds in fixed.items()
    ]
    return "\n\n".join(
        (
            f"One queue that answers 503 to what is beyond {cap:,} requests/s:",
            table(
                (
                    *("parallelism", "latency", "messages/s", "share of the cap"),
                    *("answers 503", "… at most"),
                ),
                one,
            ),
            f"Eight such queues at {ms(0.01)}:",
            table(
                (
                    *("parallelism", "messages/s", "of the best fixed", "answers 503"),
                    *("CPU ms/message: source", "all but the server"),
                ),
                eight,
            ),
        )
    )


def _carried_out(saw: Saw) -> float:
    """Requests a second that were not answered 503."""
    return float(saw["requests"] - saw["busy"]) / float(saw["seconds"])


def _busy(saw: Saw) -> float:
    """The part of all answers that were 503."""
    return float(saw["busy"]) / float(saw["requests"])
