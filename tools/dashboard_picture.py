"""Draw the open rows of conf/grafana-dashboard.json from what a Prometheus has, as Grafana would.

    python tools/dashboard_picture.py http://127.0.0.1:9090 [--minutes 30] [--to docs/dashboard.png]

Evaluates each panel's expressions: those of a single figure at the end of the time shown, the
others over it. Prints the panels for which Prometheus has nothing. Needs matplotlib.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import textwrap
import time
import urllib.parse
import urllib.request
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.dates import DateFormatter, MinuteLocator
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter

REPOSITORY = Path(__file__).resolve().parent.parent
DASHBOARD = REPOSITORY / "conf" / "grafana-dashboard.json"
COLUMNS, ROW_INCHES, WIDTH_INCHES = 24, 0.42, 18.0
LONGEST_TABLE = 14
COLORS = {"green": "#56a64b", "orange": "#ff780a", "red": "#e02f44"}
LINES = ["#1f60c4", "#ff780a", "#56a64b", "#e02f44", "#8f3bb8", "#e0b400", "#3aa6b9", "#7c4a2d"]


class Line(NamedTuple):
    """One series of a panel: its legend, and its values by time."""

    legend: str
    times: list[float]
    values: list[float]


class Span(NamedTuple):
    """The time shown, in unix seconds."""

    start: float
    end: float

    @property
    def step(self) -> int:
        """Seconds from one point to the next."""
        return max(5, int((self.end - self.start) / 400))


def filled(text: str, variables: dict[str, str], span: Span) -> str:
    """An expression with Grafana's variables put in."""
    values = variables | {
        "__range": f"{int(span.end - span.start)}s",
        "__rate_interval": f"{max(60, 4 * span.step)}s",
    }
    return re.sub(r"\$(\w+)", lambda found: values[found[1]], text)


def variables_of(dashboard: dict[str, Any]) -> dict[str, str]:
    """What each variable is at first: of a query all values."""
    found = {}
    for each in dashboard["templating"]["list"]:
        every = each.get("allValue")
        found[each["name"]] = every or str(each.get("current", {}).get("value", each["query"]))
    return found


def lines_of(url: str, panel: dict[str, Any], variables: dict[str, str], span: Span) -> list[Line]:
    """All series of a panel. Raises OSError if Prometheus cannot be asked or refuses."""
    found = []
    for target in panel["targets"]:
        question = {"query": filled(target["expr"], variables, span)}
        if target.get("instant"):
            answer = _ask(url, "query", question | {"time": str(span.end)})
        else:
            times = {"start": str(span.start), "end": str(span.end), "step": str(span.step)}
            answer = _ask(url, "query_range", question | times)
        for series in answer:
            points = series.get("values") or [series["value"]]
            legend = re.sub(
                r"{{(\w+)}}",
                lambda name, labels=series["metric"]: labels.get(name[1], ""),
                target["legendFormat"],
            )
            found.append(
                Line(legend, [at for at, _ in points], [float(each) for _, each in points])
            )
    return found


def _ask(url: str, kind: str, question: dict[str, str]) -> list[dict[str, Any]]:
    address = f"{url.rstrip('/')}/api/v1/{kind}?{urllib.parse.urlencode(question)}"
    with urllib.request.urlopen(address, timeout=60) as answer:  # noqa: S310 (main checks it)
        return json.load(answer)["data"]["result"]


def shown(value: float, unit: str, decimals: int | None = None) -> str:
    """A value with its unit, as Grafana shows it: three digits, unless the panel says how many."""
    if unit == "s":
        for seconds, name in ((86400, "days"), (3600, "hours"), (60, "mins"), (1, "s")):
            if abs(value) >= seconds:
                return f"{_short(value / seconds, decimals)} {name}"
        return f"{_short(value * 1000, decimals)} ms" if value else "0 s"
    after = {"Bps": "B/s", "bytes": "B", "ops": " ops/s", "reqps": " req/s"}.get(unit, "")
    size = 1024 if unit == "bytes" else 1000
    names = ["", " K", " M", " G"] if size == 1000 else ["", " Ki", " Mi", " Gi"]
    place = 0
    while abs(value) >= size and place < len(names) - 1:
        value, place = value / size, place + 1
    return f"{_short(value, decimals)}{names[place]}{after}"


def _short(value: float, decimals: int | None) -> str:
    return f"{value:.3g}" if decimals is None else f"{value:.{decimals}f}"


def draw_stat(axes: Axes, panel: dict[str, Any], lines: list[Line]) -> None:
    """The newest value of each series, on the colour of its threshold."""
    look = panel["fieldConfig"]["defaults"]
    texts = look["mappings"][0]["options"] if look["mappings"] else {}
    high = 1 / len(lines)
    for place, line in enumerate(lines):
        value, top = line.values[-1], 1 - place * high
        steps = [
            step
            for step in look["thresholds"]["steps"]
            if step["value"] is None or value >= step["value"]
        ]
        axes.axhspan(top - high, top, color=COLORS[steps[-1]["color"]])
        text = texts.get(f"{value:g}", {}).get("text")
        figure = text or shown(value, look["unit"], look.get("decimals"))
        style: dict[str, Any] = {"va": "center", "color": "white"}
        middle = top - high / 2
        axes.text(0.04, middle, line.legend, fontsize=9, **style)
        axes.text(0.96, middle, figure, fontsize=14 if len(lines) < 4 else 10, ha="right", **style)
        if place:
            axes.axhline(top, color="white", linewidth=2)
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    axes.axis("off")


def draw_lines(axes: Axes, panel: dict[str, Any], lines: list[Line], span: Span) -> None:
    """Values over time. A series that was not there for two steps is not joined."""
    look = panel["fieldConfig"]["defaults"]
    for place, line in enumerate(lines):
        times: list[datetime] = []
        values: list[float] = []
        for at, value in zip(line.times, line.values, strict=True):
            if times and at - times[-1].timestamp() > 1.5 * span.step:
                times.append(times[-1])
                values.append(float("nan"))
            times.append(datetime.fromtimestamp(at, timezone.utc))
            values.append(value)
        axes.plot(times, values, color=LINES[place % len(LINES)], linewidth=1.4, label=line.legend)
    if look["custom"]["scaleDistribution"]["type"] == "log":
        axes.set_yscale("log")
    elif "min" in look:
        axes.set_ylim(look["min"], max(1e-9, axes.get_ylim()[1]))
    axes.set_xlim(*(datetime.fromtimestamp(at, timezone.utc) for at in span))
    minutes = max(1, round((span.end - span.start) / 60 / 6))
    axes.xaxis.set_major_locator(MinuteLocator(range(0, 60, minutes)))
    axes.xaxis.set_major_formatter(DateFormatter("%H:%M"))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: shown(value, look["unit"])))
    axes.tick_params(labelsize=9, length=0)
    axes.tick_params(axis="x", length=4, color="#6e7681")
    axes.grid(color="#e4e7e7", linewidth=0.6)
    axes.spines[:].set_visible(False)
    style: dict[str, Any] = {"fontsize": 9, "frameon": False, "borderpad": 0, "handlelength": 1}
    if has_table(panel):
        drawn = sorted(axes.lines, key=lambda each: each.get_ydata()[-1], reverse=True)
        names = [
            f"{shown(each.get_ydata()[-1], look['unit'])}  {each.get_label()}" for each in drawn
        ]
        axes.legend(
            drawn[:LONGEST_TABLE], names, loc="upper left", bbox_to_anchor=(1.01, 1.0), **style
        )
    else:
        axes.legend(ncols=3, loc="upper left", bbox_to_anchor=(-0.02, -0.1), **style)


def has_table(panel: dict[str, Any]) -> bool:
    """True if the legend is a table on the right, with the greatest values first."""
    return bool(panel["options"]["legend"]["placement"] == "right")


class Size:
    """The picture's size, and where its panels are in it."""

    def __init__(self, panels: list[dict[str, Any]]) -> None:
        bottom = max(each["gridPos"]["y"] + each["gridPos"]["h"] for each in panels)
        self.inches = (WIDTH_INCHES, bottom * ROW_INCHES)
        self.tenth = 0.1 / self.inches[1]

    def box(
        self, panel: dict[str, Any], left: float, top: float, right: float, low: float
    ) -> tuple[float, float, float, float]:
        """A panel without these margins (inches): x, y, width, height, as parts of the picture."""
        place, (wide, high) = panel["gridPos"], self.inches
        x = place["x"] * wide / COLUMNS + left
        width = place["w"] * wide / COLUMNS - left - right
        height = place["h"] * ROW_INCHES - top - low
        y = high - place["y"] * ROW_INCHES - top - height
        return x / wide, y / high, width / wide, height / high


def draw(url: str, span: Span, to: Path, query: str | None = None) -> list[str]:
    """Draw the panels of open rows. Returns the titles of those without data. Raises OSError.

    query: only of this one.
    """
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    variables = variables_of(dashboard) | ({"query": query} if query else {})
    opened = [panel for panel in dashboard["panels"] if not panel.get("collapsed")]
    size = Size(opened)
    figure = pyplot.figure(figsize=size.inches, facecolor="#f4f5f5")
    empty = []
    for panel in opened:
        x, y, width, height = size.box(panel, 0.05, 0.05, 0.05, 0.05)
        middle = y + height / 2
        title = filled(panel["title"], variables, span)
        if panel["type"] == "row":
            figure.text(x, middle, title, fontsize=13, weight="bold", va="center")
            continue
        figure.add_artist(
            Rectangle((x, y), width, height, facecolor="white", edgecolor="#dcdfe3", zorder=-1)
        )
        figure.text(x + 0.005, y + height - size.tenth, title, fontsize=10, va="top")
        lines = lines_of(url, panel, variables, span)
        if not lines:
            empty.append(title)
            why = panel["fieldConfig"]["defaults"].get("noValue", "No data")
            why = textwrap.fill(why, panel["gridPos"]["w"] * 6)
            figure.text(x + width / 2, middle, why, ha="center", fontsize=9, color="#6e7681")
        elif panel["type"] == "stat":
            draw_stat(figure.add_axes(size.box(panel, 0.12, 0.4, 0.12, 0.12)), panel, lines)
        else:
            low, right = (0.4, 1.9) if has_table(panel) else (0.5 + 0.17 * -(-len(lines) // 3), 0.2)
            draw_lines(figure.add_axes(size.box(panel, 0.8, 0.45, right, low)), panel, lines, span)
    figure.savefig(to, dpi=75)
    pyplot.close(figure)
    return empty


def main() -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(description="Draw the dashboard from a Prometheus.")
    parser.add_argument("url", help="where Prometheus answers, such as http://127.0.0.1:9090")
    parser.add_argument("--minutes", type=float, default=30, help="the time shown (%(default)s)")
    parser.add_argument("--to", type=Path, default=REPOSITORY / "docs" / "dashboard.png")
    parser.add_argument("--query", help="the name of the only query to show (default: all)")
    arguments = parser.parse_args()
    if not arguments.url.startswith(("http://", "https://")):
        parser.error(f"{arguments.url!r} is no address of a Prometheus: http://127.0.0.1:9090")
    now = time.time()
    try:
        empty = draw(
            arguments.url, Span(now - 60 * arguments.minutes, now), arguments.to, arguments.query
        )
    except OSError as error:
        print(f"Prometheus at {arguments.url} gave no answer: {error}", file=sys.stderr)
        return 1
    print(f"{arguments.to} is drawn. No data for: {', '.join(empty) or 'none'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
