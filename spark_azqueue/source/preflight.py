"""Checks before the first dequeue: existence of the queues, permissions, and settings.

With settingsFromQueue, some settings are read from the queue's metadata. The service ignores upper
and lower case in names of metadata: `DefaultTimeout` is the same name as `defaulttimeout`.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from datetime import datetime
from typing import Any, Protocol, TypeVar

from spark_azqueue.errors import AccessDenied, AzQueueError, InvalidOption, QueueNotFound
from spark_azqueue.options.parse import OPTIONS
from spark_azqueue.options.source_config import (
    QUEUE_DECIDES,
    SourceConfig,
    check_combination,
    check_poison_name,
    on_undecodable_for,
)
from spark_azqueue.service.messages import QueueRef
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.service.queues.management import read_metadata
from spark_azqueue.service.redaction import shown
from spark_azqueue.service.retry import CONTROL

T = TypeVar("T")

log = logging.getLogger(__name__)

METADATA = {"visibilityTimeout": "defaulttimeout", "maxDequeueCount": "poisonthreshold"}
"""For each option, the name of the metadata that sets the option. Metadata values have the same
form as option values."""

_PARSERS = {each.name: each.parse for each in OPTIONS if each.name in QUEUE_DECIDES}

_DECIDED = {
    name: each.name
    for each in dataclasses.fields(SourceConfig)
    if "option" in each.metadata and (name := each.metadata["option"].name) in QUEUE_DECIDES
}
"""For each option, the name of the config's field."""


def with_queue_settings(
    config: SourceConfig, metadata: Mapping[QueueRef, Mapping[str, str]]
) -> SourceConfig:
    """Return the config with the settings from the queues' metadata.

    Raises InvalidOption for a value that is not allowed, or if queues have different values.
    """
    timeout, maximum = config.visibility_timeout, config.max_dequeue_count
    undecodable, asks_for_poison = config.on_undecodable, config.asks_for_poison
    if "visibilityTimeout" in config.left_to_queue:
        (timeout,) = _agreed("visibilityTimeout", metadata) or (timeout,)
    is_left = "maxDequeueCount" in config.left_to_queue
    if is_left and (said := _agreed("maxDequeueCount", metadata)):
        (maximum,), asks_for_poison = said, True
        if "onUndecodable" in config.left_to_queue:
            undecodable = on_undecodable_for(maximum)
    settled = dataclasses.replace(
        config,
        visibility_timeout=timeout,
        max_dequeue_count=maximum,
        on_undecodable=undecodable,
        asks_for_poison=asks_for_poison,
        left_to_queue=frozenset(),
    )
    check_combination(settled)
    return settled


def _agreed(option: str, metadata: Mapping[QueueRef, Mapping[str, str]]) -> tuple[Any] | None:
    """Return the option's value in a tuple of one, if every queue that sets the option has the same
    value.

    Returns None if no queue sets the option. Raises InvalidOption if two values differ.
    """
    said = {
        queue: _parsed(option, queue, text)
        for queue, noted in metadata.items()
        for name, text in noted.items()
        if name.lower() == METADATA[option]
    }
    if len(set(said.values())) > 1:
        listed = ", ".join(f"{value} on '{queue.name}'" for queue, value in sorted(said.items()))
        raise InvalidOption(
            f"the queues do not agree on the metadata '{METADATA[option]}': {listed}; one query has"
            f" one, so set the option '{option}', or read the queues with a query each"
        )
    return (next(iter(said.values())),) if said else None


def _parsed(option: str, queue: QueueRef, text: str) -> Any:
    try:
        return _PARSERS[option](text)
    except ValueError as error:
        raise InvalidOption(
            f"the metadata '{METADATA[option]}' of queue '{queue.name}' is {shown(repr(text), 80)};"
            f" expected {error}. Correct it there, or set the option '{option}'"
        ) from None


def with_settings_of_queues(config: SourceConfig) -> SourceConfig:
    """Read the queues' metadata with settingsFromQueue. Return the config with the settings from
    the metadata.

    Sends one request per queue. Without settingsFromQueue, sends no request and returns the same
    config. Raises InvalidOption or ServiceError.
    """
    if not config.left_to_queue:
        return config
    metadata = {}
    for queue in config.queues:
        try:
            metadata[queue] = read_metadata(config.account, queue.name)
        except QueueNotFound:
            if not config.create_queue:
                raise
    return with_queue_settings(config, metadata)


def decided_by_queues(config: SourceConfig) -> dict[str, str]:
    """Return the values of the options that queues can set, as texts by option name.

    These values are passed to processes that do not read metadata. Options without a value are left
    out.

    config: result of `with_settings_of_queues`.
    """
    values = {name: getattr(config, field) for name, field in _DECIDED.items()}
    return {
        name: str(getattr(value, "value", value))
        for name, value in values.items()
        if value is not None
    }


def with_decided(config: SourceConfig, said: Mapping[str, str]) -> SourceConfig:
    """Return the config with these settings. said: result of `decided_by_queues`."""
    values: dict[str, Any] = {
        field: _PARSERS[name](said[name]) if name in said else None
        for name, field in _DECIDED.items()
    }
    return dataclasses.replace(config, **values, left_to_queue=frozenset())


class Submit(Protocol):
    """Function that runs calls in parallel, like `Submits.submit`."""

    def __call__(self, call: Callable[..., T], *arguments: Any) -> Future[T]:
        """Run `call(*arguments)` in the background."""


def check_queues(
    config: SourceConfig,
    client: QueueClient,
    queues: Sequence[QueueRef],
    submit: Submit,
    *,
    poison_too: bool,
) -> dict[QueueRef, datetime | AzQueueError]:
    """Check that each queue exists and that the credential may update its messages.

    With createQueue=true, a missing queue that is given by name is created.

    poison_too: if messages may be dead-lettered, also check that the credential may put messages
    into the poison queues.

    Returns, for each queue, the service's time or an error. The error is QueueNotFound,
    AccessDenied, ServiceError, or InvalidOption if the name of the poison queue is not legal. If no
    option asks for poison handling, an unusable poison queue is no error, but is logged as a
    warning.
    """
    checks = {
        queue: submit(_checked, client, queue, config.create_queue and queue in config.queues)
        for queue in queues
    }
    results: dict[QueueRef, datetime | AzQueueError] = {}
    for queue in queues:
        try:
            results[queue] = checks[queue].result()
        except AzQueueError as error:
            results[queue] = error
    if not (poison_too and config.uses_poison_queues):
        return results
    there = [queue for queue, result in results.items() if isinstance(result, datetime)]
    poison = {
        each: submit(_takes_messages, client, each) for each in config.poison_queues_of(there)
    }
    lacking: dict[QueueRef, AzQueueError] = {}
    missing = []
    for queue in there:
        try:
            if not poison[config.poison_queue_for(queue)].result():
                missing.append(queue)
        except AzQueueError as error:
            lacking[queue] = error
    if missing:
        try:
            # Creating a queue that exists has no effect, but fails without the permission to create
            # queues.
            client.create(missing[0])
        except AccessDenied as error:
            name = config.poison_queue_for(missing[0]).name
            denied = AccessDenied(
                f"poison queue '{name}' does not exist, and the credential may not create queues"
                f" ({error.sentence}): create it",
                condition=error.condition,
            )
            lacking |= dict.fromkeys(missing, denied)
        except AzQueueError as error:
            lacking |= dict.fromkeys(missing, error)
    if config.asks_for_poison:
        return results | lacking
    if lacking:
        first, why = next(iter(lacking.items()))
        others = f" and {len(lacking) - 1} more queues" if len(lacking) > 1 else ""
        log.warning(
            "a message of queue '%s'%s that fails every batch will stop the query, since it cannot"
            " be dead-lettered: %s. Allow that, or set maxDequeueCount=none",
            *(first.name, others, why),
        )
    return results


def _checked(client: QueueClient, queue: QueueRef, create: bool) -> datetime:
    try:
        return CONTROL(client.queue(queue).check)
    except QueueNotFound:
        if not create:
            raise
    client.create(queue)
    return CONTROL(client.queue(queue).check)


def _takes_messages(client: QueueClient, poison: QueueRef) -> bool:
    """Check that the credential may put messages into this poison queue.

    Return False if this queue does not exist.
    """
    check_poison_name(poison)
    try:
        CONTROL(client.queue(poison).check_put)
    except QueueNotFound:
        return False
    return True
