"""The alerts and the dashboard in conf/ ask for metrics that exist, by labels that they have."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from site_pages import REPOSITORY

pytest.importorskip("prometheus_client")

from progress_events import LOG, REPORT, ended, source, started, went_on
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from spark_azqueue.metrics.listener import AzQueueListener
from spark_azqueue.metrics.prometheus import export_to_prometheus
from spark_azqueue.metrics.report import TransactionReport
from spark_azqueue.metrics.watched import Watched

CONF = REPOSITORY / "conf"
RULES = yaml.safe_load((CONF / "alerts.rules.yml").read_text(encoding="utf-8"))
DASHBOARD = json.loads((CONF / "grafana-dashboard.json").read_text(encoding="utf-8"))
WHERE = os.pathsep.join([os.environ.get("PATH", ""), str(REPOSITORY / ".promtool")])


def alerts() -> list[dict]:
    return [rule for group in RULES["groups"] for rule in group["rules"]]


def panels() -> list[dict]:
    """Those of open rows, and those within a row that opens on demand."""
    every = [each for panel in DASHBOARD["panels"] for each in (panel, *panel.get("panels", []))]
    return [panel for panel in every if panel["type"] != "row"]


def expressions() -> list[tuple[str, str]]:
    """Where an expression is, and the expression."""
    return list(_expressions())


def _expressions() -> Iterator[tuple[str, str]]:
    for alert in alerts():
        yield alert["alert"], alert["expr"]
    for panel in panels():
        for target in panel["targets"]:
            yield f"{panel['title']} {target['refId']}", target["expr"]


def exported() -> dict[str, set[str]]:
    """The names of all series that a full report gives, with their labels."""
    transaction = TransactionReport(20, 0, 1, 0, 0.5)
    watched = Watched(answers={"orders": 1}, backlog={"orders": 40}, visible={"orders": 3})
    listener = AzQueueListener(
        transactions=lambda _: transaction, watch=lambda: {"orders": watched}
    )
    registry = CollectorRegistry()
    export_to_prometheus(listener, registry)
    report = REPORT | {"log": LOG, "poison": {"orders-poison": 1}, "expires": 1_795_255_300}
    report |= {
        "heads": {"orders": 9},
        "deliveredByQueue": {"orders": 5},
        "requests": {"dequeue": 3},
        "latencies": {"delivery": [900, 1], "commit": [900, 1], "dequeue": [5, 1]},
    }
    started(listener)
    went_on(listener, sources=[source(latestOffset=report)], sink={"numOutputRows": 5})
    families = text_string_to_metric_families(generate_latest(registry).decode())
    return {sample.name: set(sample.labels) for family in families for sample in family.samples}


SERIES = exported()


@pytest.mark.parametrize(("place", "expr"), expressions())
def test_the_metrics_of_an_expression_exist(place: str, expr: str) -> None:
    names = re.findall(r"\bazqueue_\w+", expr)

    assert names
    assert set(names) <= SERIES.keys()
    assert expr.count("(") == expr.count(")")
    assert expr.count("[") == expr.count("]")


@pytest.mark.parametrize(("place", "expr"), expressions())
def test_a_counter_is_asked_for_its_rate_and_a_gauge_is_not(place: str, expr: str) -> None:
    counters = set(re.findall(r"(?:rate|increase)\((azqueue_\w+)", expr))

    kinds = ("_total", "_bucket", "_count")
    assert {name for name in re.findall(r"azqueue_\w+", expr) if name.endswith(kinds)} == counters


@pytest.mark.parametrize("alert", alerts(), ids=lambda alert: alert["alert"])
def test_an_alert_says_what_to_do_with_labels_that_exist(alert: dict) -> None:
    texts = alert["annotations"]
    labels = set(re.findall(r"\$labels\.(\w+)", " ".join(texts.values())))
    (name, *_) = re.findall(r"azqueue_\w+", alert["expr"])

    assert alert["labels"]["severity"] in ("warning", "critical")
    assert labels
    assert labels <= SERIES[name]
    page = texts["runbook_url"].removeprefix("https://example.com/spark-azqueue/")
    assert f"`{alert['alert'].removeprefix('Azqueue')}`" in (REPOSITORY / page).read_text()
    assert texts["description"]


def test_an_alert_keeps_its_name() -> None:
    """Routes and silences of its users name it: docs/versions.md."""
    released = (
        "QueryEnded QueryFails QueryFailsWithoutProgress QueryRestarts ProcessGone NoProgress"
        " Poison MessagesExpire OldestMessage QueueNotRead ManyRequests BacklogGrows Throttled"
        " DeletesGivenUp LeasesLost DeletesRefused AgeP99 QueueUnknown"
    )

    assert {f"Azqueue{name}" for name in released.split()} <= {each["alert"] for each in alerts()}


def test_the_tests_of_the_alerts_name_alerts_and_metrics_that_exist() -> None:
    tests = yaml.safe_load((CONF / "alerts.tests.yml").read_text(encoding="utf-8"))
    assert [(CONF / name).is_file() for name in tests["rule_files"]] == [True]
    for test in tests["tests"]:
        named = {each["alertname"] for each in test["alert_rule_test"]}
        series = " ".join(each["series"] for each in test["input_series"])

        assert named <= {alert["alert"] for alert in alerts()}
        assert set(re.findall(r"azqueue_\w+", series)) <= SERIES.keys()


@pytest.fixture
def promtool() -> str:
    """The path of promtool. A build server that can get it has to have it."""
    found = shutil.which("promtool", path=WHERE)
    if found is None:
        text = "promtool is missing: make promtool, or install Debian's package prometheus"
        if os.environ.get("CI") and shutil.which("apt-get"):
            pytest.fail(text)
        pytest.skip(text)
    return found


def test_the_alerts_pass_their_tests(promtool: str) -> None:
    tests = str(CONF / "alerts.tests.yml")
    ran = subprocess.run(
        [promtool, "test", "rules", tests], capture_output=True, text=True, timeout=300
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_prometheus_can_read_the_expressions_of_the_dashboard(
    promtool: str, tmp_path: Path
) -> None:
    given = {"$query": ".*", "$__range": "3h", "$__rate_interval": "1m", "$price": "0.004"}
    rules = []
    for number, (_, expr) in enumerate(expressions()):
        for name, value in given.items():
            expr = expr.replace(name, value)
        rules.append({"record": f"panel_{number}", "expr": expr})
    file = tmp_path / "rules.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    ran = subprocess.run(
        [promtool, "check", "rules", str(file)], capture_output=True, text=True, timeout=60
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_every_alert_has_a_test_in_which_it_fires() -> None:
    tests = yaml.safe_load((CONF / "alerts.tests.yml").read_text(encoding="utf-8"))["tests"]
    fires = {
        each["alertname"]
        for test in tests
        for each in test["alert_rule_test"]
        if each["exp_alerts"]
    }

    assert fires == {alert["alert"] for alert in alerts()}


@pytest.mark.parametrize("panel", panels(), ids=lambda panel: panel["title"])
def test_a_panel_names_its_series_by_labels_that_exist_and_says_what_it_shows(panel: dict) -> None:
    assert panel["description"]
    for target in panel["targets"]:
        name = re.findall(r"azqueue_\w+", target["expr"])[0]
        assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= SERIES[name]
        assert 'query=~"$query"' in target["expr"]


@pytest.mark.parametrize("panel", panels(), ids=lambda panel: panel["title"])
def test_a_panel_without_data_says_why(panel: dict) -> None:
    assert len(panel["fieldConfig"]["defaults"]["noValue"]) > 10


BEFORE_THE_FIRST_BATCH = (
    *("Running", "Last progress", "Poison messages", "Oldest message", "First expiry", "Backlog"),
    *("Failures, in an hour", "Starts again, in an hour", "Messages per second", "Age and expiry"),
    *("Poison", "To do", "Messages per second, by queue", "Age of the first message, by queue"),
    *("Bytes per second", "Failed requests per second", "Trouble, in ten minutes"),
)
"""What is known of a watched query although its first batch fails."""


def test_a_query_whose_first_batch_fails_is_in_the_panels() -> None:
    seen = Watched(
        *({"orders": 1}, {"orders": 40}, {"orders-poison": 3}, {"orders": 3}),
        heads={"orders": 90},
        expires={"orders": 500},
    )
    listener = AzQueueListener(watch=lambda: {"orders": seen})
    registry = CollectorRegistry()
    export_to_prometheus(listener, registry)
    started(listener)
    ended(listener, exception="the first batch failed")
    started(listener, run="the next")
    families = text_string_to_metric_families(generate_latest(registry).decode())
    there = {sample.name for family in families for sample in family.samples}
    has_data = [
        panel["title"]
        for panel in panels()
        if any(set(re.findall(r"\bazqueue_\w+", t["expr"])) & there for t in panel["targets"])
    ]

    assert set(BEFORE_THE_FIRST_BATCH) <= set(has_data)


@pytest.mark.parametrize(
    "panel",
    [panel for panel in panels() if panel["type"] == "stat"],
    ids=lambda panel: panel["title"],
)
def test_a_single_figure_is_of_now_and_not_the_last_of_the_time_shown(panel: dict) -> None:
    assert [(each["instant"], each["range"]) for each in panel["targets"]] == [
        (True, False) for _ in panel["targets"]
    ]


def test_the_panels_do_not_overlap_and_fill_the_width() -> None:
    for rows in [DASHBOARD["panels"], *(row["panels"] for row in closed_rows())]:
        check_places(rows, top=min(each["gridPos"]["y"] for each in rows))


def closed_rows() -> list[dict]:
    return [panel for panel in DASHBOARD["panels"] if panel.get("collapsed")]


def check_places(rows: list[dict], top: int) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in rows:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken
        taken |= cells
    bottom = 1 + max(y for _, y in taken)

    assert taken == {(x, y) for x in range(24) for y in range(top, bottom)}


def test_one_screen_answers_and_the_rest_opens_on_demand() -> None:
    """A screen of 1,350 x 900 has 23 rows of Grafana's grid (38 px each)."""
    titles = [panel["title"] for panel in DASHBOARD["panels"]]
    first_closed = min(row["gridPos"]["y"] for row in closed_rows())

    assert titles[0] == "Is it well?"
    assert first_closed <= 23
    assert all(
        panel.get("collapsed")
        for panel in DASHBOARD["panels"]
        if panel["gridPos"]["y"] >= first_closed
    )


@pytest.mark.parametrize("panel", panels(), ids=lambda panel: panel["title"])
def test_a_legend_names_the_query_alone_or_not_at_all(panel: dict) -> None:
    legends = [target["legendFormat"] for target in panel["targets"]]

    assert len(set(legends)) == len(legends)
    assert all(legend == "{{query}}" or "{{query}}" not in legend for legend in legends)
    assert len(legends) == 1 or "{{query}}" not in legends


def test_what_an_operator_must_know_has_an_alert_and_a_panel() -> None:
    asked = {name for alert in alerts() for name in re.findall(r"azqueue_\w+", alert["expr"])}
    shown = {
        name
        for panel in panels()
        for target in panel["targets"]
        for name in re.findall(r"azqueue_\w+", target["expr"])
    }

    needed = {
        "azqueue_query_active",
        "azqueue_query_failures_total",
        "azqueue_query_started_timestamp_seconds",
        "azqueue_last_progress_timestamp_seconds",
        "azqueue_poison_queue_messages",
        "azqueue_message_expiry_seconds",
        "azqueue_deletes_given_up_total",
        "azqueue_queue_head_age_seconds",
        "azqueue_requests_total",
        "azqueue_throttled_total",
        "azqueue_commit_age_seconds_bucket",
    }
    assert needed <= asked
    sink = {
        "azqueue_batch_sink_rows",
        "azqueue_transaction_prepared_messages",
        "azqueue_log_pending_deletes",
    }
    assert needed | sink <= shown
