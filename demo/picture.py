"""The picture: how many messages the queue held, and how fast they came and went."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes

_BIN_S = 2.0
_INK = "#33415c"
_QUEUE = "#5b8bd0"
_SENT = "#e08e45"
_RECEIVED = "#3a9d7a"


@dataclass(frozen=True)
class Sample:
    """One look: seconds since the start, messages sent and received by then, and held."""

    at: float
    sent: int
    received: int
    held: int


def draw(samples: Sequence[Sample], path: Path, title: str, subtitle: str) -> None:
    """Draw backlog and throughput over time into a PNG."""
    with plt.rc_context({"font.size": 10, "text.color": _INK, "axes.labelcolor": _INK}):
        figure, (backlog, rates) = plt.subplots(
            2, 1, figsize=(9, 5.6), dpi=130, sharex=True, height_ratios=(1, 1)
        )
        figure.text(0.065, 0.955, title, size=14, weight="bold")
        figure.text(0.065, 0.915, subtitle, size=10, alpha=0.75)
        figure.subplots_adjust(left=0.065, right=0.98, top=0.85, bottom=0.09, hspace=0.28)
        _draw_backlog(backlog, samples)
        _draw_rates(rates, samples)
        for axes in (backlog, rates):
            _tidy(axes)
        figure.savefig(path)
        plt.close(figure)


def _draw_backlog(axes: Axes, samples: Sequence[Sample]) -> None:
    at = [sample.at for sample in samples]
    held = [sample.held for sample in samples]
    axes.fill_between(at, held, color=_QUEUE, alpha=0.28, linewidth=0)
    axes.plot(at, held, color=_QUEUE, linewidth=1.6)
    axes.set_title("messages in the queue (waiting, delayed, or leased)", loc="left", size=10)


def _draw_rates(axes: Axes, samples: Sequence[Sample]) -> None:
    edges = [_BIN_S * number for number in range(int(samples[-1].at / _BIN_S) + 2)]
    middles = [edge + _BIN_S / 2 for edge in edges[:-1]]
    sent = _per_second(samples, [sample.sent for sample in samples], edges)
    received = _per_second(samples, [sample.received for sample in samples], edges)
    axes.bar(middles, received, _BIN_S * 0.86, color=_RECEIVED, alpha=0.75, label="received")
    axes.plot(middles, sent, color=_SENT, linewidth=1.8, marker="o", markersize=3.5, label="sent")
    axes.set_title("messages per second", loc="left", size=10)
    axes.set_xlabel("seconds")
    axes.legend(loc="lower right", bbox_to_anchor=(1, 0.98), frameon=False, ncols=2)


def _per_second(
    samples: Sequence[Sample], totals: Sequence[int], edges: Sequence[float]
) -> list[float]:
    """Growth of `totals` within each bin, per second."""
    at = [sample.at for sample in samples]
    reached = [totals[max(0, bisect_right(at, edge) - 1)] for edge in edges]
    return [(after - before) / _BIN_S for before, after in pairwise(reached)]


def _tidy(axes: Axes) -> None:
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color("#c5cad3")
    axes.tick_params(colors=_INK, length=0)
    axes.grid(axis="y", color="#e7e9ee", linewidth=0.9)
    axes.set_axisbelow(True)
    axes.set_ylim(bottom=0)
    axes.margins(x=0.01)
