"""What is exported of queues that are watched, while their query fails, runs or is stopped."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import urllib.request

import pytest

pytest.importorskip("prometheus_client")

from progress_events import REPORT, ended, source, started, went_on
from prometheus_client import CollectorRegistry, generate_latest

from spark_azqueue import queue_watch
from spark_azqueue.commands.command_line import main
from spark_azqueue.errors import InvalidOption
from spark_azqueue.metrics.listener import AzQueueListener
from spark_azqueue.metrics.prometheus import export_to_prometheus
from spark_azqueue.metrics.query_metrics import rate_of
from spark_azqueue.metrics.watched import Watched
from spark_azqueue.options.account import ENVIRONMENT_VARIABLE

SEEN = Watched(
    answers={"orders": 1},
    backlog={"orders": 640},
    poison={"orders-poison": 3},
    heads={"orders": 90},
    expires={"orders": 500},
)


def series(listener, *names):
    """Those with these names, and their values."""
    registry = CollectorRegistry()
    export_to_prometheus(listener, registry)
    lines = generate_latest(registry).decode().splitlines()
    found = dict(line.rsplit(" ", 1) for line in lines if line.startswith("azqueue_"))
    return {key: float(value) for key, value in found.items() if key.split("{")[0] in names}


def test_a_query_whose_first_batch_fails_has_backlog_age_expiry_and_poison():
    listener = AzQueueListener(watch=lambda: {"orders": SEEN})
    for run in ("one", "two"):
        started(listener, run=run)
        ended(listener, run, exception="the first batch failed")

    assert series(
        listener,
        "azqueue_backlog_messages",
        "azqueue_poison_queue_messages",
        "azqueue_queue_head_age_seconds",
        "azqueue_message_expiry_seconds",
        "azqueue_queue_answers",
        "azqueue_waiting_messages",
        "azqueue_leased_elsewhere_or_delayed_messages",
        "azqueue_drain_seconds",
        "azqueue_query_failures_total",
        "azqueue_delivered_total",
        "azqueue_poison_moved_total",
    ) == {
        'azqueue_backlog_messages{query="orders",queue="orders"}': 640,
        'azqueue_poison_queue_messages{query="orders",queue="orders-poison"}': 3,
        'azqueue_queue_head_age_seconds{query="orders",queue="orders"}': 90,
        'azqueue_message_expiry_seconds{query="orders"}': 500,
        'azqueue_queue_answers{query="orders",queue="orders"}': 1,
        'azqueue_waiting_messages{query="orders"}': 640,
        'azqueue_leased_elsewhere_or_delayed_messages{query="orders"}': 0,
        'azqueue_query_failures_total{query="orders"}': 2,
        'azqueue_delivered_total{query="orders"}': 0,
        'azqueue_poison_moved_total{query="orders"}': 0,
    }


def test_what_the_queues_show_is_newer_than_the_last_report():
    seen = [SEEN]
    listener = AzQueueListener(watch=lambda: {"orders": seen[-1]})
    report = REPORT | {"heads": {"orders": 7}, "poison": {"orders-poison": 0}, "held": 40}
    started(listener)
    went_on(listener, sources=[source(latestOffset=report | {"expires": 1_795_255_300})])

    assert series(listener, "azqueue_backlog_messages", "azqueue_queue_head_age_seconds") == {
        'azqueue_backlog_messages{query="orders",queue="orders"}': 640,
        'azqueue_queue_head_age_seconds{query="orders",queue="orders"}': 90,
    }
    assert series(listener, "azqueue_waiting_messages", "azqueue_drain_seconds") == {
        'azqueue_waiting_messages{query="orders"}': 600,
        'azqueue_drain_seconds{query="orders"}': 600 / 64,
    }
    expiry = 'azqueue_message_expiry_seconds{query="orders"}'
    assert series(listener, "azqueue_message_expiry_seconds") == {expiry: 92.75}, "the earlier"

    seen.append(Watched(answers={"orders": 0}))  # it does not answer: the report has to do
    assert not series(
        listener,
        "azqueue_waiting_messages",
        "azqueue_leased_elsewhere_or_delayed_messages",
        "azqueue_drain_seconds",
    )
    assert series(listener, "azqueue_backlog_messages", "azqueue_queue_answers") == {
        'azqueue_backlog_messages{query="orders",queue="orders"}': 120,
        'azqueue_backlog_messages{query="orders",queue="refunds"}': 3,
        'azqueue_queue_answers{query="orders",queue="orders"}': 0,
    }


def test_a_watch_that_breaks_costs_its_metrics_alone(caplog):
    def broken():
        raise MemoryError("no more")

    listener = AzQueueListener(watch=broken)
    started(listener)
    went_on(listener)

    assert series(listener, "azqueue_held_messages", "azqueue_queue_answers") == {
        'azqueue_held_messages{query="orders"}': 32
    }
    assert "the queues are not looked at" in caplog.text


def test_the_rate_is_that_of_ten_minutes_with_idle_time():
    listener = AzQueueListener()
    assert listener.rate("orders") is None
    for batch, at in enumerate(("09:40:00", "10:00:00", "10:00:10"), 1):
        went_on(listener, batch, timestamp=f"2026-11-21T{at}.000Z")
    assert listener.rate("orders") == pytest.approx(64 / 10.5), "the first is too old"

    kept = listener.metrics("orders")
    assert len(kept) == 3
    assert rate_of([]) is None
    went_on(AzQueueListener(), 1)


def test_the_watch_of_options(fake):
    fake.create_queue("orders")
    fake.put("orders", "a")
    options = {"secret.connectionString": fake.connection_string, "queue": "orders"}
    look = queue_watch({"orders": options, "both": [options, {**options, "queue": "gone"}]})
    seen = look()

    assert seen["orders"].backlog == {"orders": 1}
    assert seen["both"].answers == {"orders": 1, "gone": 0}


@pytest.mark.parametrize(
    ("queries", "text"),
    [
        ({"queue": "orders"}, "by the name of the query"),
        ("orders", "by the name of the query"),
        ({"orders": []}, "expected the options of the source"),
    ],
)
def test_what_are_no_options_by_name_is_refused(queries, text):
    with pytest.raises(TypeError, match=re.escape(text)):
        queue_watch(queries)


def test_queues_of_two_accounts_are_not_added_up(fake):
    here = {"secret.connectionString": fake.connection_string, "queue": "orders"}
    there = {"secret.connectionString": "AccountName=shop;AccountKey=a2V5", "queue": "orders"}
    with pytest.raises(InvalidOption, match="watch them under several names"):
        queue_watch({"orders": [here, there]})


# ── the command ───────────────────────────────────────────────────────────────────────────────────


def test_the_command_serves_what_the_queues_hold_until_a_signal(fake):
    fake.create_queue("orders")
    fake.create_queue("trash")
    fake.put_many("orders", ["a"] * 40)
    fake.put("trash", "bad")
    arguments = ("watch", "orders", "--port", "0", "--query", "first")
    arguments = tuple(each if each != "0" else str(free_port()) for each in arguments)
    process = subprocess.Popen(
        [sys.executable, "-m", "spark_azqueue", *arguments, "--option", "poisonQueue=trash"],
        env={ENVIRONMENT_VARIABLE: fake.connection_string, "PYTHONPATH": ".", "PATH": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout
        line = process.stdout.readline()
        address = line.rpartition(" ")[2].strip()
        assert address.startswith("http://127.0.0.1:"), process.communicate(timeout=10)
        with urllib.request.urlopen(address, timeout=30) as answer:
            text = answer.read().decode()
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()

    assert process.returncode == 0
    assert said.strip() == "ending"
    assert 'azqueue_backlog_messages{query="first",queue="orders"} 40.0' in text
    assert 'azqueue_waiting_messages{query="first"} 40.0' in text
    assert 'azqueue_poison_queue_messages{query="first",queue="trash"} 1.0' in text
    assert "azqueue_build_info{" in text
    assert fake.requests["dequeue"] == 0


def free_port():
    import socket

    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def test_a_port_that_is_taken_is_said(fake, monkeypatch, capsys):
    import socket

    fake.create_queue("orders")
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, fake.connection_string)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["watch", "orders", "--port", str(port)]) == 1

    assert f"port {port} of 127.0.0.1 cannot be used: " in capsys.readouterr().err


def test_without_prometheus_it_says_what_to_install(fake, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "spark_azqueue.metrics.prometheus", None)
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, fake.connection_string)

    assert main(["watch", "orders"]) == 1
    assert "pip install prometheus-client" in capsys.readouterr().err
