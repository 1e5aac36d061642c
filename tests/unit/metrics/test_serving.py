"""The server of `watch`: connections that say nothing do not keep it from the others."""

from __future__ import annotations

import socket
import threading
import time
import urllib.request

import pytest

pytest.importorskip("prometheus_client")

from spark_azqueue.metrics import prometheus
from spark_azqueue.metrics.exported import Snapshot


def test_idle_connections_are_ended_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus, "_IDLE_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    before = threading.active_count()
    with prometheus.served(lambda: Snapshot({}, {}, {}), "127.0.0.1", port):
        idle = [socket.create_connection(("127.0.0.1", port), 5) for _ in range(100)]
        for each in idle:
            assert each.recv(1) == b"", "the server ends it"
        url = f"http://127.0.0.1:{port}/metrics"
        with urllib.request.urlopen(url, timeout=10) as answer:
            assert b"azqueue_build_info" in answer.read()
        for each in idle:
            each.close()
    deadline = time.monotonic() + 10
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() <= before
