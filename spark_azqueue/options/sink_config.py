"""The configuration of one sink: frozen, complete and checked.

Spark pickles it for the processes that write.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spark_azqueue.errors import InvalidOption
from spark_azqueue.service.account import Account
from spark_azqueue.service.messages import Encoding, delay_not_below_ttl

from .account import read_account
from .blobs import ClaimCheck, read_claim_check
from .choices import MessageFormat, OnFailure, OnRowError, OnStaleReceipt, Operation, Side
from .parse import fields, parse
from .selection import is_pattern

_FIXED_PARALLELISM = 32
"""With sendParallelism=auto, for what does not ask the limits."""


@dataclass(frozen=True)
class SinkConfig:
    """The sink's settings. Times in seconds.

    `queue` None: each row names its own, or goes to the default_queue.
    send_parallelism None: chosen from how the service answers.
    """

    account: Account
    queue: str | None
    encoding: Encoding
    create_queue: bool
    visibility_delay: int
    time_to_live: int | None
    send_parallelism: int | None
    ignore_extra_columns: bool
    default_queue: str | None = None
    operation: Operation = Operation.ENQUEUE
    message_format: MessageFormat = MessageFormat.TEXT
    on_stale_receipt: OnStaleReceipt = OnStaleReceipt.IGNORE
    on_row_error: OnRowError = OnRowError.FAIL
    row_error_queue: str | None = None
    """Set with onRowError=queue."""
    on_failure: OnFailure = OnFailure.KEEP
    claim_check: ClaimCheck | None = None
    """Set with largeBody=blob."""

    @property
    def queue_if_none_is_named(self) -> str | None:
        """The queue for rows that name none, None if there is none."""
        return self.queue or self.default_queue

    @property
    def fixed_parallelism(self) -> int:
        """How many requests at once if the limits are not asked: bodies to store, retractions."""
        return self.send_parallelism or _FIXED_PARALLELISM

    @property
    def retracts(self) -> bool:
        """True if the messages of a failed write are deleted again."""
        return self.on_failure is OnFailure.RETRACT


def sink_config(
    given: Mapping[str, str], environment: Mapping[str, str] = os.environ
) -> SinkConfig:
    """Make the config of a sink from its options. Raises InvalidOption; sends nothing."""
    values = parse(given, Side.SINK)
    account = read_account(values, environment)
    queues = values["queue"] or (None,)
    if any(map(is_pattern, filter(None, queues))):
        raise InvalidOption(
            f"option 'queue' is the pattern '{queues[0]}'; the sink takes a name, or a column"
            " 'queue'"
        )
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
    if operation is not Operation.ENQUEUE and (
        values["messageFormat"] is MessageFormat.CLOUD_EVENTS
    ):
        raise InvalidOption(
            f"messageFormat=cloudevents goes with operation=enqueue, not with {operation.value};"
            " remove the option"
        )
    if operation is not Operation.ENQUEUE and values["onFailure"] is OnFailure.RETRACT:
        raise InvalidOption(
            f"onFailure=retract goes with operation=enqueue, not with {operation.value}: what was"
            " updated or deleted cannot be taken back"
        )
    if operation is Operation.DELETE and values["visibilityDelay"]:
        raise InvalidOption("'visibilityDelay' has no meaning with operation=delete; remove it")
    if operation is Operation.ENQUEUE and (
        reason := delay_not_below_ttl(values["visibilityDelay"], values["timeToLive"])
    ):
        raise InvalidOption(f"options 'visibilityDelay' and 'timeToLive': {reason}")
    _check_default_queue(values, queues[0])
    _check_row_errors(values, queues[0] or values["defaultQueue"])
    return SinkConfig(
        account=account,
        queue=queues[0],
        claim_check=read_claim_check(values, given, account),
        **fields(values, Side.SINK),
    )


def _check_default_queue(values: Mapping[str, Any], queue: str | None) -> None:
    """Raise InvalidOption if `defaultQueue` could not have an effect."""
    if not values["defaultQueue"]:
        return
    if values["operation"] is not Operation.ENQUEUE:
        raise InvalidOption(
            f"'defaultQueue' goes with operation=enqueue, not with {values['operation'].value}: set"
            " 'queue'"
        )
    if queue:
        raise InvalidOption(
            "'queue' and 'defaultQueue' are both set: 'queue' is for all rows, 'defaultQueue' for"
            " those whose column 'queue' is null; remove one"
        )


def _check_row_errors(values: Mapping[str, Any], queue: str | None) -> None:
    """Raise InvalidOption unless `onRowError` and `rowErrorQueue` go together."""
    named = values["rowErrorQueue"]
    if values["onRowError"] is OnRowError.FAIL:
        if named:
            raise InvalidOption(
                "'rowErrorQueue' is set, but nothing would ever go there: set onRowError=queue"
            )
        return
    if values["operation"] is not Operation.ENQUEUE:
        raise InvalidOption(
            "onRowError=queue goes with operation=enqueue, not with"
            f" {values['operation'].value}: a message that is not updated or deleted comes back by"
            " itself"
        )
    if not named:
        raise InvalidOption(
            "onRowError=queue needs 'rowErrorQueue': the queue for rows that cannot be sent"
        )
    if named == queue:
        raise InvalidOption(
            f"'rowErrorQueue' is '{named}', and other rows go there, too: take another queue"
        )
