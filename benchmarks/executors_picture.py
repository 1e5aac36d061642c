"""Draws the section `executors`: CPU beside the driver, and messages per second, for each mode."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from figures import Saw, by, cpu_ms, median_of, rate
from matplotlib import pyplot
from matplotlib.axes import Axes
from plot import HAND, INK, OURS, columns_beside

DRIVER = ("source", "jvm", "driver")
MODES = {
    "driver": "leaseOn=driver, no log",
    "log": "leaseOn=driver, log",
    "union": "union of two loads, log",
    "executors": "leaseOn=executors",
}
SIZES = {
    "1 KB": {
        ("ours-cluster", "1 KB", 0.01, False): "1 KB, noop",
        ("ours-cluster", "1 KB", 0.01, True): "1 KB, noop, TLS",
        ("ours-parquet-cluster", "1 KB", 0.01, False): "1 KB, Parquet",
    },
    "48 KB": {
        ("ours-cluster", "48 KB", 0.01, False): "48 KB, noop",
        ("ours-parquet-cluster", "48 KB", 0.01, False): "48 KB, Parquet",
    },
}
NOTE = (
    "10 ms to the server, four full queues, two cores for everything, medians of the rounds in"
    " results.json.\nEach column has one scale for messages of 1 KB and one for those of 48 KB."
)


def headline(groups: dict[Any, Saw]) -> str:
    """CPU of the driver for a message first, then the speed, of the first row."""
    row = next(iter(SIZES["1 KB"]))
    log, tasks = (groups[(*row, mode)] for mode in ("log", "executors"))
    cost = [median_of(each, lambda one: cpu_ms(one, *DRIVER)) for each in (log, tasks)]
    speed = [median_of(each, rate) for each in (log, tasks)]
    return (
        f"With leaseOn=executors a message of 1 KB costs {cost[1]:.3f} ms of CPU on the driver;"
        f" where the driver leases, and has a log, {cost[0]:.3f} ms.\n"
        f"On the same two cores a query then takes {speed[1]:,.0f} messages a second in place of"
        f" {speed[0]:,.0f}."
    )


def draw(saw: Saw, to: Path) -> None:
    """A row for each kind of work. saw: the results of the section."""
    groups = by(saw["rounds"], "name", "size", "latency_s", "tls", "mode")
    rows = sum(map(len, SIZES.values()))
    figure, grid = pyplot.subplots(rows, 2, figsize=(12, 1.5 * rows + 2), layout="constrained")
    look: dict[str, Any] = {"loc": "left", "fontsize": 10, "color": INK}
    places = iter(grid)
    for kinds in SIZES.values():
        panels = [next(places) for _ in kinds]
        for (cpu, speed), (key, title) in zip(panels, kinds.items(), strict=True):
            rounds = [groups[(*key, mode)] for mode in MODES]
            costs = [median_of(each, lambda one: cpu_ms(one, *DRIVER)) for each in rounds]
            rates = [median_of(each, rate) for each in rounds]
            log = rates[list(MODES).index("log")]
            _bars(cpu, costs, [(f"{cost:.3f}",) for cost in costs])
            _bars(speed, rates, [(f"{each:,.0f}", f"{each / log:.1f} x") for each in rates])
            cpu.set_yticks(range(len(MODES)), list(MODES.values()), fontsize=9)
            speed.set_yticks([])
            cpu.set_title(title, **look)
        _one_scale([cpu for cpu, _ in panels])
        _one_scale([speed for _, speed in panels])
    first = next(iter(SIZES["1 KB"].values()))
    grid[0][0].set_title(f"CPU ms per message on the driver\n{first}", **look)
    grid[0][1].set_title("messages per second; x: times the log on the driver\n", **look)
    figure.suptitle(headline(groups), x=0.01, ha="left", fontsize=11, color=INK)
    figure.supxlabel(NOTE, x=0.01, ha="left", fontsize=8, color=INK)
    figure.savefig(to, dpi=130, bbox_inches="tight", pad_inches=0.2)
    pyplot.close(figure)


def _one_scale(panels: list[Axes]) -> None:
    """The same scale for these panels, told by an axis below the last."""
    most = max(panel.get_xlim()[1] for panel in panels)
    for panel in panels:
        panel.set_xlim(0, most)
        panel.tick_params(axis="x", labelbottom=panel is panels[-1], labelsize=8)
    panels[-1].xaxis.set_major_formatter("{x:,.0f}" if most > 100 else "{x:g}")


def _bars(axes: Axes, values: list[float], labels: list[tuple[str, ...]]) -> None:
    colors = [OURS if mode == "executors" else HAND for mode in MODES]
    axes.barh(range(len(values)), values, color=colors, height=0.66)
    columns_beside(axes, labels)
    axes.set_ylim(len(values) - 0.4, -0.6)
    axes.spines[["top", "right", "bottom"]].set_visible(False)
    axes.spines["left"].set_color(HAND)
    axes.tick_params(length=0, labelcolor=INK)
    axes.grid(axis="x", color="#eceff3", linewidth=0.8)
    axes.set_axisbelow(True)
