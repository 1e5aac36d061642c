"""The page of metrics names every metric and every counter, and nothing else."""

import re
from pathlib import Path

from spark_azqueue.metrics.exported import METRICS
from spark_azqueue.metrics.query_metrics import QueryMetrics
from spark_azqueue.metrics.report import Counters

PAGE = Path(__file__).resolve().parents[3] / "docs" / "metrics.md"


def first_cells(title):
    """The names in the first column of the table below this title."""
    text = PAGE.read_text(encoding="utf-8").split(f"## {title}\n")[1].split("\n## ")[0]
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    return [name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])]


def test_every_figure_is_explained():
    assert sorted(first_cells("The metrics")) == sorted(QueryMetrics.meanings())


def test_every_counter_is_explained():
    assert sorted(first_cells("The counters")) == sorted(Counters.meanings())


def test_every_gauge_of_prometheus_is_named():
    named = set(re.findall(r"azqueue_\w+", PAGE.read_text(encoding="utf-8")))

    assert {metric.name for metric in METRICS if not metric.is_counter} <= named
