"""The options of the write-ahead log and of `leaseOn=executors`. This module sends no requests and
opens no files.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import partial

from spark_azqueue.errors import InvalidOption
from spark_azqueue.errors.conditions import Condition
from spark_azqueue.service.account import Account
from spark_azqueue.service.messages import container_name
from spark_azqueue.service.policy import check_log_root

from . import parsers
from .blobs import section
from .choices import DeleteAfter, LeaseOn, LogStart
from .option import Option, ParsedOptions, option, shared, taken

_invalid = partial(InvalidOption, condition=Condition.INVALID_LOG_OPTION)
_invalid_executors = partial(InvalidOption, condition=Condition.INVALID_EXECUTORS_OPTION)

MOST_STORED_BYTES = 256 * 2**20
"""Maximum size, in bytes, of a batch or a slot with a log, because each is stored as one object."""

_EXPECTED = "blob:<container>/<folder>, or file:/<folder> (an absolute path)"
_BLOB_FOLDER = re.compile(r"[0-9A-Za-z._/-]{1,200}")


@dataclass(frozen=True)
class LogPlace:
    """A folder for a log. container: None for a folder in a file system; its path is absolute."""

    container: str | None
    folder: str

    def __str__(self) -> str:  # the text of the option
        return f"blob:{self.container}/{self.folder}" if self.container else f"file:{self.folder}"


def log_place(value: str) -> LogPlace:
    """Parse the option. Raises ValueError with the rules.

    Raises InvalidOption if a policy forbids the folder.
    """
    scheme, _, rest = value.strip().partition(":")
    if scheme == "blob":
        return _blob_folder(rest)
    if scheme == "file":
        return _path(rest)
    raise ValueError(_EXPECTED)


def _blob_folder(text: str) -> LogPlace:
    container, _, folder = text.partition("/")
    try:
        container = container_name(container)
    except ValueError as error:
        raise ValueError(f"{_EXPECTED}, with {error}") from None
    if not _BLOB_FOLDER.fullmatch(folder) or any(
        not segment or segment.endswith(".") for segment in folder.split("/")
    ):
        raise ValueError(
            f"{_EXPECTED}, with a folder of 1 to 200 characters: letters, digits, '.', '_', '-'"
            " and '/'. No part of it is empty or ends with '.'"
        )
    return LogPlace(container, folder)


def _path(text: str) -> LogPlace:
    path = text.removeprefix("//") if text.startswith("///") else text
    segments = path.rstrip("/").split("/")
    if not path.isprintable() or segments.pop(0) or not segments:
        raise ValueError(_EXPECTED)
    if any(segment in ("", ".", "..") for segment in segments) or segments[0] == "~":
        raise ValueError(f"{_EXPECTED}, without '~', '.', '..' or '//' in it")
    path = "/" + "/".join(segments)
    check_log_root(path, os.environ)
    return LogPlace(None, path)


FAIL_ON_DATA_LOSS = Option(
    "failOnDataLoss",
    parsers.flag,
    "With `writeAheadLog`: stop if a batch that Spark asks for is no longer in the log. With"
    " `transactionLog`: stop if recorded messages expired before they were published, or if the"
    " log does not have the previous batch. With `readLog`: stop if a batch in the range is"
    " missing. With `false`, the query continues, with a warning in the log of the driver:"
    " without these rows, or with a batch that may be written twice.",
    default=True,
)
"""Option that applies to the log of a source and to the log of a sink."""


@dataclass(frozen=True)
class LogConfig:
    """The write-ahead log's settings.

    account: for a log in blobs, the account, whose `url` is the blob endpoint. start: batch at
    which a new checkpoint begins if the log has committed batches; None to refuse such a start.
    delete_after: when the messages of a batch are deleted.
    """

    place: LogPlace = option(
        "writeAheadLog",
        log_place,
        "Store each micro-batch in a log before Spark gets it, so that a restart delivers the"
        " same rows again: `blob:<container>/<folder>` (in the queue's account with its"
        " credential, or as `blobAccountUrl` and `secret.blobConnectionString` say), or"
        " `file:/<folder>` (a disk or NFS). One folder for each query. The peek ignores it.",
    )
    account: Account | None = None
    delete_after: DeleteAfter = option(
        "deleteAfter",
        parsers.one_of(DeleteAfter),
        "With `writeAheadLog`: delete the messages of a batch when it is committed (`commit`),"
        " or as soon as the log has it (`log`). With `log` no lease has to outlast a batch, and"
        " no other consumer gets these messages; only the log then has them.",
        default=DeleteAfter.COMMIT,
    )
    retention: parsers.Retention = option(
        "writeAheadLogRetention",
        parsers.retention,
        "How many batches the log keeps behind the newest committed one, at least 10; or how"
        " long it keeps each batch beyond the newest 100: `7 days`. A checkpoint can be rolled"
        " back this far, and [replay](exactly-once.md#replay) works this far. A log keeps"
        " 100,000 batches at most, with `leaseOn=executors` 100,000 objects.",
        default=parsers.Retention(),
    )
    fail_on_data_loss: bool = shared(FAIL_ON_DATA_LOSS)
    start: LogStart | None = option(
        "writeAheadLogStart",
        parsers.one_of(LogStart),
        "What a new checkpoint does with a log that has committed batches: begin with the"
        " `earliest` batch that the log has, or after the committed ones (`afterCommitted`)."
        " Use a new output, too. Unset: stop.",
    )


def read_log(values: ParsedOptions, account: Account) -> LogConfig | None:
    """Return the settings of the log, or None without `writeAheadLog`. Raises InvalidOption.

    account: account of the queues.
    """
    return section(LogConfig, values, account, _idle)


def _idle(name: str) -> InvalidOption:
    return _invalid(
        f"'{name}' is set, but there is no write-ahead log: set 'writeAheadLog', or remove '{name}'"
    )


def check_log(
    log: LogConfig, *, delete_on_commit: bool, max_dequeue_count: int | None, max_bytes: int
) -> None:
    """Raise InvalidOption if other settings of the source conflict with its log."""
    if not delete_on_commit:
        raise _invalid(
            "deleteOnCommit=false does not go with 'writeAheadLog': after a restart, rows of the"
            " log have pop receipts that are no longer valid. Remove one of the two"
        )
    if max_dequeue_count is not None and log.delete_after is DeleteAfter.LOG:
        raise _invalid(
            "'maxDequeueCount' (or the queue's metadata 'poisonthreshold') does not go with"
            " deleteAfter=log: an abandoned batch goes back into its queue, and its messages"
            " are no longer there. Set deleteAfter=commit, or remove 'maxDequeueCount', and let"
            " 'onUndecodable' handle messages that do not decode, and the query bodies that do not"
            " parse (a permissive from_json)"
        )
    if max_bytes > MOST_STORED_BYTES:
        raise _invalid(
            f"'maxBytesPerTrigger' is {max_bytes:,}, and with 'writeAheadLog' at most"
            f" {MOST_STORED_BYTES:,} (256m) are allowed: each batch is stored in one piece. Lower"
            " it"
        )


# ── leaseOn=executors ─────────────────────────────────────────────────────────────────────────────

SHORTEST_LEASE_S = 30
"""Minimum visibility timeout in seconds.

A task dequeues messages for a sixth of this time, and then stores and deletes them.
"""

LEASE_ON = Option(
    "leaseOn",
    parsers.one_of(LeaseOn),
    "Where messages are dequeued, stored and deleted: in one process beside the `driver`, or in"
    " the tasks on the `executors`, so that the work grows with the cluster. `executors` needs"
    " `writeAheadLog` in a place that every executor can reach, and `deleteAfter=log`. See"
    " [executors](scaling.md#leases-on-executors).",
    default=LeaseOn.DRIVER,
)


@dataclass(frozen=True)
class ExecutorsConfig:
    """The settings of leaseOn=executors.

    slots: maximum number of tasks of a micro-batch, each with its own queues; None for the number
    of tasks that can run at the same time. max_bytes: the option `maxBytesPerTrigger`; None if it
    was not set. In this case, the default applies to each slot.
    """

    slots: int | None = option(
        "executorSlots",
        parsers.or_auto(parsers.whole_number(1, 1_000)),
        "With `leaseOn=executors`: the maximum number of tasks of a micro-batch. Each queue belongs"
        " to one task. `auto`: the number of tasks that run at the same time. If you know the"
        " query's number of cores, set it to that.",
        shown="auto",
    )
    max_bytes: int | None = None


def check_place(values: ParsedOptions) -> None:
    """Raise InvalidOption for leaseOn=executors without a log.

    Other functions check the other options of the log.
    """
    if values["leaseOn"] is LeaseOn.EXECUTORS and values["writeAheadLog"] is None:
        raise _invalid_executors(
            "leaseOn=executors needs 'writeAheadLog', a folder that the driver and every executor"
            " reach (blob:<container>/<folder>, or a mounted file:/<folder>), and deleteAfter=log"
        )


def read_executors(values: ParsedOptions, log: LogConfig | None) -> ExecutorsConfig | None:
    """Return the settings; None with leaseOn=driver.

    Raises InvalidOption. log: settings of the same query's log.
    """
    if values["leaseOn"] is LeaseOn.DRIVER:
        if idle := values.idle(ExecutorsConfig):
            raise _invalid_executors(f"'{idle}' is set, and it is for leaseOn=executors: remove it")
        return None
    check_place(values)
    assert log is not None
    if log.delete_after is not DeleteAfter.LOG:
        raise _invalid_executors(
            "leaseOn=executors needs deleteAfter=log: a task deletes what it has stored in the log,"
            " since nothing renews its leases until a commit. Set it, or leaseOn=driver"
        )
    if "dequeueAhead" in values.written and values["dequeueAhead"]:
        raise _invalid_executors(
            "dequeueAhead=true does not go with leaseOn=executors: nothing is leased between two"
            " batches. Remove it, or set leaseOn=driver"
        )
    limit = values["maxBytesPerTrigger"] if "maxBytesPerTrigger" in values.written else None
    return ExecutorsConfig(max_bytes=limit, **taken(ExecutorsConfig, values))


def check_executors(visibility_timeout: int | None) -> None:
    """Raise InvalidOption if other settings of the source conflict with leaseOn=executors.

    visibility_timeout: visibility timeout in seconds, or None for auto.
    """
    if visibility_timeout is not None and visibility_timeout < SHORTEST_LEASE_S:
        raise _invalid_executors(
            f"'visibilityTimeout' (or the queue's metadata 'defaulttimeout') is"
            f" {visibility_timeout} s, and leaseOn=executors needs at least {SHORTEST_LEASE_S} s: a"
            " task dequeues, stores and deletes within one lease. Raise it, or leave it out"
        )
