"""settingsFromQueue: what a queue's own metadata says about how to read it.

The names are those of queue metadata, `defaulttimeout` and `poisonthreshold`, in any case (the
service does not tell `DefaultTimeout` from it).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from spark_azqueue.errors import InvalidOption, QueueNotFound
from spark_azqueue.options.source_config import (
    SourceConfig,
    check_poison_queues,
    on_undecodable_for,
)
from spark_azqueue.options.table import OPTIONS
from spark_azqueue.service.queues.management import read_metadata
from spark_azqueue.service.redaction import shown

METADATA = {"visibilityTimeout": "defaulttimeout", "maxDequeueCount": "poisonthreshold"}
"""Option -> the name of the metadata that stands for it; values are written alike."""


def with_queue_settings(
    config: SourceConfig, metadata: Mapping[str, Mapping[str, str]]
) -> SourceConfig:
    """The config with what was left to the queues. metadata: of each queue, by its name.

    Raises InvalidOption for a value that is not allowed, and where queues do not agree.
    """
    timeout = config.visibility_timeout
    if "visibilityTimeout" in config.left_to_queue:
        timeout = _agreed("visibilityTimeout", metadata)
    maximum, undecodable = config.max_dequeue_count, config.on_undecodable
    if "maxDequeueCount" in config.left_to_queue:
        maximum = _agreed("maxDequeueCount", metadata)
        if "onUndecodable" in config.left_to_queue:
            undecodable = on_undecodable_for(maximum)
    settled = dataclasses.replace(
        config,
        visibility_timeout=timeout,
        max_dequeue_count=maximum,
        on_undecodable=undecodable,
        left_to_queue=frozenset(),
    )
    check_poison_queues(settled)
    return settled


def _agreed(option: str, metadata: Mapping[str, Mapping[str, str]]) -> Any:
    """What the queues that say something say; None where none does."""
    said = {
        queue: _parsed(option, queue, text)
        for queue, noted in metadata.items()
        if (text := _find(noted, METADATA[option])) is not None
    }
    if len(set(said.values())) > 1:
        listed = ", ".join(f"{value} on '{queue}'" for queue, value in sorted(said.items()))
        raise InvalidOption(
            f"the queues do not agree on the metadata '{METADATA[option]}': {listed}; one query has"
            f" one, so set the option '{option}', or read the queues with a query each"
        )
    return next(iter(said.values()), None)


def _parsed(option: str, queue: str, text: str) -> Any:
    try:
        return next(each.parse for each in OPTIONS if each.name == option)(text)
    except ValueError as error:
        raise InvalidOption(
            f"the metadata '{METADATA[option]}' of queue '{queue}' is {shown(repr(text), 80)};"
            f" expected {error}. Correct it there, or set the option '{option}'"
        ) from None


def _find(noted: Mapping[str, str], name: str) -> str | None:
    return next((value for key, value in noted.items() if key.lower() == name), None)


def with_settings_of_queues(config: SourceConfig) -> SourceConfig:
    """The config with what settingsFromQueue leaves to the queues, asked of them."""
    if not config.left_to_queue:
        return config
    metadata = {}
    for name in config.queues:
        try:
            metadata[name] = read_metadata(config.account, name)
        except QueueNotFound:
            if not config.create_queue:
                raise
    return with_queue_settings(config, metadata)
