"""What the options of one source or sink make together: frozen, complete, checked.

A config travels by pickle to the processes that work with it. Ring: core (standard library only).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from . import options, parsing
from .account import Account, read_account, read_blob_account
from .errors import InvalidOption
from .messages import MAX_PER_REQUEST, BodyType, Encoding
from .options import (
    NEVER_EXPIRES,
    WEEK_S,
    LargeBody,
    OnStaleReceipt,
    OnUndecodable,
    Operation,
    Side,
)

POISON_SUFFIX = "-poison"
"""As Azure Functions names the queue for messages it gives up on."""

_FOR_BLOBS = {"blobContainer", "blobAccountUrl", "secret.blobConnectionString", "deleteBlob"}

QUEUE_DECIDES = ("visibilityTimeout", "maxDequeueCount", "onUndecodable")
"""With settingsFromQueue, the options that a queue's metadata decides (the last: by default)."""


@dataclass(frozen=True)
class ClaimCheck:
    """Where large bodies are kept.

    account: its `url` is the blob endpoint. delete: a blob goes when its message is settled.
    """

    account: Account
    container: str
    delete: bool = True


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


@dataclass(frozen=True)
class SinkConfig:
    """Everything the sink needs to know. `queue` None: every row names its own."""

    account: Account
    queue: str | None
    encoding: Encoding
    create_queue: bool
    visibility_delay: int
    time_to_live: int | None
    send_parallelism: int
    ignore_extra_columns: bool
    operation: Operation = Operation.ENQUEUE
    on_stale_receipt: OnStaleReceipt = OnStaleReceipt.IGNORE
    claim_check: ClaimCheck | None = None
    """Set with largeBody=blob."""


def source_config(
    given: Mapping[str, str], environment: Mapping[str, str] = os.environ
) -> SourceConfig:
    """Options of a source (stream or peek) -> config. Raises InvalidOption; sends nothing."""
    values = options.parse(given, Side.SOURCE)
    account = read_account(values, environment)
    if not values["queue"]:
        raise InvalidOption("option 'queue' is missing: name the queue to read, or several")
    maximum = values["maxDequeueCount"]
    left_to_queue = frozenset(QUEUE_DECIDES) if values["settingsFromQueue"] else frozenset()
    config = SourceConfig(
        account=account,
        queues=values["queue"],
        encoding=values["messageEncoding"],
        body_type=values["bodyType"],
        on_undecodable=values["onUndecodable"] or on_undecodable_for(maximum),
        create_queue=values["createQueue"],
        visibility_timeout=values["visibilityTimeout"],
        max_messages=values["maxMessagesPerTrigger"],
        max_bytes=values["maxBytesPerTrigger"],
        messages_per_partition=values["messagesPerPartition"],
        max_poll_interval=values["maxPollInterval"],
        receive_parallelism=values["receiveParallelism"],
        delete_parallelism=values["deleteParallelism"],
        delete_on_commit=values["deleteOnCommit"],
        dequeue_ahead=values["dequeueAhead"],
        max_dequeue_count=maximum,
        poison_queue=values["poisonQueue"],
        peek_messages=values["peekMessages"],
        left_to_queue=left_to_queue - options.named(given),
        claim_check=_claim_check(values, given, account),
    )
    check_poison_queues(config)
    return config


def _claim_check(
    values: Mapping[str, Any], given: Mapping[str, str], account: Account
) -> ClaimCheck | None:
    if values["largeBody"] is LargeBody.FAIL:
        if idle := _FOR_BLOBS & options.named(given):
            raise InvalidOption(
                f"'{min(idle)}' is set, but no body ever goes into a blob: set largeBody=blob"
            )
        return None
    if values["blobContainer"] is None:
        raise InvalidOption("largeBody=blob needs 'blobContainer': the container for large bodies")
    return ClaimCheck(
        read_blob_account(values, account), values["blobContainer"], values["deleteBlob"]
    )


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
            parsing.queue_name(name)
        except ValueError:
            raise InvalidOption(
                f"the default poison queue '{name}' is no legal name (at most 63 characters); set"
                " 'poisonQueue'"
            ) from None


def sink_config(
    given: Mapping[str, str], environment: Mapping[str, str] = os.environ
) -> SinkConfig:
    """Options of a sink -> config. Raises InvalidOption; sends nothing."""
    values = options.parse(given, Side.SINK)
    account = read_account(values, environment)
    queues = values["queue"] or (None,)
    if len(queues) > 1:
        raise InvalidOption(
            f"option 'queue' names {len(queues)} queues; the sink takes one, or a column 'queue'"
        )
    if values["messageEncoding"] is Encoding.AUTO:
        raise InvalidOption(
            "messageEncoding=auto is for reading only: how to write cannot be guessed; set none or"
            " base64, as the readers of that queue expect"
        )
    operation = values["operation"]
    if operation is not Operation.ENQUEUE and values["timeToLive"] is not None:
        raise InvalidOption(
            f"'timeToLive' goes with operation=enqueue, not with {operation.value}: a message keeps"
            " the time to live it was sent with; remove the option"
        )
    if operation is Operation.DELETE and values["visibilityDelay"]:
        raise InvalidOption("'visibilityDelay' has no meaning with operation=delete; remove it")
    if operation is Operation.ENQUEUE and (
        reason := delay_not_below_ttl(values["visibilityDelay"], values["timeToLive"])
    ):
        raise InvalidOption(f"options 'visibilityDelay' and 'timeToLive': {reason}")
    return SinkConfig(
        account=account,
        queue=queues[0],
        encoding=values["messageEncoding"],
        create_queue=values["createQueue"],
        visibility_delay=values["visibilityDelay"],
        time_to_live=values["timeToLive"],
        send_parallelism=values["sendParallelism"],
        ignore_extra_columns=values["ignoreExtraColumns"],
        operation=values["operation"],
        on_stale_receipt=values["onStaleReceipt"],
        claim_check=_claim_check(values, given, account),
    )


def delay_not_below_ttl(delay_s: int, ttl_s: int | None) -> str | None:
    """Why the service would refuse this pair ("Put Message": the delay is below the TTL), or None.

    ttl_s None: the service's default, 7 days.
    """
    ttl = WEEK_S if ttl_s is None else ttl_s
    if ttl == NEVER_EXPIRES or delay_s < ttl:
        return None
    return f"the delay of {delay_s} s is not below the time to live of {ttl} s"
