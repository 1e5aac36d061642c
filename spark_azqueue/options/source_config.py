"""The configuration of one source (stream or peek): frozen, complete, checked.

It travels by pickle to the processes that read.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from spark_azqueue.errors import InvalidOption
from spark_azqueue.service.account import Account
from spark_azqueue.service.messages import (
    MAX_PER_REQUEST,
    BodyType,
    Encoding,
    queue_name,
)

from .account import read_account
from .blobs import ClaimCheck, read_claim_check
from .choices import OnUndecodable, Side
from .parse import fields, named, parse

POISON_SUFFIX = "-poison"
"""As Azure Functions names the queue for messages it gives up on."""


QUEUE_DECIDES = ("visibilityTimeout", "maxDequeueCount", "onUndecodable")
"""With settingsFromQueue, the options that a queue's metadata decides (the last: by default)."""


@dataclass(frozen=True)
class SourceConfig:
    """Everything the source needs to know. Times in seconds, sizes in bytes.

    visibility_timeout None: sized from observed batches. max_dequeue_count None: nobody suspected.
    """

    account: Account
    queues: tuple[str, ...]
    encoding: Encoding
    body_type: BodyType
    on_undecodable: OnUndecodable
    create_queue: bool
    visibility_timeout: int | None
    max_messages: int
    max_bytes: int
    messages_per_partition: int
    max_poll_interval: float
    receive_parallelism: int
    delete_parallelism: int
    delete_on_commit: bool
    dequeue_ahead: bool
    max_dequeue_count: int | None = None
    poison_queue: str | None = None
    peek_messages: int = MAX_PER_REQUEST
    left_to_queue: frozenset[str] = frozenset()
    """With settingsFromQueue: names of the options that the queues' metadata may still decide."""
    claim_check: ClaimCheck | None = None
    """Set with largeBody=blob."""

    @property
    def uses_poison_queues(self) -> bool:
        """True where messages may have to be set aside."""
        return self.max_dequeue_count is not None or self.on_undecodable is OnUndecodable.POISON

    def poison_queue_for(self, queue: str) -> str:
        """Where poison messages of this queue go."""
        return self.poison_queue or queue + POISON_SUFFIX


def source_config(
    given: Mapping[str, str], environment: Mapping[str, str] = os.environ
) -> SourceConfig:
    """Options of a source (stream or peek) -> config. Raises InvalidOption; sends nothing."""
    values = parse(given, Side.SOURCE)
    account = read_account(values, environment)
    if not values["queue"]:
        raise InvalidOption("option 'queue' is missing: name the queue to read, or several")
    as_they_are = fields(values, Side.SOURCE)
    left_to_queue = frozenset(QUEUE_DECIDES) if values["settingsFromQueue"] else frozenset()
    if as_they_are["on_undecodable"] is None:
        as_they_are["on_undecodable"] = on_undecodable_for(values["maxDequeueCount"])
    config = SourceConfig(
        account=account,
        queues=values["queue"],
        left_to_queue=left_to_queue - named(given),
        claim_check=read_claim_check(values, given, account),
        **as_they_are,
    )
    check_poison_queues(config)
    return config


def on_undecodable_for(max_dequeue_count: int | None) -> OnUndecodable:
    """What is done with such messages where the option does not say."""
    return OnUndecodable.FAIL if max_dequeue_count is None else OnUndecodable.POISON


def check_poison_queues(config: SourceConfig) -> None:
    """Refuse poison queues that cannot be, or that nothing would ever go to (InvalidOption)."""
    if not config.uses_poison_queues:
        if config.poison_queue and "maxDequeueCount" not in config.left_to_queue:
            raise InvalidOption(
                "'poisonQueue' is set, but nothing would ever go there: set 'maxDequeueCount', or"
                " onUndecodable=poison"
            )
        return
    for queue in config.queues:
        name = config.poison_queue_for(queue)
        if name in config.queues:
            raise InvalidOption(f"the poison queue '{name}' is one of the queues to read")
        try:
            queue_name(name)
        except ValueError:
            raise InvalidOption(
                f"the default poison queue '{name}' is no legal name (at most 63 characters); set"
                " 'poisonQueue'"
            ) from None
