"""The configuration of one source (a stream or a peek), with declared and checked options.

The configuration is frozen and complete. Spark pickles it for the processes that read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from spark_azqueue.errors import InvalidOption
from spark_azqueue.service.encoding import BodyType
from spark_azqueue.service.messages import (
    MAX_PER_REQUEST,
    MAX_VISIBILITY_S,
    MIN_VISIBILITY_S,
    MOST_IN_A_BATCH,
    QueueRef,
    queue_name,
)

from . import parsers
from .account import SharedConfig, read_account
from .blobs import BLOB_OPTIONS, ClaimCheck, read_claim_check
from .choices import IsolationLevel, OnUndecodable, PoisonFormat, QueuePriority
from .log import (
    LEASE_ON,
    ExecutorsConfig,
    LogConfig,
    check_executors,
    check_log,
    check_place,
    read_executors,
    read_log,
)
from .option import Option, ParsedOptions, made_of, option, options_of, shared, taken
from .replay import check_no_replay
from .selection import POISON_SUFFIX, QueueSelection, is_pattern

QUEUE_DECIDES = ("visibilityTimeout", "maxDequeueCount", "onUndecodable")
"""Options that a queue's metadata can set with settingsFromQueue. The last option is set
indirectly: it depends on maxDequeueCount.
"""

_OF_POISON = {"maxDequeueCount", "poisonQueue", "poisonFormat"}

_LONGEST_S: Mapping[str, tuple[int, str]] = {
    "visibilityTimeout": (3600, "After a crash messages stay hidden for so long"),
    "maxPollInterval": (60, "A message that comes into an empty queue waits for so long"),
    "maxTriggerDelay": (3600, "A message may wait for others for so long"),
}
"""For each duration that users may set in milliseconds by mistake: the number of seconds above
which a number without a unit is logged as a warning, and the effect of such a value.
"""


@dataclass(frozen=True, kw_only=True)
class SourceConfig(SharedConfig):
    """The source's settings. Times are in seconds, sizes in bytes.

    visibility_timeout, max_messages, messages_per_partition: None if the source chooses the value
    by the duration of batches. max_dequeue_count: None if poison messages are not detected.
    asks_for_poison: True if the options or a queue's metadata require dead-lettering. In this case,
    a start fails if messages cannot be dead-lettered.
    """

    selection: QueueSelection
    visibility_timeout: int | None = option(
        "visibilityTimeout",
        parsers.or_auto(parsers.duration(MIN_VISIBILITY_S, MAX_VISIBILITY_S, whole=True)),
        "How long a dequeued message stays hidden from other consumers: 1 second to 7 days, or"
        " `auto`: chosen from how long micro-batches take (1 minute to 1 hour)."
        " Leases are renewed while a batch runs, so a short timeout loses nothing. An ordinary"
        " batch should take less than half of it, so that no renewal is needed. With"
        " `leaseOn=executors`: at least 30 seconds, `auto` is 90, and nothing is renewed.",
        shown="auto",
    )
    max_messages: int | None = option(
        "maxMessagesPerTrigger",
        parsers.or_auto(parsers.whole_number(1, MOST_IN_A_BATCH)),
        "Most messages in one micro-batch. `auto` begins with 4,096. After a full batch, the next"
        " one may have twice as many, up to 32,768, if it would take less than about 1.5 s, or if"
        " the last doubling brought more messages per second. After one that was not full, it may"
        " have half as many. With `leaseOn=executors` the number is for each task, and 6 s count.",
        shown="auto",
    )
    min_messages: int | None = option(
        "minMessagesPerTrigger",
        parsers.whole_number(1, MOST_IN_A_BATCH),
        "Begin no micro-batch before the queues together hold this many messages, or the first"
        " message has waited for `maxTriggerDelay`: few batches with many rows, from a trickle."
        " Nothing is leased meanwhile; the source counts the queues instead of polling them,"
        " and peeks at the first messages if the count changes (needs permission to read"
        " metadata and to peek, SAS `r`). The count is approximate, and includes hidden"
        " messages: leased by another consumer, or with a visibility delay. So the option has"
        " no effect while this many messages are hidden. Not used with `availableNow`, which"
        " reads the current messages, nor for the first batch of a run on Spark 4.0 and 4.1."
        " Unset: any number is enough.",
    )
    max_trigger_delay: float = option(
        "maxTriggerDelay",
        parsers.duration(1, 7 * 86_400),
        "With `minMessagesPerTrigger`: longest wait of a message for others, from its insertion"
        " on, even across a restart. A batch begins earlier if one of the first 32 messages of"
        " a queue expires within 30 seconds.",
        default=900.0,
        shown="15 minutes",
    )
    max_bytes: int = option(
        "maxBytesPerTrigger",
        parsers.byte_size(65_536, 2**31),
        "No further messages are dequeued for a micro-batch once it holds this many bytes."
        " Requests already under way (up to 2 MiB each) are still added.",
        default=32 * 2**20,
        shown="32m",
    )
    messages_per_partition: int | None = option(
        "messagesPerPartition",
        parsers.or_auto(parsers.whole_number(1, 100_000)),
        "Most messages in one partition, which is one task of Spark, or `auto`: 1,024, and up"
        " to 4,096 if a large batch then still has eight partitions. A partition also ends at"
        " about 900 KiB, compressed, and at 8 MiB of texts; with bodies of 8 KiB and more, as"
        " they are sent, at up to 4 MiB and 16 MiB.",
        shown="auto",
    )
    body_type: BodyType = option(
        "bodyType",
        parsers.one_of(BodyType),
        "Type of the column `body`: `string` or `binary`.",
        default=BodyType.STRING,
    )
    on_undecodable: OnUndecodable = option(
        "onUndecodable",
        parsers.one_of(OnUndecodable),
        "What to do with a message that does not decode: `fail` stops the query and releases"
        " its leases; `poison` moves the message to the poison queue; `permissive` returns a"
        " row with a null `body` and the raw text in the extra column `_corrupt_record`.",
        shown="poison; fail with `maxDequeueCount=none`",
    )
    peek_messages: int = option(
        "peekMessages",
        parsers.whole_number(1, MAX_PER_REQUEST),
        "`spark.read` only: how many messages to peek at in each queue. The service returns at most"
        f" {MAX_PER_REQUEST}.",
        default=MAX_PER_REQUEST,
    )
    left_to_queue: frozenset[str] = made_of(
        Option(
            "settingsFromQueue",
            parsers.flag,
            "Read `visibilityTimeout` and `maxDequeueCount` from each queue's metadata"
            " (`defaulttimeout` in seconds, `poisonthreshold`), if the metadata has them and"
            " the option is not set. Needs permission to read metadata (SAS `r`). Read once, at"
            " the start.",
            default=False,
        )
    )
    """With settingsFromQueue: names of the options that the user did not set, so that the queues'
    metadata may set them.
    """
    max_dequeue_count: int | None = shared(
        Option(
            "maxDequeueCount",
            parsers.or_auto(parsers.whole_number(1, 1_000_000), "none", "0"),
            "Move a message to the poison queue if more consecutive batches with it than this"
            " failed. The last of them have only this message, each directly after a commit of"
            " another batch, often enough to rule out chance. Off with `none` or 0. With a"
            " `writeAheadLog` it is off unless you set it: rows of an abandoned batch may come"
            " twice.",
            default=5,
        )
    )
    max_poison_messages: int = option(
        "maxPoisonMessages",
        parsers.whole_number(0, 1_000_000_000),
        "The query fails instead of moving more poison messages than this plus a tenth of the"
        " delivered ones: the cause is then the data, the code, or a target that is down."
        " Bodies that do not decode are counted separately.",
        default=20,
    )
    poison_queue: str | None = option(
        "poisonQueue",
        queue_name,
        "The queue for poison messages, which never expire there. Created for the first one.",
        shown="`<queue>-poison`",
    )
    poison_format: PoisonFormat = option(
        "poisonFormat",
        parsers.one_of(PoisonFormat),
        "Form of a message in the poison queue: `envelope`, a JSON object with the reason, the"
        " queue, the id and the text, which `python -m spark_azqueue redrive` opens; or `copy`,"
        " the message's text unchanged. A text that leaves no room for an envelope is copied"
        " unchanged; a text that the service would refuse is in an envelope even with `copy`.",
        default=PoisonFormat.ENVELOPE,
    )
    max_poll_interval: float = option(
        "maxPollInterval",
        parsers.duration(0.1, 3600),
        "Longest pause between two polls of an empty queue. Each poll is a billed request; a new"
        " message waits at most this long.",
        default=1.0,
        shown="1 second",
    )
    queue_priority: QueuePriority = option(
        "queuePriority",
        parsers.one_of(QueuePriority),
        "With several queues: `fair` gives those with a backlog equal numbers of messages."
        " `strict` reads the first named queue, and a later queue only while all queues before"
        " it are empty. A queue that is never empty then starves all later queues, until their"
        " messages expire; see scaling.md.",
        default=QueuePriority.FAIR,
    )
    isolation_level: IsolationLevel = option(
        "isolationLevel",
        parsers.one_of(IsolationLevel),
        "`readCommitted`, for queues that a transactional sink writes: no row for a message"
        " that, when it is read, expires within two seconds by the service's clock, because a"
        " transaction may have abandoned it. Such a message expires, and is counted"
        " (`skipped_near_expiry`), even if it was sent without a transaction; `readUncommitted`"
        " returns a row for each message.",
        default=IsolationLevel.READ_UNCOMMITTED,
    )
    dequeue_ahead: bool = option(
        "dequeueAhead",
        parsers.flag,
        "While Spark works on a full batch, lease the next one. If the process is killed, no"
        " checkpoint has this batch: its messages come back when their visibility timeout ends"
        " (a minute with `auto` and batches of up to 12 seconds). Not with"
        " `deleteOnCommit=false` and a timeout of more than a minute.",
        default=True,
    )
    delete_on_commit: bool = option(
        "deleteOnCommit",
        parsers.flag,
        "Delete the messages of a committed micro-batch. With `false`, you delete them, and a"
        " message that is not deleted comes back when its visibility timeout ends.",
        default=True,
    )
    write_ahead_log: LogConfig | None = made_of(*options_of(LogConfig))
    executors: ExecutorsConfig | None = made_of(LEASE_ON, *options_of(ExecutorsConfig))
    """Set with leaseOn=executors."""
    claim_check: ClaimCheck | None = made_of(*BLOB_OPTIONS)
    """Set with largeBody=blob."""
    asks_for_poison: bool = False
    doubts: tuple[str, ...] = ()
    """Warnings that are logged at the start."""

    @property
    def queues(self) -> tuple[QueueRef, ...]:
        """The queues that the option `queue` names. Queues that match a pattern are found later."""
        return self.selection.named

    @property
    def uses_poison_queues(self) -> bool:
        """True if messages may be moved to a poison queue."""
        return self.max_dequeue_count is not None or self.on_undecodable is OnUndecodable.POISON

    def poison_queues_of(self, queues: Iterable[QueueRef]) -> tuple[QueueRef, ...]:
        """Return the poison queues of these queues, each once; no queues if messages are never
        moved.
        """
        if not self.uses_poison_queues:
            return ()
        return tuple(dict.fromkeys(map(self.poison_queue_for, queues)))

    def poison_queue_for(self, queue: QueueRef) -> QueueRef:
        """Return the queue for this queue's poison messages, in the same account."""
        return self.selection.poison_queue_for(queue)


def read_source(values: ParsedOptions, environment: Mapping[str, str]) -> SourceConfig:
    """Make the config of a source (stream or peek) from its parsed options.

    Raises InvalidOption. Sends no request.
    """
    account = read_account(values, environment)
    if not values["queue"]:
        raise InvalidOption("option 'queue' is missing: name the queue to read, or several")
    as_they_are = taken(SourceConfig, values)
    left_to_queue = frozenset(QUEUE_DECIDES) if values["settingsFromQueue"] else frozenset()
    if "maxTriggerDelay" in values.written and values["minMessagesPerTrigger"] is None:
        raise InvalidOption(
            "'maxTriggerDelay' is set, and it is for minMessagesPerTrigger: set that, too. A"
            " message does not wait without it"
        )
    check_no_replay(values)
    check_place(values)
    write_ahead_log = read_log(values, account)
    executors = read_executors(values, write_ahead_log)
    if as_they_are["on_undecodable"] is None:
        as_they_are["on_undecodable"] = on_undecodable_for(as_they_are["max_dequeue_count"])
    if write_ahead_log and "maxDequeueCount" not in values.written:
        # The sink may already have rows of a failing batch. If the source delivered them again
        # under another batch number, the sink would have them twice.
        as_they_are["max_dequeue_count"] = None
    config = SourceConfig(
        account=account,
        selection=QueueSelection(account.name, values["queue"], values["poisonQueue"]),
        left_to_queue=left_to_queue.difference(values.written),
        claim_check=read_claim_check(values, account),
        write_ahead_log=write_ahead_log,
        executors=executors,
        asks_for_poison=bool(_OF_POISON & values.written.keys())
        or values["onUndecodable"] is OnUndecodable.POISON,
        doubts=tuple(_doubts_of(values)),
        **as_they_are,
    )
    try:
        _check_poison_queues(config)
    except InvalidOption as error:
        if config.asks_for_poison:
            raise
        config = replace(
            config,
            max_dequeue_count=None,
            on_undecodable=values["onUndecodable"] or OnUndecodable.FAIL,
            doubts=(*config.doubts, f"no message is dead-lettered: {error.sentence}"),
        )
    check_combination(config)
    return config


def check_combination(config: SourceConfig) -> None:
    """Raise InvalidOption for settings that conflict."""
    if config.min_messages and config.max_messages and config.min_messages > config.max_messages:
        raise InvalidOption(
            f"minMessagesPerTrigger={config.min_messages} is more than"
            f" maxMessagesPerTrigger={config.max_messages}: a batch would never have so many. Lower"
            " the one, or raise the other"
        )
    if config.executors:
        check_executors(config.visibility_timeout)
    if config.write_ahead_log:
        check_log(
            config.write_ahead_log,
            delete_on_commit=config.delete_on_commit,
            max_dequeue_count=None if config.executors else config.max_dequeue_count,
            max_bytes=0 if config.executors else config.max_bytes,  # each slot has its own limit
        )
    _check_poison_queues(config)
    if config.left_to_queue and config.selection.patterns:
        raise InvalidOption(
            f"settingsFromQueue=true needs every queue by name: '{config.selection.patterns[0]}'"
            " would find queues, with other settings, while the query runs"
        )


def on_undecodable_for(max_dequeue_count: int | None) -> OnUndecodable:
    """Return the default of `onUndecodable` for this `maxDequeueCount`."""
    return OnUndecodable.FAIL if max_dequeue_count is None else OnUndecodable.POISON


def _check_poison_queues(config: SourceConfig) -> None:
    """Raise InvalidOption if a poison queue is forbidden, or would never be used."""
    if not config.uses_poison_queues:
        idle = "poisonQueue" if config.poison_queue else "poisonFormat"
        is_set = config.poison_queue or config.poison_format is not PoisonFormat.ENVELOPE
        if is_set and "maxDequeueCount" not in config.left_to_queue:
            raise InvalidOption(
                f"'{idle}' is set, but nothing would ever go into a poison queue: remove it, or set"
                " 'maxDequeueCount', or onUndecodable=poison"
            )
        return
    for queue in config.queues:
        poison = config.poison_queue_for(queue)
        source = QueueRef(queue.account, queue.name.removesuffix(POISON_SUFFIX))
        if source != queue and config.poison_queue is None and config.selection.includes(source):
            poison = queue  # for queues that match a pattern
        if poison in config.queues:
            raise InvalidOption(
                f"the poison queue '{poison.name}' is one of the queues to read; set another"
                " 'poisonQueue', or maxDequeueCount=none"
            )
        check_poison_name(poison)


def check_poison_name(poison: QueueRef) -> None:
    """Raise InvalidOption if the name of a queue's default poison queue is not legal."""
    try:
        queue_name(poison.name)
    except ValueError:
        raise InvalidOption(
            f"the default poison queue '{poison.name}' is no legal name (at most 63"
            " characters); set 'poisonQueue', or maxDequeueCount=none"
        ) from None


def _doubts_of(values: ParsedOptions) -> Iterator[str]:
    """Yield the warnings to log at the start. Each is a sentence that says what to write in place
    of a value."""
    for name, (longest_s, effect) in _LONGEST_S.items():
        text = values.written.get(name, "").strip()
        if not re.fullmatch(r"\d{1,7}", text) or int(text) <= longest_s:
            continue
        size, unit = (3600, "hours") if int(text) >= 3600 else (60, "minutes")
        yield (
            f"option '{name}' is {text}, and a number alone is in seconds:"
            f" {int(text) / size:.1f} {unit}. {effect}. Write the unit, as in '30 seconds', or"
            f" '{text} seconds' if that is meant"
        )
    if values["settingsFromQueue"] and {"visibilityTimeout", "maxDequeueCount"} <= set(
        values.written
    ):
        yield (
            "settingsFromQueue=true has no effect, since visibilityTimeout and maxDequeueCount are"
            " both set: remove it, or what the queue is to decide"
        )
    first, *others = values["queue"]
    is_strict = values["queuePriority"] is QueuePriority.STRICT
    if is_strict and not others and not is_pattern(first):
        yield (
            f"queuePriority=strict has no effect with one queue ('{first}'): name the others in"
            " 'queue', behind it, or remove the option"
        )
