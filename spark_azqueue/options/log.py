"""The options of the write-ahead log. Nothing is sent or opened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spark_azqueue.errors import InvalidOption
from spark_azqueue.service.account import Account

from .blobs import read_blob_account
from .choices import DeleteAfter, LogStart
from .log_place import LogPlace
from .parse import named

MOST_BYTES = 256 * 2**20
"""With a log, the most that `maxBytesPerTrigger` may be: a batch is stored in one request."""

_FOR_LOG = {"deleteAfter", "failOnDataLoss", "writeAheadLogRetention", "writeAheadLogStart"}


@dataclass(frozen=True)
class LogConfig:
    """The write-ahead log's settings.

    account: with a place in blobs, the account; its `url` is the blob endpoint. retention: how many
    batches to keep behind the newest committed one. start: what a new checkpoint does with a log
    that has committed batches; None: it is refused. delete_after: when the messages of a batch are
    deleted.
    """

    place: LogPlace
    account: Account | None
    retention: int = 100
    fail_on_data_loss: bool = True
    start: LogStart | None = None
    delete_after: DeleteAfter = DeleteAfter.COMMIT


def read_log(
    values: Mapping[str, Any], given: Mapping[str, str], account: Account
) -> LogConfig | None:
    """The settings of the log; None without `writeAheadLog`. Raises InvalidOption.

    values: parsed options. given: options as Spark passed them. account: that of the queues.
    """
    place: LogPlace | None = values["writeAheadLog"]
    if place is None:
        if idle := _FOR_LOG & named(given):
            raise InvalidOption(
                f"'{min(idle)}' is set, but there is no write-ahead log: set 'writeAheadLog', or"
                f" remove '{min(idle)}'"
            )
        return None
    return LogConfig(
        place,
        read_blob_account(values, account) if place.container else None,
        retention=values["writeAheadLogRetention"],
        fail_on_data_loss=values["failOnDataLoss"],
        start=values["writeAheadLogStart"],
        delete_after=values["deleteAfter"],
    )


def check_log(
    log: LogConfig | None, *, max_dequeue_count: int | None, delete_on_commit: bool, max_bytes: int
) -> None:
    """Raise InvalidOption if other settings of the source do not go with its log."""
    if log is None:
        return
    if not delete_on_commit:
        raise InvalidOption(
            "deleteOnCommit=false does not go with 'writeAheadLog': after a restart, rows of the"
            " log have pop receipts that are no longer valid. Remove one of the two"
        )
    if max_dequeue_count is not None and log.delete_after is DeleteAfter.LOG:
        raise InvalidOption(
            "'maxDequeueCount' (or the queue's metadata 'poisonthreshold') does not go with"
            " deleteAfter=log: a batch that is given up goes back into its queue, and its messages"
            " are no longer there. Set deleteAfter=commit, or remove 'maxDequeueCount', and let"
            " 'onUndecodable' handle messages that do not decode, and the query bodies that do not"
            " parse (a permissive from_json)"
        )
    if max_bytes > MOST_BYTES:
        raise InvalidOption(
            f"'maxBytesPerTrigger' is {max_bytes:,}, and with 'writeAheadLog' at most"
            f" {MOST_BYTES:,} (256m) are allowed: each batch is stored in one piece. Lower it"
        )
