"""A query or a peek of an account that cannot be reached fails at its start, within seconds."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from clocks import Clock

from spark_azqueue.errors import ServiceUnavailable
from spark_azqueue.options.parse import source_config
from spark_azqueue.options.source_config import SourceConfig
from spark_azqueue.service.queues import reach
from spark_azqueue.source.columns import source_columns
from spark_azqueue.source.readers import AzQueueReader, AzQueueStreamReader


@pytest.fixture
def port() -> Iterator[int]:
    """A port on which nothing listens, and nothing else will."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


def config(port: int, **options: str) -> SourceConfig:
    text = f"AccountName=shop;AccountKey=a2V5;QueueEndpoint=http://127.0.0.1:{port}/shop"
    return source_config({"secret.connectionString": text, "queue": "orders", **options}, {})


@pytest.mark.parametrize("kind", [AzQueueStreamReader, AzQueueReader])
@pytest.mark.parametrize("options", [{}, {"settingsFromQueue": "true"}])
def test_the_error_comes_soon_and_names_the_address(
    port: int,
    kind: type[AzQueueStreamReader | AzQueueReader],
    options: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = config(port, **options)
    columns = source_columns(made.body_type, permissive=False)
    reader = kind(made, columns, columns)
    clock = Clock()
    monkeypatch.setattr(reach, "time", clock)
    begun_at = clock.now

    first = reader.partitions if isinstance(reader, AzQueueReader) else reader.initialOffset
    with pytest.raises(ServiceUnavailable) as caught:
        first()

    assert 0 < clock.now - begun_at < reach.REACHED_WITHIN_S
    assert f"at 127.0.0.1, port {port}: Connection refused. Check" in str(caught.value)
    assert "update" not in str(caught.value)
