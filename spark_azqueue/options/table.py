"""Every option, declared once: name, parser, side, meaning, config field, default, secret.

Spark passes names in lower case; users see the spelling of this table. `docs/options.md` is
generated from it. `source_config` and `sink_config` build the configs and check combinations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from spark_azqueue.service.account import IdentityKind
from spark_azqueue.service.messages import (
    MAX_PER_REQUEST,
    MAX_VISIBILITY_S,
    MIN_VISIBILITY_S,
    MOST_IN_A_BATCH,
    NEVER_EXPIRES,
    WEEK_S,
    BodyType,
    Encoding,
    container_name,
    queue_name,
)

from . import parsers
from .choices import (
    DeleteAfter,
    LargeBody,
    LogStart,
    OnRowError,
    OnStaleReceipt,
    OnUndecodable,
    Operation,
    QueuePriority,
    Side,
)
from .log_place import log_place


@dataclass(frozen=True)
class Option:
    """One row of the table. `default`: a parsed value. `shown`: the default in the reference.

    field: the field of the config that takes the value unchanged. Without one, the code that builds
    the config uses the value (see `source_config` and `sink_config`).
    """

    name: str
    parse: Callable[[str], Any]
    side: Side
    doc: str
    field: str = ""
    default: Any = None
    shown: str = ""
    secret: bool = False


def _visibility_timeout(value: str) -> int | None:
    """Seconds, or None for `auto`."""
    if value.strip().lower() == "auto":
        return None
    try:
        return int(parsers.duration(MIN_VISIBILITY_S, MAX_VISIBILITY_S, whole=True)(value))
    except ValueError as error:
        raise ValueError(f"auto, or {error}") from None


def _time_to_live(value: str) -> int:
    if value.strip() == str(NEVER_EXPIRES):
        return NEVER_EXPIRES
    try:
        return int(parsers.duration(1, 2**31 - 1, whole=True)(value))
    except ValueError:
        raise ValueError(
            "whole seconds from 1 up, or -1 for a message that never expires"
        ) from None


OPTIONS: tuple[Option, ...] = (
    Option(
        "queue",
        parsers.queue_names,
        Side.BOTH,
        "Source: the queue to read, or several, separated by commas. Sink: the queue to write to,"
        " if a row has no `queue` of its own.",
        shown="(required; the sink may name it per row)",
    ),
    Option(
        "secret.connectionString",
        parsers.text,
        Side.BOTH,
        "Connection string of the storage account: with an account key, or with a SAS.",
        shown="environment variable `AZURE_STORAGE_CONNECTION_STRING`",
        secret=True,
    ),
    Option(
        "connectionString",
        parsers.text,
        Side.BOTH,
        "The same under a name that Spark does not redact: query plans and event logs show it in"
        " plain text. Prefer `secret.connectionString`.",
        secret=True,
    ),
    Option(
        "accountUrl",
        parsers.text,
        Side.BOTH,
        "Queue endpoint, `https://<account>.queue.core.windows.net`; goes with one of the four"
        " options below.",
    ),
    Option("accountAccessKey", parsers.text, Side.BOTH, "Access key of the account.", secret=True),
    Option(
        "sasToken",
        parsers.text,
        Side.BOTH,
        "Shared access signature. The source needs the letters `p` and `u` (with"
        " `settingsFromQueue` also `r`), the sink `a` (to update `u`, to delete `p`), a peek `r`.",
        secret=True,
    ),
    Option(
        "credential",
        parsers.one_of(IdentityKind),
        Side.BOTH,
        "Microsoft Entra identity, through azure-identity: `default`, `managedIdentity`,"
        " `workloadIdentity`, `servicePrincipal` or `azureCli`.",
    ),
    Option(
        "credentialProvider",
        parsers.text,
        Side.BOTH,
        "`package.module:callable` that returns an `azure.core` TokenCredential; called once in"
        " each process.",
    ),
    Option("tenantId", parsers.text, Side.BOTH, "Entra tenant, with `credential`."),
    Option(
        "clientId",
        parsers.text,
        Side.BOTH,
        "Entra application, or the user-assigned managed identity, with `credential`.",
    ),
    Option(
        "clientSecret",
        parsers.text,
        Side.BOTH,
        "Secret of the application, with `credential=servicePrincipal`.",
        secret=True,
    ),
    Option(
        "messageEncoding",
        parsers.one_of(Encoding),
        Side.BOTH,
        "How bodies are stored: `none` (as text) or `base64` (as Azure Functions expects by"
        " default). For reading also `auto`: base64 if the text is valid base64; see"
        " [encoding.md](encoding.md).",
        field="encoding",
        default=Encoding.NONE,
        shown="none",
    ),
    Option(
        "createQueue",
        parsers.flag,
        Side.BOTH,
        "Create a queue that does not exist instead of failing. The sink also creates the"
        " `blobContainer`.",
        field="create_queue",
        default=False,
        shown="false",
    ),
    Option(
        "largeBody",
        parsers.one_of(LargeBody),
        Side.BOTH,
        "A body over 64 KiB as stored: the sink `fail`s, or puts it into a `blob` and sends a small"
        " reference, which a source with `largeBody=blob` turns back into the body. See"
        " [claim-check.md](claim-check.md). Needs `pip install 'spark-azqueue[blob]'`.",
        default=LargeBody.FAIL,
        shown="fail",
    ),
    Option(
        "blobContainer",
        container_name,
        Side.BOTH,
        "The container of these blobs, required with `largeBody=blob`. A source reads no other"
        " container.",
    ),
    Option(
        "blobAccountUrl",
        parsers.text,
        Side.BOTH,
        "Blob endpoint, if it is not the queue's with `.queue.` replaced by `.blob.` (the"
        " credential is the queue's).",
        shown="that of the queue's account",
    ),
    Option(
        "secret.blobConnectionString",
        parsers.text,
        Side.BOTH,
        "Connection string for the blobs, if they have another storage account or credential.",
        shown="the queue's credential",
        secret=True,
    ),
    Option(
        "visibilityTimeout",
        _visibility_timeout,
        Side.SOURCE,
        "How long a dequeued message stays hidden from other consumers: 1 second to 7 days, or"
        " `auto`: chosen from how long micro-batches take (1 minute to 1 hour, 5 minutes at first)."
        " Leases are renewed while a batch runs, so a short timeout loses nothing. An ordinary"
        " batch should take less than half of it, so that no renewal is needed.",
        field="visibility_timeout",
        shown="auto",
    ),
    Option(
        "maxMessagesPerTrigger",
        parsers.whole_number(1, MOST_IN_A_BATCH),
        Side.SOURCE,
        "Most messages in one micro-batch.",
        field="max_messages",
        default=4096,
        shown="4096",
    ),
    Option(
        "maxBytesPerTrigger",
        parsers.byte_size(65_536, 2**31),
        Side.SOURCE,
        "No further messages are dequeued for a micro-batch once it holds this many bytes."
        " Requests already under way (`receiveParallelism`, up to 2 MiB each) are still added.",
        field="max_bytes",
        default=32 * 2**20,
        shown="32m",
    ),
    Option(
        "messagesPerPartition",
        parsers.whole_number(1, 100_000),
        Side.SOURCE,
        "Most messages in one partition. A partition costs Spark about 30 ms, so aim for about as"
        " many partitions as there are cores. A partition also ends at 900 KiB.",
        field="messages_per_partition",
        default=1024,
        shown="1024",
    ),
    Option(
        "bodyType",
        parsers.one_of(BodyType),
        Side.SOURCE,
        "Type of the column `body`: `string` or `binary`.",
        field="body_type",
        default=BodyType.STRING,
        shown="string",
    ),
    Option(
        "onUndecodable",
        parsers.one_of(OnUndecodable),
        Side.SOURCE,
        "What to do with a message that does not decode: `fail` stops the query and releases what"
        " it had leased; `poison` moves the message to the poison queue; `permissive` gives a row"
        " with a null `body` and the raw text in the extra column `_corrupt_record`.",
        field="on_undecodable",
        shown="fail; poison if `maxDequeueCount` is set",
    ),
    Option(
        "peekMessages",
        parsers.whole_number(1, MAX_PER_REQUEST),
        Side.SOURCE,
        "`spark.read` only: how many messages to peek at in each queue. The service returns at most"
        f" {MAX_PER_REQUEST}.",
        field="peek_messages",
        default=MAX_PER_REQUEST,
        shown=str(MAX_PER_REQUEST),
    ),
    Option(
        "settingsFromQueue",
        parsers.flag,
        Side.SOURCE,
        "Take `visibilityTimeout` and `maxDequeueCount` from each queue's metadata"
        " (`defaulttimeout` in seconds, `poisonthreshold`), if they are there and the option is not"
        " set. Needs permission to read metadata (SAS `r`). Read once, at the start.",
        default=False,
        shown="false",
    ),
    Option(
        "maxDequeueCount",
        parsers.whole_number(1, 1_000_000),
        Side.SOURCE,
        "Detect poison messages: a message that was dequeued more often than this, and whose batch"
        " failed when it was alone in it, is moved to the poison queue. Until then, redelivered"
        " messages come in ever smaller batches. Unset: no message is moved for its count.",
        field="max_dequeue_count",
    ),
    Option(
        "poisonQueue",
        queue_name,
        Side.SOURCE,
        "The queue for poison messages. They are moved unchanged and never expire there. Created if"
        " it does not exist.",
        field="poison_queue",
        shown="`<queue>-poison`",
    ),
    Option(
        "maxPollInterval",
        parsers.duration(0.1, 3600),
        Side.SOURCE,
        "Longest pause between two polls of an empty queue. Each poll is a billed request; a new"
        " message waits at most this long.",
        field="max_poll_interval",
        default=1.0,
        shown="1 second",
    ),
    Option(
        "queuePriority",
        parsers.one_of(QueuePriority),
        Side.SOURCE,
        "With several queues: `fair` gives those with a backlog equal numbers of messages. `strict`"
        " reads the queue that is named first, and each later one only while all before it are"
        " empty. A queue that is never empty then starves all after it, until their messages"
        " expire; see operations.md.",
        field="queue_priority",
        default=QueuePriority.FAIR,
        shown="fair",
    ),
    Option(
        "receiveParallelism",
        parsers.whole_number(1, 128),
        Side.SOURCE,
        "Most concurrent dequeue requests (of up to 32 messages each), over all queues.",
        field="receive_parallelism",
        default=8,
        shown="8",
    ),
    Option(
        "dequeueAhead",
        parsers.flag,
        Side.SOURCE,
        "While Spark works on a full batch, lease the next one. If the process is killed, that"
        " batch is in no checkpoint: its messages come back when their visibility timeout ends.",
        field="dequeue_ahead",
        default=True,
        shown="true",
    ),
    Option(
        "deleteParallelism",
        parsers.whole_number(1, 128),
        Side.SOURCE,
        "Most concurrent delete requests (one per message).",
        field="delete_parallelism",
        default=64,
        shown="64",
    ),
    Option(
        "deleteOnCommit",
        parsers.flag,
        Side.SOURCE,
        "Delete the messages of a committed micro-batch. With `false`, deleting is up to you, and a"
        " message that was not deleted comes back when its visibility timeout ends.",
        field="delete_on_commit",
        default=True,
        shown="true",
    ),
    Option(
        "writeAheadLog",
        log_place,
        Side.SOURCE,
        "Store each micro-batch in a log before Spark gets it, so that a restart gives the same"
        " rows again: `blob:<container>/<folder>` (in the queue's account with its credential, or"
        " as `blobAccountUrl` and `secret.blobConnectionString` say), or `file:/<folder>` (a disk"
        " or NFS). One folder for each query. `blob:` needs `pip install 'spark-azqueue[blob]'`."
        " The peek ignores it.",
    ),
    Option(
        "deleteAfter",
        parsers.one_of(DeleteAfter),
        Side.SOURCE,
        "With `writeAheadLog`: delete the messages of a batch when it is committed (`commit`), or"
        " as soon as the log has it (`log`). With `log` no lease has to outlast a batch, and nobody"
        " else ever gets these messages; the log is then the only place that has them.",
        default=DeleteAfter.COMMIT,
        shown="commit",
    ),
    Option(
        "writeAheadLogRetention",
        parsers.whole_number(10, 100_000),
        Side.SOURCE,
        "How many batches the log keeps behind the newest committed one. A checkpoint can be rolled"
        " back that far.",
        default=100,
        shown="100",
    ),
    Option(
        "failOnDataLoss",
        parsers.flag,
        Side.SOURCE,
        "With `writeAheadLog`: stop if a batch that Spark asks for is no longer in the log. With"
        " `false`, such a batch is empty, with a warning in the log of the driver.",
        default=True,
        shown="true",
    ),
    Option(
        "writeAheadLogStart",
        parsers.one_of(LogStart),
        Side.SOURCE,
        "What a new checkpoint does with a log that has committed batches: begin with the"
        " `earliest` batch that the log has, or `afterCommitted` ones. Take a new output with it."
        " Unset: stop.",
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
        "deleteBlob",
        parsers.flag,
        Side.SOURCE,
        "With `largeBody=blob`: delete a message's blob after the message is deleted. With `false`,"
        " blobs stay.",
        default=True,
        shown="true",
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
        parsers.whole_number(1, 128),
        Side.SINK,
        "Most concurrent requests (one per message) in each task.",
        field="send_parallelism",
        default=32,
        shown="32",
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
