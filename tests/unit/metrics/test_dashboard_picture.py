"""tools/dashboard_picture.py draws every panel of the dashboard from what a Prometheus answers."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from dashboard_picture import DASHBOARD, Span, draw, filled, shown, variables_of

PANELS = [
    panel
    for panel in json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    if panel["type"] != "row"
]
"""Those of the rows that are open at first: the picture has no others."""
SPAN = Span(1_000_000.0, 1_000_600.0)


class Prometheus(BaseHTTPRequestHandler):
    """Answers each question with one series, but nothing about the time to drain."""

    asked: list[tuple[str, dict[str, list[str]]]] = []

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        question = parse_qs(address.query)
        self.asked.append((address.path, question))
        series: dict = {"metric": {"query": "orders", "queue": "orders", "operation": "put"}}
        if address.path == "/api/v1/query":
            series["value"] = [float(question["time"][0]), "1"]
        else:
            series["values"] = [[float(question["start"][0]) + 60 * n, str(n)] for n in range(9)]
        result = [] if "drain_seconds" in question["query"][0] else [series]
        body = json.dumps({"status": "success", "data": {"result": result}}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing into the output of the tests."""


@pytest.fixture
def prometheus() -> Iterator[str]:
    Prometheus.asked.clear()
    with HTTPServer(("127.0.0.1", 0), Prometheus) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_every_expression_is_asked_and_a_panel_without_data_is_named(
    prometheus: str, tmp_path: Path
) -> None:
    empty = draw(prometheus, SPAN, tmp_path / "dashboard.png")

    targets = [target for panel in PANELS for target in panel["targets"]]
    paths = ["query" if target.get("instant") else "query_range" for target in targets]
    assert [path for path, _ in Prometheus.asked] == [f"/api/v1/{each}" for each in paths]
    assert not any("$" in question["query"][0] for _, question in Prometheus.asked)
    assert empty == [
        panel["title"] for panel in PANELS if "drain_seconds" in panel["targets"][0]["expr"]
    ]
    assert (tmp_path / "dashboard.png").read_bytes().startswith(b"\x89PNG")


def test_variables_have_their_first_value() -> None:
    variables = variables_of(json.loads(DASHBOARD.read_text(encoding="utf-8")))

    assert filled('a{query=~"$query"} * $price', variables, SPAN) == 'a{query=~".*"} * 0.004'
    with pytest.raises(KeyError, match="unknown"):
        filled("$unknown", variables, SPAN)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.25, "s", "250 ms"),
        (90, "s", "1.5 mins"),
        (604_800, "s", "7 days"),
        (0, "s", "0 s"),
        (1_234, "short", "1.23 K"),
        (3_145_728, "bytes", "3 MiB"),
        (1_500, "Bps", "1.5 KB/s"),
    ],
)
def test_a_value_is_shown_with_its_unit(value: float, unit: str, text: str) -> None:
    assert shown(value, unit) == text
