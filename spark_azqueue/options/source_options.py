"""The options of the source."""

from __future__ import annotations

from spark_azqueue.service.messages import (
    MAX_PER_REQUEST,
    MAX_VISIBILITY_S,
    MIN_VISIBILITY_S,
    MOST_IN_A_BATCH,
    BodyType,
    queue_name,
)

from . import parsers
from .choices import (
    DeleteAfter,
    LogStart,
    OnUndecodable,
    QueuePriority,
    Side,
)
from .log_place import log_place
from .option import Option

SOURCE_OPTIONS: tuple[Option, ...] = (
    Option(
        "visibilityTimeout",
        parsers.or_auto(parsers.duration(MIN_VISIBILITY_S, MAX_VISIBILITY_S, whole=True)),
        Side.SOURCE,
        "How long a dequeued message stays hidden from other consumers: 1 second to 7 days, or"
        " `auto`: chosen from how long micro-batches take (1 minute to 1 hour)."
        " Leases are renewed while a batch runs, so a short timeout loses nothing. An ordinary"
        " batch should take less than half of it, so that no renewal is needed.",
        field="visibility_timeout",
        shown="auto",
    ),
    Option(
        "maxMessagesPerTrigger",
        parsers.or_auto(parsers.whole_number(1, MOST_IN_A_BATCH)),
        Side.SOURCE,
        "Most messages in one micro-batch, or `auto`: 4,096 at first; while there is a backlog,"
        " batches double up to 32,768 as long as they take about 1.5 s, or as long as that brings"
        " more messages per second.",
        field="max_messages",
        shown="auto",
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
        parsers.or_auto(parsers.whole_number(1, 100_000)),
        Side.SOURCE,
        "Most messages in one partition, of which Spark makes one task, or `auto`: 1,024, and up to"
        " 4,096 so that a large batch has eight partitions. A partition also ends at about 900 KiB,"
        " compressed, and at 8 MiB of texts; with bodies of 8 KiB and more, as they are sent, at up"
        " to 4 MiB and 16 MiB.",
        field="messages_per_partition",
        shown="auto",
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
        parsers.or_auto(parsers.whole_number(1, 128)),
        Side.SOURCE,
        "Most concurrent dequeue requests (of up to 32 messages each), over all queues. `auto`: up"
        " to 16, and no more than each queue turns out to take.",
        field="receive_parallelism",
        shown="auto",
    ),
    Option(
        "dequeueAhead",
        parsers.flag,
        Side.SOURCE,
        "While Spark works on a full batch, lease the next one. If the process is killed, that"
        " batch is in no checkpoint: its messages come back when their visibility timeout ends (a"
        " minute with `auto` and batches of up to 12 seconds). Not with `deleteOnCommit=false` and"
        " a timeout of more than a minute.",
        field="dequeue_ahead",
        default=True,
        shown="true",
    ),
    Option(
        "deleteParallelism",
        parsers.or_auto(parsers.whole_number(1, 128)),
        Side.SOURCE,
        "Most concurrent delete requests (one per message). `auto`: as many as each queue and the"
        " source's process turn out to take.",
        field="delete_parallelism",
        shown="auto",
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
        "How many batches the log keeps behind the newest committed one, at least 10. A checkpoint"
        " can be rolled back that far.",
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
        "deleteBlob",
        parsers.flag,
        Side.SOURCE,
        "With `largeBody=blob`: delete a message's blob after the message is deleted. With `false`,"
        " blobs stay.",
        default=True,
        shown="true",
    ),
)
