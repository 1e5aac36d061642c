"""Spark Connect: the connector on the server alone, a client with Spark's client package alone."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import storage_events
from serving import run_client, serving

from spark_azqueue import explain
from spark_azqueue.testing import FakeQueueService

PACKAGE = str(Path(__file__).parents[2])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Connect server with the connector in its Python."""
    with serving(tmp_path_factory.mktemp("server"), {}) as address:
        yield address


@pytest.mark.core
def test_a_client_without_the_connector_uses_source_and_sink(
    client: Path, server: str, fake: FakeQueueService, queue: str, tmp_path: Path
) -> None:
    other = f"{queue}-other"
    for name in (queue, other):
        fake.create_queue(name)

    seen, said = run_client(
        client, "client.py", server, tmp_path, queue, other, TEXT=fake.connection_string
    )

    assert seen["ours"] is False
    assert seen["peeked"] == 20
    assert seen["columns"][:3] == ["message_id", "body", "queue"]
    assert seen["bodies"] == sorted(f"m{i}" for i in range(22))
    assert "unknown option 'quue'; did you mean 'queue'?" in seen["error"]
    explanation = explain(seen["error"])
    assert explanation.error == "InvalidOption"
    assert explanation.sentence.startswith("unknown option 'quue'; did you mean 'queue'?")
    assert explanation.sentence in seen["error"].splitlines()[0], "nothing stands before it"
    assert (fake.count(queue), fake.count(other)) == (0, 0)  # settled, on Spark 4.2 and newer
    assert fake.key not in said


def test_a_client_reads_events_by_functions_of_the_server(
    client: Path, server: str, fake: FakeQueueService, queue: str, tmp_path: Path
) -> None:
    """The client has the package on its path, and nothing that the package needs."""
    cases = [
        (event, form, text)
        for event in storage_events.EVENTS
        for form, text in storage_events.bodies(event).items()
    ]
    fake.create_queue(queue)
    (tmp_path / "bodies").write_text(json.dumps([text for _, _, text in cases] + ["no event"]))

    (*found, bad, own), _ = run_client(
        client,
        *("events_client.py", server, tmp_path / "bodies", queue),
        TEXT=fake.connection_string,
        PYTHONPATH=PACKAGE,
    )

    expected = [
        [
            event.type,
            schema,
            event.expected.get("change"),
            event.expected.get("path"),
            None,
            1 + (form == "batched"),
        ]
        for event, (schema, form, _), _ in cases
    ]
    assert found == expected
    assert own == ["order-7", "/shop", "7", None]
    assert bad == [None] * 4 + ["the body is neither JSON nor base64 of JSON", 1]


def test_what_the_package_gives_a_client_works_but_for_files(
    server: str, fake: FakeQueueService, queue: str, tmp_path: Path
) -> None:
    """As docs/databricks.md has it: this client's Python is the server's, with the package."""
    dead = f"{queue}-dead"
    for name in (queue, dead):
        fake.create_queue(name)
    fake.put_many(queue, [str(number) for number in range(9)])

    seen, _ = run_client(
        Path(sys.executable),
        *("helpers_client.py", server, tmp_path, queue, dead),
        TEXT=fake.connection_string,
        PYTHONPATH=PACKAGE,
    )

    assert seen["settled"] == "3 3 3 0"
    assert seen["delivered"] == 9
    assert seen["rows"] >= 1
    assert "does not work on Spark Connect" in seen["files"]
    assert (seen["good"], seen["bad"]) == ([0, 1, 2, 3, 4], ["ValueError: odd"])
    assert seen["split"] == [5, 5]
    assert seen["unpacked"] == [500, 500]
    assert (fake.count(queue), fake.count(dead)) == (3, 3)
