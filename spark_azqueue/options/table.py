"""Every option, declared once: name, parser, default, side, secret, meaning.

Spark hands names over in lower case; users see the spelling of this table. `docs/options.md` is
generated from it. What they make together is in `source_config` and `sink_config`.
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
from .choices import LargeBody, OnStaleReceipt, OnUndecodable, Operation, Side


@dataclass(frozen=True)
class Option:
    """One row of the table. `default` is a parsed value; `shown` is how the reference prints it.

    field: the field of the config that takes the value as it is. Without one, the value is used
    while the config is made (see `source_config` and `sink_config`).
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
        "Source: the queue to read, or several with commas between them. Sink: the queue to write"
        " to, where a row has no `queue` of its own.",
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
        " clear. Prefer `secret.connectionString`.",
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
        "Microsoft Entra identity, by azure-identity: `default`, `managedIdentity`,"
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
        " default); for reading also `auto`: base64 where a text is that, see"
        " [encoding.md](encoding.md).",
        field="encoding",
        default=Encoding.NONE,
        shown="none",
    ),
    Option(
        "createQueue",
        parsers.flag,
        Side.BOTH,
        "Create a queue that does not exist, rather than stop; the sink also creates the"
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
        "The container of these blobs, required with `largeBody=blob`. A source looks into no"
        " other.",
    ),
    Option(
        "blobAccountUrl",
        parsers.text,
        Side.BOTH,
        "Blob endpoint, where it is not the queue's with `.queue.` replaced by `.blob.`; the"
        " credential is the queue's.",
        shown="beside the queue endpoint",
    ),
    Option(
        "secret.blobConnectionString",
        parsers.text,
        Side.BOTH,
        "Connection string of another storage account, or of another credential, for the blobs.",
        shown="the queue's credential",
        secret=True,
    ),
    Option(
        "visibilityTimeout",
        _visibility_timeout,
        Side.SOURCE,
        "How long a dequeued message stays hidden from other consumers: 1 second to 7 days, or"
        " `auto`: sized from how long micro-batches take (1 minute to 1 hour, 5 minutes at first)."
        " It is renewed while a batch runs, so a short one loses nothing; an ordinary batch should"
        " take less than half of it, and never need that.",
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
        " Requests already under way (`receiveParallelism`, up to 2 MiB each) still come in.",
        field="max_bytes",
        default=32 * 2**20,
        shown="32m",
    ),
    Option(
        "messagesPerPartition",
        parsers.whole_number(1, 100_000),
        Side.SOURCE,
        "Most messages in one partition. A partition costs Spark about 30 ms, so make about as"
        " many as there are cores. A partition also ends at 900 KiB.",
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
        "A message that does not decode: `fail` stops the query and gives back what it had leased;"
        " `poison` moves it to the poison queue; `permissive` gives a row with a null `body` and"
        " the raw text in the extra column `_corrupt_record`.",
        field="on_undecodable",
        shown="fail; poison where `maxDequeueCount` is set",
    ),
    Option(
        "peekMessages",
        parsers.whole_number(1, MAX_PER_REQUEST),
        Side.SOURCE,
        "`spark.read` only: how many messages of each queue to look at. The service shows at most"
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
        " (`defaulttimeout` in seconds, `poisonthreshold`), where they are there and the option is"
        " not set. Needs permission to read metadata (SAS `r`); read once, at the start.",
        default=False,
        shown="false",
    ),
    Option(
        "maxDequeueCount",
        parsers.whole_number(1, 1_000_000),
        Side.SOURCE,
        "Set poison messages aside: one that was dequeued more often than this, and whose batch"
        " failed when it was alone in it, is moved to the poison queue. Messages that come back are"
        " given out in ever smaller batches until then. Unset: nothing is ever moved.",
        field="max_dequeue_count",
    ),
    Option(
        "poisonQueue",
        queue_name,
        Side.SOURCE,
        "Where poison messages go, unchanged and never expiring; created if need be.",
        field="poison_queue",
        shown="`<queue>-poison`",
    ),
    Option(
        "maxPollInterval",
        parsers.duration(0.1, 3600),
        Side.SOURCE,
        "Longest pause between two looks at an empty queue. Each look is a billed request; a new"
        " message waits at most this long.",
        field="max_poll_interval",
        default=1.0,
        shown="1 second",
    ),
    Option(
        "receiveParallelism",
        parsers.whole_number(1, 128),
        Side.SOURCE,
        "Most dequeue requests (of up to 32 messages) under way at once, over all queues.",
        field="receive_parallelism",
        default=8,
        shown="8",
    ),
    Option(
        "dequeueAhead",
        parsers.flag,
        Side.SOURCE,
        "While Spark works on a full batch, lease the next one. A killed process leaves it leased"
        " and in no checkpoint: those messages come back when their visibility timeout is over.",
        field="dequeue_ahead",
        default=True,
        shown="true",
    ),
    Option(
        "deleteParallelism",
        parsers.whole_number(1, 128),
        Side.SOURCE,
        "Most delete requests (one a message) under way at once.",
        field="delete_parallelism",
        default=64,
        shown="64",
    ),
    Option(
        "deleteOnCommit",
        parsers.flag,
        Side.SOURCE,
        "Delete the messages of a committed micro-batch. With `false` deleting is up to you, and a"
        " message that was not deleted comes again when its visibility timeout ends.",
        field="delete_on_commit",
        default=True,
        shown="true",
    ),
    Option(
        "operation",
        parsers.one_of(Operation),
        Side.SINK,
        "What to do with each row: `enqueue` it as a new message; or, by the `message_id` and"
        " `pop_receipt` that the source gave with `deleteOnCommit=false`, `update` the message"
        " (show it again after `visibility_delay`; a `body` that is not null replaces its text) or"
        " `delete` it. See [acknowledging.md](acknowledging.md).",
        field="operation",
        default=Operation.ENQUEUE,
        shown="enqueue",
    ),
    Option(
        "onStaleReceipt",
        parsers.one_of(OnStaleReceipt),
        Side.SINK,
        "What an update or delete does whose receipt is not valid any more: `ignore` counts and"
        " logs it for each task, `fail` stops the write.",
        field="on_stale_receipt",
        default=OnStaleReceipt.IGNORE,
        shown="ignore",
    ),
    Option(
        "deleteBlob",
        parsers.flag,
        Side.SOURCE,
        "With `largeBody=blob`: delete the blob of a message once that is deleted. With `false`"
        " blobs stay.",
        default=True,
        shown="true",
    ),
    Option(
        "visibilityDelay",
        parsers.duration(0, WEEK_S, whole=True),
        Side.SINK,
        "How long a new or updated message stays invisible, where a row has no `visibility_delay`:"
        " up to 7 days, and for a new one shorter than the time to live.",
        field="visibility_delay",
        default=0,
        shown="0",
    ),
    Option(
        "timeToLive",
        _time_to_live,
        Side.SINK,
        "When a message that nobody deleted expires, where a row has no `time_to_live`; -1 ="
        " never.",
        field="time_to_live",
        shown="the service's: 7 days",
    ),
    Option(
        "sendParallelism",
        parsers.whole_number(1, 128),
        Side.SINK,
        "Most requests (one a message) under way at once in each task.",
        field="send_parallelism",
        default=32,
        shown="32",
    ),
    Option(
        "ignoreExtraColumns",
        parsers.flag,
        Side.SINK,
        "Leave out columns that the sink does not know, rather than refuse them.",
        field="ignore_extra_columns",
        default=False,
        shown="false",
    ),
)
