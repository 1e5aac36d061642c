"""Spark Connect: the connector on the server alone, a client with Spark's client package alone."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from serving import PATIENCE_S, clients_environment, serving

from spark_azqueue import explain
from spark_azqueue.testing import FakeQueueService

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Connect server with the connector in its Python."""
    with serving(tmp_path_factory.mktemp("server"), {}) as address:
        yield address


def test_a_client_without_the_connector_uses_source_and_sink(
    client: Path, server: str, fake: FakeQueueService, queue: str, tmp_path: Path
) -> None:
    other = f"{queue}-other"
    for name in (queue, other):
        fake.create_queue(name)

    done = subprocess.run(
        [str(client), str(HERE / "client.py"), server, str(tmp_path), queue, other],
        env={**clients_environment(), "TEXT": fake.connection_string},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )

    assert done.returncode == 0, done.stderr[-3000:]
    seen = json.loads(done.stdout.splitlines()[-1])
    assert seen["ours"] is False
    assert seen["peeked"] == 20
    assert seen["columns"][:3] == ["message_id", "body", "queue"]
    assert seen["bodies"] == sorted(f"m{i}" for i in range(20))
    assert "unknown option 'quue'; did you mean 'queue'?" in seen["error"]
    explanation = explain(seen["error"])
    assert explanation.error == "InvalidOption"
    assert explanation.sentence.startswith("unknown option 'quue'; did you mean 'queue'?")
    assert explanation.sentence in seen["error"].splitlines()[0], "nothing stands before it"
    assert (fake.count(queue), fake.count(other)) == (0, 0)  # settled, on Spark 4.2 and newer
    assert fake.key not in done.stdout + done.stderr
