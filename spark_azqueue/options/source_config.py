"""The configuration of one source (stream or peek): frozen, complete and checked.

Spark pickles it for the processes that read.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from spark_azqueue.errors import InvalidOption
from spark_azqueue.service.account import Account
from spark_azqueue.service.messages import (
    MAX_PER_REQUEST,
    BodyType,
    Encoding,
    QueueRef,
    queue_name,
)

from .account import read_account
from .blobs import ClaimCheck, read_claim_check
from .choices import OnUndecodable, QueuePriority, Side
from .doubts import doubts
from .log import LogConfig, check_log, read_log
from .parse import fields, named, parse
from .selection import POISON_SUFFIX, QueueSelection

QUEUE_DECIDES = ("visibilityTimeout", "maxDequeueCount", "onUndecodable")
"""With settingsFromQueue, the options that a queue's metadata can set (the last: indirectly)."""


@dataclass(frozen=True)
class SourceConfig:
    """The source's settings. Times in seconds, sizes in bytes.

    visibility_timeout None: chosen from how long batches take. max_messages, messages_per_partition
    None: likewise. max_dequeue_count None: poison messages are not detected. A parallelism None:
    chosen from how the service answers.
    """

    account: Account
    selection: QueueSelection
    encoding: Encoding
    body_type: BodyType
    on_undecodable: OnUndecodable
    create_queue: bool
    visibility_timeout: int | None
    max_messages: int | None
    max_bytes: int
    messages_per_partition: int | None
    max_poll_interval: float
    receive_parallelism: int | None
    delete_parallelism: int | None
    delete_on_commit: bool
    dequeue_ahead: bool
    max_dequeue_count: int | None = None
    poison_queue: str | None = None
    peek_messages: int = MAX_PER_REQUEST
    queue_priority: QueuePriority = QueuePriority.FAIR
    left_to_queue: frozenset[str] = frozenset()
    """With settingsFromQueue: names of the options that the queues' metadata may still set."""
    claim_check: ClaimCheck | None = None
    """Set with largeBody=blob."""
    write_ahead_log: LogConfig | None = None
    doubts: tuple[str, ...] = ()
    """What to warn of at the start."""

    @property
    def queues(self) -> tuple[QueueRef, ...]:
        """The queues that are given by name. Those that a pattern matches are found at run time."""
        return self.selection.named

    @property
    def uses_poison_queues(self) -> bool:
        """True if messages may be moved to a poison queue."""
        return self.max_dequeue_count is not None or self.on_undecodable is OnUndecodable.POISON

    def poison_queues_of(self, queues: Iterable[QueueRef]) -> tuple[QueueRef, ...]:
        """The poison queues of these queues, each once; none if messages are never moved."""
        if not self.uses_poison_queues:
            return ()
        return tuple(dict.fromkeys(map(self.poison_queue_for, queues)))

    def poison_queue_for(self, queue: QueueRef) -> QueueRef:
        """The queue for this queue's poison messages, in the same account."""
        return QueueRef(queue.account, self.poison_queue or queue.name + POISON_SUFFIX)


def source_config(
    given: Mapping[str, str], environment: Mapping[str, str] = os.environ
) -> SourceConfig:
    """Make the config of a source (stream or peek) from its options.

    Raises InvalidOption; sends nothing.
    """
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
        selection=QueueSelection(account.name, values["queue"], values["poisonQueue"]),
        left_to_queue=left_to_queue - named(given),
        claim_check=read_claim_check(values, given, account),
        write_ahead_log=read_log(values, given, account),
        doubts=doubts(given),
        **as_they_are,
    )
    check_combination(config)
    return config


def check_combination(config: SourceConfig) -> None:
    """Raise InvalidOption for settings that do not go together."""
    check_log(
        config.write_ahead_log,
        max_dequeue_count=config.max_dequeue_count,
        delete_on_commit=config.delete_on_commit,
        max_bytes=config.max_bytes,
    )
    check_poison_queues(config)
    if config.left_to_queue and config.selection.patterns:
        raise InvalidOption(
            f"settingsFromQueue=true needs every queue by name: '{config.selection.patterns[0]}'"
            " would find queues, with other settings, while the query runs"
        )


def on_undecodable_for(max_dequeue_count: int | None) -> OnUndecodable:
    """The default of `onUndecodable`, given `maxDequeueCount`."""
    return OnUndecodable.FAIL if max_dequeue_count is None else OnUndecodable.POISON


def check_poison_queues(config: SourceConfig) -> None:
    """Raise InvalidOption for a poison queue that is not allowed, or that would never be used."""
    if not config.uses_poison_queues:
        if config.poison_queue and "maxDequeueCount" not in config.left_to_queue:
            raise InvalidOption(
                "'poisonQueue' is set, but nothing would ever go there: set 'maxDequeueCount', or"
                " onUndecodable=poison"
            )
        return
    for queue in config.queues:
        poison = config.poison_queue_for(queue)
        if poison in config.queues:
            raise InvalidOption(f"the poison queue '{poison.name}' is one of the queues to read")
        check_poison_name(poison)


def check_poison_name(poison: QueueRef) -> None:
    """Raise InvalidOption if the default poison queue of a queue would have no legal name."""
    try:
        queue_name(poison.name)
    except ValueError:
        raise InvalidOption(
            f"the default poison queue '{poison.name}' is no legal name (at most 63"
            " characters); set 'poisonQueue'"
        ) from None
