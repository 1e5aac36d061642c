"""Draws CPU per message and messages per second beside what is written by hand, at 10 ms."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
from figures import BY_HAND, Saw, by, cpu_ms, median_of, rate

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.axes import Axes

INK, OURS, HAND, LIMIT, CAP = "#333333", "#0b6bcb", "#9aa5b1", "#d8dee6", "#c2410c"
AT_S = 0.01
CAP_OF_A_QUEUE = 2000
"""Requests per second that the service aims at for one queue, with messages of 1 KiB."""

PANELS = {
    "source": "Consume 1 KB",
    "tls": "Consume 1 KB over TLS",
    "sink": "Produce 1 KB",
    "large": "Consume 48 KB",
}
NAMES = {
    "ours": "spark-azqueue",
    "ours-parquet": "spark-azqueue into Parquet",
    "sdk-1": "by hand, SDK, 1 thread",
    "sdk-32": "by hand, SDK, 32 threads",
    "sdk-threads": "by hand, SDK, 2 x 32 threads",
    "sdk-async": "by hand, SDK, async",
    "raw": "bare requests, 64 at once *",
}


class Bar(NamedTuple):
    """A contender of a section: medians of CPU in ms per message, and of messages per second."""

    name: str
    cpu: float
    speed: float
    requests: float


def bars_of(rounds: list[Saw]) -> list[Bar]:
    """The contenders with 10 ms to the server, the cheapest first; bare requests last."""
    found = [
        Bar(
            name,
            median_of(saw, cpu_ms),
            median_of(saw, rate),
            median_of(saw, lambda each: each["requests"] / each["messages"]),
        )
        for (name, at), saw in by(rounds, "name", "latency_s").items()
        if at == AT_S
    ]
    return sorted(found, key=lambda bar: (bar.name == "raw", bar.cpu))


def best_of(bars: list[Bar]) -> Bar:
    """The fastest by hand."""
    return max((bar for bar in bars if bar.name in BY_HAND), key=lambda bar: bar.speed)


def headline(bars: list[Bar]) -> str:
    """What the section `source` says: CPU first, then one queue's limit, then the ratio."""
    ours, best = next(bar for bar in bars if bar.name == "ours"), best_of(bars)
    cap = CAP_OF_A_QUEUE / ours.requests
    return (
        f"A message costs {ours.cpu:.2f} ms of CPU with all of Spark, {best.cpu:.2f} ms by hand.\n"
        f"One real queue gives about {cap:,.0f} messages a second. To take them costs"
        f" {cap * ours.cpu / 1000:.0%} of a core; by hand {cap * best.cpu / 1000:.1f} cores,"
        f" and the best by hand took {best.speed / cap:.0%} of them.\n"
        f"Without that limit, on two cores that the server shares: {ours.speed:,.0f} a second,"
        f" {ours.speed / best.speed:.1f} times the best by hand."
    )


NOTE = (
    "10 ms to the server. Each column has one scale. Medians of the rounds in results.json."
    " %: of what one real queue gives.\n"
    "That is 2,000 requests a second for messages of 1 KiB; what it is for 48 KB, the service does"
    " not say, so there is no line.\n"
    "* Bare requests show what the requests alone cost, so compare their CPU. Their speed ends at"
    " 64 requests under way / 10 ms, whatever they cost;\n"
    "  spark-azqueue has as many under way as each queue takes, and so is faster here."
)


def draw(results: dict[str, Any], to: Path) -> None:
    """A row for each section that was measured: CPU per message, and messages per second."""
    found = [(title, bars_of(results[n]["rounds"])) for n, title in PANELS.items() if n in results]
    if not found:
        return
    heights = [len(bars) + 0.8 for _, bars in found]
    figure, grid = pyplot.subplots(
        *(len(found), 2),
        figsize=(12, 0.34 * sum(heights) + 2.4),
        sharex="col",
        squeeze=False,
        height_ratios=heights,
        layout="constrained",
    )
    for number, (title, bars) in enumerate(found):
        cpu, speed = grid[number]
        _panel(cpu, title, bars, [bar.cpu for bar in bars], [(f"{bar.cpu:.2f}",) for bar in bars])
        best = best_of(bars).speed
        cap = None if title == PANELS["large"] else CAP_OF_A_QUEUE / bars[0].requests
        labels = [
            (
                f"{bar.speed:,.0f}",
                f"{bar.speed / best:.1f} x" * bar.name.startswith("ours"),
                f"{bar.speed / cap:.0%}" if cap else "",
            )
            for bar in bars
        ]
        _panel(speed, "", bars, [bar.speed for bar in bars], labels)
        speed.set_yticks([])
        if cap:
            _cap(speed, cap, named=number == 0)
    grid[0][0].set_title(f"CPU ms per message, Spark included\n{found[0][0]}", **_TITLE)
    grid[0][1].set_title(
        "messages per second; x: times the best by hand; %: of one real queue\n", **_TITLE
    )
    grid[-1][1].xaxis.set_major_formatter("{x:,.0f}")
    for axis in grid[-1]:
        axis.set_xlim(0, None)
        axis.tick_params(axis="x", labelbottom=True, labelcolor=INK, labelsize=8)
    if "source" in results:
        figure.suptitle(headline(found[0][1]), x=0.01, ha="left", fontsize=11, color=INK)
    figure.supxlabel(NOTE, x=0.01, ha="left", fontsize=8, color=INK)
    figure.savefig(to, dpi=130, bbox_inches="tight", pad_inches=0.2)
    pyplot.close(figure)


_TITLE: dict[str, Any] = {"loc": "left", "fontsize": 10, "color": INK}


def columns_beside(axis: Axes, labels: list[tuple[str, ...]]) -> None:
    """Figures at the right of each bar, in columns that end at one line."""
    for place, cells in enumerate(labels):
        for number, cell in enumerate(cells):
            beside = {"textcoords": "offset points", "xycoords": axis.get_yaxis_transform()}
            at = {"xy": (1, place), "xytext": (48 + 40 * number, 0), "ha": "right", "va": "center"}
            axis.annotate(cell, **at, **beside, fontsize=9, color=INK)


def _panel(
    axis: Axes, title: str, bars: list[Bar], values: list[float], labels: list[tuple[str, ...]]
) -> None:
    """Bars from top to bottom, with their figures in columns at the right."""
    places = range(len(bars))
    colors = [
        OURS if bar.name.startswith("ours") else LIMIT if bar.name == "raw" else HAND
        for bar in bars
    ]
    axis.barh(places, values, color=colors, height=0.66)
    columns_beside(axis, labels)
    axis.set_yticks(places, [NAMES[bar.name] for bar in bars], fontsize=9)
    axis.set_ylim(len(bars) - 0.4, -0.6)
    axis.set_title(title, **_TITLE)
    axis.spines[["top", "right", "bottom"]].set_visible(False)
    axis.spines["left"].set_color(HAND)
    axis.tick_params(length=0, labelcolor=INK)
    axis.grid(axis="x", color="#eceff3", linewidth=0.8)
    axis.set_axisbelow(True)


def _cap(axis: Axes, cap: float, *, named: bool) -> None:
    """A line, behind the bars, at what one queue gives with this many requests for a message."""
    axis.axvline(cap, color=CAP, linewidth=1.5, linestyle=(0, (4, 3)), zorder=0.6)
    if named:
        above = {"xytext": (0, 3), "textcoords": "offset points"}
        at = {"xy": (cap, 1), "xycoords": ("data", "axes fraction")}
        axis.annotate(f"one real queue: {cap:,.0f}", **at, **above, color=CAP, fontsize=8)
