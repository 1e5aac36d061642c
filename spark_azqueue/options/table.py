"""Every option, declared once: name, parser, default, side, secret, meaning.

Spark hands names over in lower case; users see the spelling of this table. `docs/options.md` is
generated from it. What the options make together (configs) is in `config.py`.
Ring: core (standard library only).
"""

from __future__ import annotations

import difflib
import enum
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from . import parsing
from .account import IdentityKind
from .errors import InvalidOption
from .leases import MAX_VISIBILITY_S, MIN_VISIBILITY_S, MOST_IN_A_BATCH
from .messages import MAX_PER_REQUEST, BodyType, Encoding

WEEK_S = 7 * 24 * 3600
NEVER_EXPIRES = -1


class Side(enum.Flag):
    """Who understands an option."""

    SOURCE = enum.auto()
    SINK = enum.auto()
    BOTH = SOURCE | SINK


class OnUndecodable(str, enum.Enum):
    """What to do with a message whose text does not decode."""

    FAIL = "fail"
    POISON = "poison"
    PERMISSIVE = "permissive"


class LargeBody(str, enum.Enum):
    """What becomes of a body that is too large for a message."""

    FAIL = "fail"
    BLOB = "blob"


class Operation(str, enum.Enum):
    """What the sink does with a row."""

    ENQUEUE = "enqueue"
    UPDATE = "update"
    DELETE = "delete"


class OnStaleReceipt(str, enum.Enum):
    """What the sink does where a row's pop receipt is not valid any more."""

    IGNORE = "ignore"
    FAIL = "fail"


@dataclass(frozen=True)
class Option:
    """One row of the table. `default` is a parsed value; `shown` is how the reference prints it."""

    name: str
    parse: Callable[[str], Any]
    side: Side
    doc: str
    default: Any = None
    shown: str = ""
    secret: bool = False


def _visibility_timeout(value: str) -> int | None:
    """Seconds, or None for `auto`."""
    if value.strip().lower() == "auto":
        return None
    try:
        return int(parsing.duration(MIN_VISIBILITY_S, MAX_VISIBILITY_S, whole=True)(value))
    except ValueError as error:
        raise ValueError(f"auto, or {error}") from None


def _time_to_live(value: str) -> int:
    if value.strip() == str(NEVER_EXPIRES):
        return NEVER_EXPIRES
    try:
        return int(parsing.duration(1, 2**31 - 1, whole=True)(value))
    except ValueError:
        raise ValueError(
            "whole seconds from 1 up, or -1 for a message that never expires"
        ) from None


OPTIONS: tuple[Option, ...] = (
    Option(
        "queue",
        parsing.queue_names,
        Side.BOTH,
        "Source: the queue to read, or several with commas between them. Sink: the queue to write"
        " to, where a row has no `queue` of its own.",
        shown="(required; the sink may name it per row)",
    ),
    Option(
        "secret.connectionString",
        parsing.text,
        Side.BOTH,
        "Connection string of the storage account: with an account key, or with a SAS.",
        shown="environment variable `AZURE_STORAGE_CONNECTION_STRING`",
        secret=True,
    ),
    Option(
        "connectionString",
        parsing.text,
        Side.BOTH,
        "The same under a name that Spark does not redact: query plans and event logs show it in"
        " clear. Prefer `secret.connectionString`.",
        secret=True,
    ),
    Option(
        "accountUrl",
        parsing.text,
        Side.BOTH,
        "Queue endpoint, `https://<account>.queue.core.windows.net`; goes with one of the four"
        " options below.",
    ),
    Option("accountAccessKey", parsing.text, Side.BOTH, "Access key of the account.", secret=True),
    Option(
        "sasToken",
        parsing.text,
        Side.BOTH,
        "Shared access signature. The source needs the letters `p` and `u` (with"
        " `settingsFromQueue` also `r`), the sink `a` (to update `u`, to delete `p`), a peek `r`.",
        secret=True,
    ),
    Option(
        "credential",
        parsing.one_of(IdentityKind),
        Side.BOTH,
        "Microsoft Entra identity, by azure-identity: `default`, `managedIdentity`,"
        " `workloadIdentity`, `servicePrincipal` or `azureCli`.",
    ),
    Option(
        "credentialProvider",
        parsing.text,
        Side.BOTH,
        "`package.module:callable` that returns an `azure.core` TokenCredential; called once in"
        " each process.",
    ),
    Option("tenantId", parsing.text, Side.BOTH, "Entra tenant, with `credential`."),
    Option(
        "clientId",
        parsing.text,
        Side.BOTH,
        "Entra application, or the user-assigned managed identity, with `credential`.",
    ),
    Option(
        "clientSecret",
        parsing.text,
        Side.BOTH,
        "Secret of the application, with `credential=servicePrincipal`.",
        secret=True,
    ),
    Option(
        "messageEncoding",
        parsing.one_of(Encoding),
        Side.BOTH,
        "How bodies are stored: `none` (as text) or `base64` (as Azure Functions expects by"
        " default); for reading also `auto`: base64 where a text is that, see"
        " [encoding.md](encoding.md).",
        default=Encoding.NONE,
        shown="none",
    ),
    Option(
        "createQueue",
        parsing.flag,
        Side.BOTH,
        "Create a queue that does not exist, rather than stop; the sink also creates the"
        " `blobContainer`.",
        default=False,
        shown="false",
    ),
    Option(
        "largeBody",
        parsing.one_of(LargeBody),
        Side.BOTH,
        "A body over 64 KiB as stored: the sink `fail`s, or puts it into a `blob` and sends a small"
        " reference, which a source with `largeBody=blob` turns back into the body. See"
        " [claim-check.md](claim-check.md). Needs `pip install 'spark-azqueue[blob]'`.",
        default=LargeBody.FAIL,
        shown="fail",
    ),
    Option(
        "blobContainer",
        parsing.container_name,
        Side.BOTH,
        "The container of these blobs, required with `largeBody=blob`. A source looks into no"
        " other.",
    ),
    Option(
        "blobAccountUrl",
        parsing.text,
        Side.BOTH,
        "Blob endpoint, where it is not the queue's with `.queue.` replaced by `.blob.`; the"
        " credential is the queue's.",
        shown="beside the queue endpoint",
    ),
    Option(
        "secret.blobConnectionString",
        parsing.text,
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
        shown="auto",
    ),
    Option(
        "maxMessagesPerTrigger",
        parsing.whole_number(1, MOST_IN_A_BATCH),
        Side.SOURCE,
        "Most messages in one micro-batch.",
        default=4096,
        shown="4096",
    ),
    Option(
        "maxBytesPerTrigger",
        parsing.byte_size(65_536, 2**31),
        Side.SOURCE,
        "No further messages are dequeued for a micro-batch once it holds this many bytes."
        " Requests already under way (`receiveParallelism`, up to 2 MiB each) still come in.",
        default=32 * 2**20,
        shown="32m",
    ),
    Option(
        "messagesPerPartition",
        parsing.whole_number(1, 100_000),
        Side.SOURCE,
        "Most messages in one partition. A partition costs Spark about 30 ms, so make about as"
        " many as there are cores. A partition also ends at 900 KiB.",
        default=1024,
        shown="1024",
    ),
    Option(
        "bodyType",
        parsing.one_of(BodyType),
        Side.SOURCE,
        "Type of the column `body`: `string` or `binary`.",
        default=BodyType.STRING,
        shown="string",
    ),
    Option(
        "onUndecodable",
        parsing.one_of(OnUndecodable),
        Side.SOURCE,
        "A message that does not decode: `fail` stops the query and gives back what it had leased;"
        " `poison` moves it to the poison queue; `permissive` gives a row with a null `body` and"
        " the raw text in the extra column `_corrupt_record`.",
        shown="fail; poison where `maxDequeueCount` is set",
    ),
    Option(
        "peekMessages",
        parsing.whole_number(1, MAX_PER_REQUEST),
        Side.SOURCE,
        "`spark.read` only: how many messages of each queue to look at. The service shows at most"
        f" {MAX_PER_REQUEST}.",
        default=MAX_PER_REQUEST,
        shown=str(MAX_PER_REQUEST),
    ),
    Option(
        "settingsFromQueue",
        parsing.flag,
        Side.SOURCE,
        "Take `visibilityTimeout` and `maxDequeueCount` from each queue's metadata"
        " (`defaulttimeout` in seconds, `poisonthreshold`), where they are there and the option is"
        " not set. Needs permission to read metadata (SAS `r`); read once, at the start.",
        default=False,
        shown="false",
    ),
    Option(
        "maxDequeueCount",
        parsing.whole_number(1, 1_000_000),
        Side.SOURCE,
        "Set poison messages aside: one that was dequeued more often than this, and whose batch"
        " failed when it was alone in it, is moved to the poison queue. Messages that come back are"
        " given out in ever smaller batches until then. Unset: nothing is ever moved.",
    ),
    Option(
        "poisonQueue",
        parsing.queue_name,
        Side.SOURCE,
        "Where poison messages go, unchanged and never expiring; created if need be.",
        shown="`<queue>-poison`",
    ),
    Option(
        "maxPollInterval",
        parsing.duration(0.1, 3600),
        Side.SOURCE,
        "Longest pause between two looks at an empty queue. Each look is a billed request; a new"
        " message waits at most this long.",
        default=1.0,
        shown="1 second",
    ),
    Option(
        "receiveParallelism",
        parsing.whole_number(1, 128),
        Side.SOURCE,
        "Most dequeue requests (of up to 32 messages) under way at once, over all queues.",
        default=8,
        shown="8",
    ),
    Option(
        "dequeueAhead",
        parsing.flag,
        Side.SOURCE,
        "While Spark works on a full batch, lease the next one. A killed process leaves it leased"
        " and in no checkpoint: those messages come back when their visibility timeout is over.",
        default=True,
        shown="true",
    ),
    Option(
        "deleteParallelism",
        parsing.whole_number(1, 128),
        Side.SOURCE,
        "Most delete requests (one a message) under way at once.",
        default=64,
        shown="64",
    ),
    Option(
        "deleteOnCommit",
        parsing.flag,
        Side.SOURCE,
        "Delete the messages of a committed micro-batch. With `false` deleting is up to you, and a"
        " message that was not deleted comes again when its visibility timeout ends.",
        default=True,
        shown="true",
    ),
    Option(
        "operation",
        parsing.one_of(Operation),
        Side.SINK,
        "What to do with each row: `enqueue` it as a new message; or, by the `message_id` and"
        " `pop_receipt` that the source gave with `deleteOnCommit=false`, `update` the message"
        " (show it again after `visibility_delay`; a `body` that is not null replaces its text) or"
        " `delete` it. See [acknowledging.md](acknowledging.md).",
        default=Operation.ENQUEUE,
        shown="enqueue",
    ),
    Option(
        "onStaleReceipt",
        parsing.one_of(OnStaleReceipt),
        Side.SINK,
        "What an update or delete does whose receipt is not valid any more: `ignore` counts and"
        " logs it for each task, `fail` stops the write.",
        default=OnStaleReceipt.IGNORE,
        shown="ignore",
    ),
    Option(
        "deleteBlob",
        parsing.flag,
        Side.SOURCE,
        "With `largeBody=blob`: delete the blob of a message once that is deleted. With `false`"
        " blobs stay.",
        default=True,
        shown="true",
    ),
    Option(
        "visibilityDelay",
        parsing.duration(0, WEEK_S, whole=True),
        Side.SINK,
        "How long a new or updated message stays invisible, where a row has no `visibility_delay`:"
        " up to 7 days, and for a new one shorter than the time to live.",
        default=0,
        shown="0",
    ),
    Option(
        "timeToLive",
        _time_to_live,
        Side.SINK,
        "When a message that nobody deleted expires, where a row has no `time_to_live`; -1 ="
        " never.",
        shown="the service's: 7 days",
    ),
    Option(
        "sendParallelism",
        parsing.whole_number(1, 128),
        Side.SINK,
        "Most requests (one a message) under way at once in each task.",
        default=32,
        shown="32",
    ),
    Option(
        "ignoreExtraColumns",
        parsing.flag,
        Side.SINK,
        "Leave out columns that the sink does not know, rather than refuse them.",
        default=False,
        shown="false",
    ),
)

# Spark passes some of its own options on to sources and sinks; they are not ours to judge.
_SPARKS_OWN = frozenset(
    {"checkpointlocation", "queryname", "outputmode", "triggerinterval", "partitionoverwritemode"}
    # Properties of a table: CREATE TABLE … USING azqueue.
    | {"provider", "owner", "comment", "external", "is_managed_location", "collation"}
)
_TABLES_COPY = "option."  # and each of a table's options once more, with this before its name


def parse(given: Mapping[str, str], side: Side) -> dict[str, Any]:
    """Parse options as Spark hands them over; every option of the table gets its value or default.

    Returns values by canonical name. Raises InvalidOption for an unknown name (with the nearest
    known one) or a bad value (with the value, unless secret, and what is allowed).
    """
    known = {option.name.lower(): option for option in OPTIONS}
    values = {option.name: option.default for option in OPTIONS}
    for key, value in given.items():
        lower = key.lower()
        if lower in _SPARKS_OWN or lower.startswith(_TABLES_COPY) or value is None:
            continue
        option = known.get(lower)
        if option is None:
            raise InvalidOption(_unknown(lower, side))
        if not option.side & side:
            other = "source" if side is Side.SINK else "sink"
            here = "sink" if side is Side.SINK else "source"
            raise InvalidOption(
                f"option '{option.name}' is for the {other}, not for the {here}; remove it"
            )
        try:
            values[option.name] = option.parse(str(value))
        except ValueError as error:
            shown = "its value (not shown)" if option.secret else repr(str(value))
            raise InvalidOption(
                f"option '{option.name}': {shown} is not allowed; expected {error}"
            ) from None
    return values


def named(given: Mapping[str, str]) -> frozenset[str]:
    """Canonical names of the options that were set, whatever to."""
    lower = {key.lower() for key, value in given.items() if value is not None}
    return frozenset(option.name for option in OPTIONS if option.name.lower() in lower)


def _unknown(lower: str, side: Side) -> str:
    if lower == "path":
        return "azqueue takes no path; name the queue with option 'queue'"
    names = [option.name for option in OPTIONS if option.side & side]
    begun = [name.lower() for name in names if name.lower().startswith(lower)]
    near = begun or difflib.get_close_matches(lower, [n.lower() for n in names], n=1, cutoff=0.5)
    hint = next((f"; did you mean '{n}'?" for n in names if near and n.lower() == near[0]), "")
    return f"unknown option '{lower}'{hint or '.'} Known options: {', '.join(names)}"


def reference(options: Iterable[Option] = OPTIONS) -> str:
    """The options reference as Markdown (what `docs/options.md` holds)."""
    lines = [
        "# Options",
        "",
        "<!-- Generated from spark_azqueue/options.py by `make docs`; do not edit. -->",
        "",
        'Names are case-insensitive. Durations are seconds (`"90"`) or text (`"5 minutes"`);'
        ' sizes are bytes, or `"512k"`, `"32m"`, `"1g"`.',
        "An unknown option is an error, so a typing mistake cannot go unnoticed.",
        "Values of options marked *secret* never show in an error of the connector.",
    ]
    for side, title in (
        (Side.BOTH, "For source and sink"),
        (Side.SOURCE, "For the source"),
        (Side.SINK, "For the sink"),
    ):
        lines += ["", f"## {title}", "", "| option | default | meaning |", "|---|---|---|"]
        for option in (option for option in options if option.side == side):
            name = f"`{option.name}`" + (" *(secret)*" if option.secret else "")
            lines.append(f"| {name} | {option.shown or 'unset'} | {option.doc} |")
    return "\n".join(lines) + "\n"
