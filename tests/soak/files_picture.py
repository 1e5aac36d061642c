"""The picture of a run of files_run.py: files arrived and read, over time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

# Colours that those see apart, too, who see no red or no green.
_ARRIVED, _READ, _NO_EVENT, _BROKEN = "#33415c", "#0072b2", "#e69f00", "#000000"


def draw(told: dict[str, Any], picture: Path) -> None:
    """Draw what `run` told: both lines with the kills; below, what came late or is broken."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    figure, (axes, below) = plt.subplots(
        2, 1, figsize=(9, 5), dpi=130, layout="constrained", sharex=True, height_ratios=(4, 1.1)
    )
    _lines(axes, told)
    _rows(below, told)
    axes.yaxis.set_major_formatter(mpl.ticker.StrMethodFormatter("{x:,.0f}"))
    for each in (axes, below):
        for side in ("top", "right"):
            each.spines[side].set_visible(False)
    figure.savefig(picture)


def _lines(axes: Any, told: dict[str, Any]) -> None:
    arrived, kills = sorted(told["arrived"]), told["kills"]
    times, counts = zip(*told["reads"], strict=True)
    axes.axvspan(*told["outage"], color="#dfe3ec", label="one of two containers is lost")
    for number, at in enumerate(kills):
        label = None if number else "the job is killed"
        axes.axvline(at, color="#888888", linewidth=0.9, linestyle=":", label=label)
    axes.step([0, *arrived], range(len(arrived) + 1), "--", where="post", color=_ARRIVED)
    axes.lines[-1].set_label("files arrived")
    axes.step(
        times, counts, where="post", color=_READ, linewidth=2.2, label="files read, each once"
    )
    last = max(told["read_at"].values())
    axes.annotate(
        "the last had no event:\na later listing finds them",
        xy=(last, counts[-1]),
        # Left of the curve, which rises to here, and right of the files that arrive.
        xytext=(last * 0.62, counts[-1] * 0.92),
        ha="center",
        va="center",
        fontsize=9,
        backgroundcolor="white",
        arrowprops={"arrowstyle": "->", "color": "#555555"},
    )
    axes.set(ylabel="files", xlim=(0, None), ylim=(0, None))
    title = (
        f"{len(arrived):,} files, {len(kills)} kills. Between the lines: the job is starting again"
    )
    axes.set_title(title, loc="left", fontsize=11)
    axes.grid(color="#eceef2")
    axes.legend(loc="lower right", edgecolor="none", framealpha=1)


def _rows(axes: Any, told: dict[str, Any]) -> None:
    kinds, arrived = told["kinds"], told["arrived"]
    read = {int(number): at for number, at in told["read_at"].items()}
    rows = [
        ("late event, read", [read[each] for each in kinds["late"] if each in read], _READ),
        ("no event, read", [read[each] for each in kinds["lost"] if each in read], _NO_EVENT),
        ("broken, arrived", [arrived[each] for each in kinds["broken"]], _BROKEN),
    ]
    for row, (_, at, colour) in enumerate(rows):
        axes.eventplot(at, lineoffsets=-row, linelengths=0.7, colors=colour, linewidths=0.9)
    axes.set(
        yticks=[-row for row in range(len(rows))],
        yticklabels=[f"{name}: {len(at):,}" for name, at, _ in rows],
        xlabel="seconds",
    )
