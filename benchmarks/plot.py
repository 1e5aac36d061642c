"""Draws messages per second beside what is written by hand, with 10 ms to the server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
from figures import BY_HAND, Saw, by, median_of, rate

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.axes import Axes

INK, OURS, HAND, LIMIT, CAP = "#333333", "#0b6bcb", "#9aa5b1", "#d8dee6", "#c2410c"
AT_S = 0.01
CAP_OF_A_QUEUE = 2000
"""Requests per second that the service aims at for one queue, with messages of 1 KiB."""

PANELS = {
    "source": "Consume 1 KB: dequeue to deleted",
    "tls": "The same over TLS",
    "sink": "Produce 1 KB",
    "large": "Consume 48 KB",
}
NAMES = {
    "ours": "spark-azqueue",
    "ours-parquet": "spark-azqueue into Parquet",
    "sdk-1": "by hand, Azure's SDK, 1 thread",
    "sdk-32": "by hand, Azure's SDK, 32 threads",
    "sdk-threads": "by hand, Azure's SDK, 2 processes of 32 threads",
    "sdk-async": "by hand, Azure's SDK, async",
    "raw": "bare requests, nothing around them",
}


def draw(results: dict[str, Any], to: Path) -> None:
    """Bars of messages per second: a panel for each section that was measured."""
    found = [(name, title) for name, title in PANELS.items() if name in results]
    if not found:
        return
    rows = -(-len(found) // 2)
    figure, axes = pyplot.subplots(rows, 2, figsize=(13, 2.9 * rows), squeeze=False)
    for axis, (name, title) in zip(axes.flat, found, strict=False):
        groups = by(results[name]["rounds"], "name", "latency_s")
        _panel(
            axis,
            title,
            {who: saw for (who, at), saw in groups.items() if at == AT_S},
            name != "large",
        )
    for axis in axes.flat[len(found) :]:
        axis.set_visible(False)
    figure.suptitle(
        "Messages per second with 10 ms to the server, on two cores that the server shares;"
        " x = times the best by hand",
        x=0.01,
        ha="left",
        fontsize=11,
        color=INK,
    )
    figure.tight_layout()
    figure.savefig(to, dpi=130)


def _panel(axis: Axes, title: str, groups: dict[str, list[Saw]], with_cap: bool) -> None:
    bars = [(name, median_of(rounds, rate), rounds) for name, rounds in groups.items()]
    bars.sort(key=lambda bar: (bar[0] == "raw", bar[0].startswith("ours"), bar[1]))
    best = max(speed for name, speed, _ in bars if name in BY_HAND)
    widest = max(speed for _, speed, _ in bars)
    for place, (name, speed, _) in enumerate(bars):
        color = OURS if name.startswith("ours") else LIMIT if name == "raw" else HAND
        axis.barh(place, speed, color=color, height=0.66)
        times = f"  {speed / best:.1f} x" if name.startswith("ours") else ""
        behind = {"facecolor": "white", "edgecolor": "none", "pad": 1}  # of a line that crosses it
        label = f"{speed:,.0f}{times}"
        place_of = {"xytext": (7, 0), "textcoords": "offset points", "va": "center"}
        axis.annotate(label, (speed, place), **place_of, color=INK, fontsize=9, bbox=behind)
    if with_cap:
        _cap(axis, bars[-1][2], len(bars) - 0.45)
        widest = max(widest, CAP_OF_A_QUEUE)
    axis.set_xlim(0, widest * 1.32)
    axis.set_ylim(-0.6, len(bars) + 0.1)
    axis.set_yticks(range(len(bars)), [NAMES[name] for name, *_ in bars], fontsize=9)
    axis.set_title(title, loc="left", fontsize=10, color=INK)
    axis.spines[["top", "right", "left", "bottom"]].set_visible(False)
    axis.tick_params(length=0, labelcolor=INK)
    axis.set_xticks([])


def _cap(axis: Axes, rounds: list[Saw], height: float) -> None:
    """A line at what one queue gives, with this many requests for a message."""
    cap = CAP_OF_A_QUEUE / median_of(rounds, lambda saw: saw["requests"] / saw["messages"])
    axis.axvline(cap, color=CAP, linewidth=1, linestyle=(0, (4, 3)))
    text = f" one queue's target: {cap:,.0f}"
    axis.text(cap, height, text, color=CAP, fontsize=8, va="bottom")
