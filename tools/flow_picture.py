"""Draw the way of a message, for the first page: `python tools/flow_picture.py docs/flow.png`.

Plain shapes on white: it reads on light and on dark pages, and as a PNG in the package index, too.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

INK, FILL, SOFT, WARN = "#24292f", "#eaf2fb", "#f6f8fa", "#b35900"


class Box(NamedTuple):
    """A step: the middle of its box, its name, and what it says below that."""

    x: float
    y: float
    name: str
    says: str
    fill: str = FILL


QUEUE = Box(10, 26, "queue", "orders")
LEASES = Box(36.5, 26, "leases", "visible to no other\nconsumer, renewed")
BATCH = Box(63.5, 26, "micro-batch", "your query:\njoin, aggregate, …")
TABLE = Box(90, 26, "table", "Delta, Parquet, …")
LOG = Box(36.5, 6, "write-ahead log", "the same batch\nafter a crash", SOFT)
POISON = Box(63.5, 6, "poison queue", "orders-poison, and\nback after the fix", SOFT)
_WIDTH, _HEIGHT = 19, 11


def draw(to: Path) -> None:
    """Write the picture, as PNG or SVG by its name."""
    figure, axes = pyplot.subplots(figsize=(10, 4.2))
    axes.set_xlim(0, 100)
    axes.set_ylim(0, 42)
    axes.axis("off")
    for box in (QUEUE, LEASES, BATCH, TABLE, LOG, POISON):
        _box(axes, box)
    _across(axes, QUEUE, LEASES, "lease")
    _across(axes, LEASES, BATCH, "rows")
    _across(axes, BATCH, TABLE, "commit")
    _down(axes, LEASES)
    _down(axes, BATCH, WARN)
    top = QUEUE.y + _HEIGHT / 2
    _arrow(axes, (TABLE.x, top), (QUEUE.x, top), INK, "arc3,rad=0.12")
    axes.text(50, 39.5, "delete, only after the commit", **_text(11, weight="bold"))
    figure.savefig(to, dpi=150, facecolor="white", bbox_inches="tight", pad_inches=0.1)
    pyplot.close(figure)


def _box(axes: Axes, box: Box) -> None:
    left, bottom = box.x - _WIDTH / 2, box.y - _HEIGHT / 2
    shape = FancyBboxPatch(
        (left, bottom),
        _WIDTH,
        _HEIGHT,
        boxstyle="round,pad=0,rounding_size=1",
        facecolor=box.fill,
        edgecolor=INK,
        linewidth=1.2,
    )
    axes.add_patch(shape)
    axes.text(box.x, box.y + 3.2, box.name, **_text(11, weight="bold"))
    axes.text(box.x, box.y - 1.6, box.says, **_text(9))


def _across(axes: Axes, one: Box, other: Box, says: str) -> None:
    _arrow(axes, (one.x + _WIDTH / 2, one.y), (other.x - _WIDTH / 2, other.y), INK)
    axes.text((one.x + other.x) / 2, one.y + 2, says, **_text(8.5))


def _down(axes: Axes, box: Box, colour: str = INK) -> None:
    bottom = box.y - _HEIGHT / 2
    _arrow(axes, (box.x, bottom), (box.x, LOG.y + _HEIGHT / 2), colour, dashed=True)


def _arrow(
    axes: Axes,
    start: tuple[float, float],
    end: tuple[float, float],
    colour: str,
    style: str = "arc3",
    *,
    dashed: bool = False,
) -> None:
    arrow = FancyArrowPatch(
        start,
        end,
        connectionstyle=style,
        arrowstyle="-|>",
        mutation_scale=14,
        color=colour,
        linewidth=1.4,
        linestyle="--" if dashed else "-",
        shrinkA=1,
        shrinkB=1,
    )
    axes.add_patch(arrow)


def _text(size: float, **more: str) -> dict[str, object]:
    return {"ha": "center", "va": "center", "fontsize": size, "color": INK, **more}


if __name__ == "__main__":
    draw(Path(sys.argv[1]))
