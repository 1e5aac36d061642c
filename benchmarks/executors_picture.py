"""Draws the section `executors`: CPU beside the driver, and messages per second, for each mode."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from figures import Saw, by, cpu_ms, median_of, rate
from matplotlib import pyplot
from matplotlib.axes import Axes
from plot import HAND, INK, OURS

DRIVER = ("source", "jvm", "driver")
MODES = {
    "driver": "leaseOn=driver, no log",
    "log": "leaseOn=driver, log",
    "union": "union of two loads, log",
    "executors": "leaseOn=executors",
}
ROWS = {
    ("ours-cluster", "1 KB", 0.01, False): "1 KB, noop",
    ("ours-cluster", "1 KB", 0.01, True): "1 KB, noop, TLS",
    ("ours-parquet-cluster", "1 KB", 0.01, False): "1 KB, Parquet",
    ("ours-cluster", "48 KB", 0.01, False): "48 KB, noop",
    ("ours-parquet-cluster", "48 KB", 0.01, False): "48 KB, Parquet",
}
NOTE = (
    "10 ms to the server, four full queues, two cores for everything, medians of the rounds in"
    " results.json. Each panel has a scale of its own."
)


def draw(saw: Saw, to: Path) -> None:
    """A row for each kind of work. saw: the results of the section."""
    groups = by(saw["rounds"], "name", "size", "latency_s", "tls", "mode")
    figure, grid = pyplot.subplots(
        len(ROWS), 2, figsize=(11, 1.45 * len(ROWS) + 1), layout="constrained"
    )
    for (cpu, speed), (key, title) in zip(grid, ROWS.items(), strict=True):
        rounds = {mode: groups[(*key, mode)] for mode in MODES}
        costs = [median_of(each, lambda one: cpu_ms(one, *DRIVER)) for each in rounds.values()]
        _bars(cpu, costs, [f"{cost:.3f}" for cost in costs])
        cpu.set_yticks(range(len(MODES)), list(MODES.values()), fontsize=9)
        cpu.set_title(title, loc="left", fontsize=10, color=INK)
        rates = [median_of(each, rate) for each in rounds.values()]
        log = rates[list(MODES).index("log")]
        _bars(speed, rates, [f"{each:,.0f}   {each / log:.1f} x" for each in rates])
        speed.set_yticks([])
    look: dict[str, Any] = {"loc": "left", "fontsize": 10, "color": INK}
    first = ROWS[next(iter(ROWS))]
    grid[0][0].set_title(f"CPU ms per message on the driver\n{first}", **look)
    grid[0][1].set_title("messages per second; x: times the log on the driver\n", **look)
    figure.supxlabel(NOTE, x=0.01, ha="left", fontsize=8, color=INK)
    figure.savefig(to, dpi=130)
    pyplot.close(figure)


def _bars(axes: Axes, values: list[float], labels: list[str]) -> None:
    places = range(len(values))
    colors = [OURS if mode == "executors" else HAND for mode in MODES]
    axes.barh(places, values, color=colors, height=0.66)
    beside: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "va": "center"}
    for place, label in zip(places, labels, strict=True):
        axes.text(1.02, place, label, fontsize=9, color=INK, **beside)
    axes.set_ylim(len(values) - 0.4, -0.6)
    axes.set_xlim(0, None)
    axes.set_xticks([])
    axes.spines[["top", "right", "bottom"]].set_visible(False)
    axes.spines["left"].set_color(HAND)
    axes.tick_params(length=0, labelcolor=INK)
