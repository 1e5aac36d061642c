"""Draws throughput of source and sink beside what is written by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
from figures import BY_HAND, by, median_of, rate

matplotlib.use("Agg")
from matplotlib import pyplot

INK, OURS, HAND, LIMIT = "#333333", "#0b6bcb", "#9aa5b1", "#d8dee6"


def draw(results: dict[str, Any], to: Path) -> None:
    """Bars of messages per second: a panel for each of source and sink, and each latency."""
    panels = [
        (title, at, by(results[name]["rounds"], "name", "latency_s"))
        for name, title in (("source", "source"), ("sink", "sink"))
        if name in results
        for at in (0.0, 0.01)
    ]
    if not panels:
        return
    figure, axes = pyplot.subplots(
        -(-len(panels) // 2), 2, figsize=(11, 2.9 * -(-len(panels) // 2)), squeeze=False
    )
    for axis, (title, at, groups) in zip(axes.flat, panels, strict=True):
        bars = [
            (name, median_of(rounds, rate))
            for (name, latency), rounds in groups.items()
            if latency == at
        ]
        bars.sort(key=lambda bar: (bar[0] == "raw", bar[0].startswith("ours"), bar[1]))
        best = max(speed for name, speed in bars if name in BY_HAND)
        ours = max(speed for name, speed in bars if name.startswith("ours"))
        for place, (name, speed) in enumerate(bars):
            color = OURS if name.startswith("ours") else LIMIT if name == "raw" else HAND
            axis.barh(place, speed, color=color, height=0.66)
            times = f"  {speed / best:.1f} x" if name.startswith("ours") else ""
            shown = min(speed, ours * 1.9)
            cut = "  (the bar goes on)" if speed > shown else ""
            text = f"{speed:,.0f}{times}{cut}"
            axis.text(0 if cut else shown, place, f"  {text}", va="center", color=INK)
        # raw without latency is so far off that it would flatten all others
        axis.set_xlim(0, ours * 1.9)
        axis.set_yticks(range(len(bars)), [name for name, _ in bars])
        axis.set_title(
            f"{title}, {at * 1000:.0f} ms added to each answer", loc="left", fontsize=10, color=INK
        )
        axis.spines[["top", "right", "left", "bottom"]].set_visible(False)
        axis.tick_params(length=0, labelcolor=INK)
        axis.set_xticks([])
    figure.suptitle(
        "messages/s of 1 KB; two cores, the server on them, too; x = times the best by the SDK",
        x=0.01,
        ha="left",
        fontsize=11,
        color=INK,
    )
    figure.tight_layout()
    figure.savefig(to, dpi=130)
