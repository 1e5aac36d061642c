"""The options of the sink."""

from __future__ import annotations

from spark_azqueue.service.messages import (
    NEVER_EXPIRES,
    WEEK_S,
    queue_name,
)

from . import parsers
from .choices import (
    MessageFormat,
    OnFailure,
    OnRowError,
    OnStaleReceipt,
    Operation,
    Side,
)
from .option import Option


def _time_to_live(value: str) -> int:
    if value.strip() == str(NEVER_EXPIRES):
        return NEVER_EXPIRES
    try:
        return int(parsers.duration(1, 2**31 - 1, whole=True)(value))
    except ValueError:
        raise ValueError(
            "whole seconds from 1 up, or -1 for a message that never expires"
        ) from None


SINK_OPTIONS: tuple[Option, ...] = (
    Option(
        "defaultQueue",
        queue_name,
        Side.SINK,
        "The queue for rows whose column `queue` is null, in place of the option `queue`. For"
        " `operation=enqueue`.",
        field="default_queue",
    ),
    Option(
        "operation",
        parsers.one_of(Operation),
        Side.SINK,
        "What to do with each row: `enqueue` it as a new message, or `update` or `delete` the"
        " message with the `message_id` and `pop_receipt` that the source gave with"
        " `deleteOnCommit=false`. An update shows the message again after `visibility_delay`; a"
        " `body` that is not null replaces its text. See [acknowledging.md](acknowledging.md).",
        field="operation",
        default=Operation.ENQUEUE,
        shown="enqueue",
    ),
    Option(
        "messageFormat",
        parsers.one_of(MessageFormat),
        Side.SINK,
        "What is sent: the `body` alone (`text`), or an event around it (`cloudevents`: CloudEvents"
        " 1.0 in JSON), from the columns `id`, `type`, `source` and, if there, `time`, `subject`,"
        " `datacontenttype`, `traceparent`. For `operation=enqueue`; see"
        " [events.md](events.md#send-events).",
        field="message_format",
        default=MessageFormat.TEXT,
        shown="text",
    ),
    Option(
        "onStaleReceipt",
        parsers.one_of(OnStaleReceipt),
        Side.SINK,
        "What to do if the receipt of an update or delete is no longer valid: `ignore` counts such"
        " rows and logs them for each task, `fail` stops the write.",
        field="on_stale_receipt",
        default=OnStaleReceipt.IGNORE,
        shown="ignore",
    ),
    Option(
        "onRowError",
        parsers.one_of(OnRowError),
        Side.SINK,
        "What to do with a row that cannot be sent, such as one whose body is too long or whose"
        " queue does not exist: `fail` stops the write, `queue` puts it into `rowErrorQueue` with"
        " the reason, and the other rows are sent. For `operation=enqueue`.",
        field="on_row_error",
        default=OnRowError.FAIL,
        shown="fail",
    ),
    Option(
        "rowErrorQueue",
        queue_name,
        Side.SINK,
        "The queue for rows that cannot be sent, with `onRowError=queue`, in the same account.",
        field="row_error_queue",
    ),
    Option(
        "onFailure",
        parsers.one_of(OnFailure),
        Side.SINK,
        "What to do with the messages that a write had put when it failed: `keep` leaves them, and"
        " Spark's retry sends them again; `retract` deletes those that nobody has dequeued, of the"
        " failed task and of tasks that had finished. For `operation=enqueue`; see"
        " [operations.md](operations.md#take-back-what-a-failed-write-put).",
        field="on_failure",
        default=OnFailure.KEEP,
        shown="keep",
    ),
    Option(
        "visibilityDelay",
        parsers.duration(0, WEEK_S, whole=True),
        Side.SINK,
        "How long a new or updated message stays invisible, if a row has no `visibility_delay`"
        " (seconds) and no `visible_at` (timestamp; at once if it is over): up to 7 days, and for a"
        " new message shorter than the time to live.",
        field="visibility_delay",
        default=0,
        shown="0",
    ),
    Option(
        "timeToLive",
        _time_to_live,
        Side.SINK,
        "How long until a message that was not deleted expires, if a row has no `time_to_live`;"
        " -1 = never.",
        field="time_to_live",
        shown="the service's: 7 days",
    ),
    Option(
        "sendParallelism",
        parsers.or_auto(parsers.whole_number(1, 128)),
        Side.SINK,
        "Most concurrent requests (one per message) in each task. `auto`: as many as each queue and"
        " the worker's process turn out to take.",
        field="send_parallelism",
        shown="auto",
    ),
    Option(
        "ignoreExtraColumns",
        parsers.flag,
        Side.SINK,
        "Ignore columns that the sink does not know instead of refusing them.",
        field="ignore_extra_columns",
        default=False,
        shown="false",
    ),
)
