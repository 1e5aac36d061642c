"""The configuration of a sink: frozen, complete and checked.

Spark pickles it for the processes that write.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from spark_azqueue.errors import InvalidOption
from spark_azqueue.errors.conditions import Condition
from spark_azqueue.service.encoding import Encoding
from spark_azqueue.service.messages import WEEK_S, delay_not_below_ttl, queue_name

from . import parsers
from .account import SharedConfig, read_account
from .blobs import BLOB_OPTIONS, ClaimCheck, read_claim_check
from .choices import MessageFormat, OnRowError, OnStaleReceipt, Operation
from .option import ParsedOptions, made_of, option, options_of, taken
from .selection import is_pattern
from .transaction import TransactionConfig, check_delay, life_of, read_transaction

_FIXED_PARALLELISM = 32
"""Number of concurrent requests with parallelism=auto, if the learned limits do not apply."""


@dataclass(frozen=True, kw_only=True)
class SinkConfig(SharedConfig):
    """The sink's settings. Times are in seconds.

    If `queue` is None, each row names its queue, or is sent to `default_queue`.
    """

    queue: str | None
    default_queue: str | None = option(
        "defaultQueue",
        queue_name,
        "The queue for rows whose column `queue` is null, in place of the option `queue`. For"
        " `operation=enqueue`.",
    )
    operation: Operation = option(
        "operation",
        parsers.one_of(Operation),
        "What to do with each row: `enqueue` it as a new message, or `update` or `delete` the"
        " message with the `message_id` and `pop_receipt` from a source with"
        " `deleteOnCommit=false`. An update makes the message visible again after"
        " `visibility_delay`; a `body` that is not null replaces its text. See"
        " [writing.md](writing.md#acknowledge-each-message).",
        default=Operation.ENQUEUE,
    )
    message_format: MessageFormat = option(
        "messageFormat",
        parsers.one_of(MessageFormat),
        "What is sent: the `body` alone (`text`), or an event around it (`cloudevents`:"
        " CloudEvents 1.0 in JSON), from the columns `id`, `type`, `source` and, if present,"
        " `time`, `subject`, `datacontenttype`, `traceparent`. For `operation=enqueue`; see"
        " [writing.md](writing.md#send-events).",
        default=MessageFormat.TEXT,
    )
    on_stale_receipt: OnStaleReceipt = option(
        "onStaleReceipt",
        parsers.one_of(OnStaleReceipt),
        "What to do if the receipt of an update or delete is no longer valid: `ignore` counts such"
        " rows and logs them for each task, `fail` stops the write. For `operation=update` and"
        " `delete`.",
        default=OnStaleReceipt.IGNORE,
    )
    on_row_error: OnRowError = option(
        "onRowError",
        parsers.one_of(OnRowError),
        "What to do with a row that cannot be sent, such as one whose body is too long or whose"
        " queue does not exist: `fail` stops the write, `queue` puts it into `rowErrorQueue` with"
        " the reason, and the other rows are sent. For `operation=enqueue`.",
        default=OnRowError.FAIL,
    )
    row_error_queue: str | None = option(
        "rowErrorQueue",
        queue_name,
        "The queue for rows that cannot be sent, with `onRowError=queue`, in the same account.",
    )
    visibility_delay: int = option(
        "visibilityDelay",
        parsers.duration(0, WEEK_S, whole=True),
        "How long a new or updated message stays invisible, if a row has no `visibility_delay`"
        " (seconds) and no `visible_at` (timestamp; a time in the past means at once): up to"
        " 7 days, and for a new message shorter than the time to live.",
        default=0,
    )
    time_to_live: int | None = option(
        "timeToLive",
        parsers.time_to_live,
        "How long until a message that was not deleted expires, if a row has no `time_to_live`;"
        " -1 = never. With `transactionLog` a day longer, and at most 7 days.",
        shown="the service's: 7 days",
    )
    ignore_extra_columns: bool = option(
        "ignoreExtraColumns",
        parsers.flag,
        "Ignore columns that the sink does not know instead of refusing them.",
        default=False,
    )
    claim_check: ClaimCheck | None = made_of(*BLOB_OPTIONS)
    """Set with largeBody=blob."""
    transaction: TransactionConfig | None = made_of(*options_of(TransactionConfig))
    """Set with transactionLog."""

    @property
    def queue_if_none_is_named(self) -> str | None:
        """The queue for rows that do not name a queue, or None if there is no such queue."""
        return self.queue or self.default_queue

    @property
    def transaction_queues(self) -> frozenset[str] | None:
        """The queues to which transactions send messages; None if each row names its queue."""
        if self.queue is None:
            return None
        return frozenset(filter(None, (self.queue, self.row_error_queue)))

    @property
    def fixed_parallelism(self) -> int:
        """Number of concurrent requests to store bodies. The learned limits do not apply to these
        requests.
        """
        return self.parallelism or _FIXED_PARALLELISM


def read_sink(values: ParsedOptions, environment: Mapping[str, str]) -> SinkConfig:
    """Make the config of a sink from its parsed options. Raises InvalidOption. Sends no request."""
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
    config = SinkConfig(
        account=account,
        queue=queues[0],
        claim_check=read_claim_check(values, account),
        transaction=read_transaction(values, account),
        **taken(SinkConfig, values),
    )
    _check_operation(config)
    if "onStaleReceipt" in values.written and config.operation is Operation.ENQUEUE:
        raise InvalidOption(
            "'onStaleReceipt' is for operation=update and delete: a new message needs no receipt."
            " Remove it, or set 'operation'"
        )
    _check_combination(config)
    return config


def _check_operation(config: SinkConfig) -> None:
    """Raise InvalidOption for options that do not apply to the operation."""
    if config.operation is Operation.DELETE and config.visibility_delay:
        raise InvalidOption("'visibilityDelay' has no meaning with operation=delete; remove it")
    for is_set, what, why in (
        (
            config.time_to_live is not None,
            "'timeToLive'",
            ": a message keeps the time to live it was sent with; remove the option",
        ),
        (
            config.message_format is MessageFormat.CLOUD_EVENTS,
            "messageFormat=cloudevents",
            "; remove the option",
        ),
        (config.default_queue is not None, "'defaultQueue'", ": set 'queue'"),
        (
            config.transaction is not None,
            "'transactionLog'",
            ": a message that is updated or deleted twice is the same afterwards. Remove it",
        ),
        (
            config.on_row_error is OnRowError.QUEUE,
            "onRowError=queue",
            ": a message that is not updated or deleted comes back by itself",
        ),
    ):
        if is_set and config.operation is not Operation.ENQUEUE:
            raise InvalidOption(
                f"{what} goes with operation=enqueue, not with {config.operation.value}{why}"
            )


def _check_combination(config: SinkConfig) -> None:
    """Raise InvalidOption for settings that conflict."""
    if config.encoding is Encoding.AUTO:
        raise InvalidOption(
            "messageEncoding=auto is for reading only: how to write cannot be guessed; set none or"
            " base64, as the readers of that queue expect"
        )
    if config.operation is Operation.ENQUEUE and (
        reason := delay_not_below_ttl(config.visibility_delay, config.time_to_live)
    ):
        raise InvalidOption(f"options 'visibilityDelay' and 'timeToLive': {reason}")
    if config.queue and config.default_queue:
        raise InvalidOption(
            "'queue' and 'defaultQueue' are both set: 'queue' is for all rows, 'defaultQueue' for"
            " those whose column 'queue' is null; remove one"
        )
    if config.transaction:
        _check_transaction(config)
    aside = config.row_error_queue
    if config.on_row_error is OnRowError.QUEUE and not aside:
        raise InvalidOption(
            "onRowError=queue needs 'rowErrorQueue': the queue for rows that cannot be sent"
        )
    if aside and config.on_row_error is OnRowError.FAIL:
        raise InvalidOption(
            "'rowErrorQueue' is set, but nothing would ever go there: set onRowError=queue"
        )
    if aside and aside == config.queue_if_none_is_named:
        raise InvalidOption(
            f"'rowErrorQueue' is '{aside}', and other rows go there, too: take another queue"
        )


def _check_transaction(config: SinkConfig) -> None:
    """Raise InvalidOption if a setting conflicts with `transactionLog`."""
    invalid = partial(InvalidOption, condition=Condition.INVALID_TRANSACTION_OPTION)
    try:
        life_of(config.time_to_live)
    except ValueError as error:
        raise invalid(f"option 'timeToLive': {error}. Lower it") from None
    try:
        check_delay(config.visibility_delay, config.time_to_live)
    except ValueError as error:
        raise invalid(f"option 'visibilityDelay': {error}. Lower it") from None
