"""Draws the section `packed`: rows per second, and requests for 1,000 rows."""

from __future__ import annotations

from pathlib import Path

from figures import Saw, by, cpu_ms, median_of, rate
from matplotlib import pyplot
from packed_section import requests_for_1000
from plot import HAND, INK, OURS, columns_beside

MODES = {"plain": "one row in a message", "json": "pack, json", "arrow": "pack, arrow"}
PANELS = {
    ("write", 0): "written",
    ("read", 0): "read into Parquet",
    ("read", 2_000): "read, from a queue held to 2,000 requests a second",
}
NOTE = (
    "Rows of 800 bytes, 10 ms to the server, two cores for everything, medians of the rounds in"
    " results.json."
)


def draw(saw: Saw, to: Path) -> None:
    """A panel for each way. saw: the results of the section."""
    groups = by(saw["rounds"], "phase", "limit", "name")
    figure, panels = pyplot.subplots(
        len(PANELS), 1, figsize=(9, 1.7 * len(PANELS) + 1.2), sharex=True, layout="constrained"
    )
    for axes, ((phase, limit), title) in zip(panels, PANELS.items(), strict=True):
        names = [name for name in MODES if (phase, limit, name) in groups]
        rounds = [groups[phase, limit, name] for name in names]
        rates = [median_of(each, rate) for each in rounds]
        labels = [(f"{speed:,.0f}", f"{speed / rates[0]:.1f} x") for speed in rates]
        costs = [
            f"{median_of(each, cpu_ms):.3f} ms of CPU,"
            f" {median_of(each, requests_for_1000) / 1000:.3f} requests"
            for each in rounds
        ]
        colors = [HAND if name == "plain" else OURS for name in names]
        axes.barh(range(len(names)), rates, color=colors, height=0.66)
        columns_beside(axes, labels)
        names_and_costs = [
            f"{MODES[name]}\n{cost}" for name, cost in zip(names, costs, strict=True)
        ]
        axes.set_yticks(range(len(names)), names_and_costs, fontsize=9)
        axes.set_ylim(len(names) - 0.4, -0.6)
        axes.set_title(title, loc="left", fontsize=10, color=INK)
        axes.spines[["top", "right", "bottom"]].set_visible(False)
        axes.spines["left"].set_color(HAND)
        axes.tick_params(length=0, labelcolor=INK)
        axes.xaxis.set_major_formatter("{x:,.0f}")
    arrow, plain = (groups["read", 0, name] for name in ("arrow", "plain"))
    figure.suptitle(
        f"Packed, {median_of(arrow, rate):,.0f} rows a second come out of one queue in place of"
        f" {median_of(plain, rate):,.0f}",
        x=0.01,
        ha="left",
        fontsize=11,
        color=INK,
    )
    figure.supxlabel(
        f"Rows per second; CPU and requests are those of a row. {NOTE}",
        x=0.01,
        ha="left",
        fontsize=8,
        color=INK,
    )
    figure.savefig(to, dpi=130, bbox_inches="tight", pad_inches=0.2)
    pyplot.close(figure)
