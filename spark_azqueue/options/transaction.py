"""The options of the transactional sink. This module sends no requests and opens no files."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from spark_azqueue.errors import InvalidOption
from spark_azqueue.errors.conditions import Condition
from spark_azqueue.service.account import Account
from spark_azqueue.service.messages import NEVER_EXPIRES, WEEK_S

from . import parsers
from .blobs import section
from .log import FAIL_ON_DATA_LOSS, LogPlace, log_place
from .option import ParsedOptions, option, shared

_invalid = partial(InvalidOption, condition=Condition.INVALID_TRANSACTION_OPTION)

MOST_VERSION = 2**63 - 1
_LONGEST_ID = 200

_DAY_S = 24 * 3600

VISIBLE_AT_LEAST_S = 60
"""Minimum number of seconds between the time at which a message of a transaction becomes visible
and its expiry.
"""


def app_id(value: str) -> str:
    """Parse the option. Raises ValueError with the rules."""
    if not 0 < len(value) <= _LONGEST_ID or not value.isprintable():
        raise ValueError(f"1 to {_LONGEST_ID} printable characters")
    return value


@dataclass(frozen=True)
class TransactionConfig:
    """The settings of a transactional sink.

    account: for a log in blobs, the account, whose `url` is the blob endpoint. app_id, version:
    identify the transaction of a batch write; None for a stream, whose batches have numbers.
    """

    place: LogPlace = option(
        "transactionLog",
        log_place,
        "Write each batch as a transaction: in the end all of its messages are visible or none,"
        " and each message once, despite repeats and kills. The log's folder is"
        " `blob:<container>/<folder>` (in the queue's account with its credential, or as"
        " `blobAccountUrl` and `secret.blobConnectionString` say), or `file:/<folder>` (a disk"
        " or NFS, needed only on the driver). Messages live for 7 days at most. For"
        " `operation=enqueue`; see [transactions.md](transactions.md).",
    )
    account: Account | None = None
    app_id: str | None = option(
        "txnAppId",
        app_id,
        "With `transactionLog` on `df.write`, also in `foreachBatch`: a name for this writer, the"
        " same in each run, as for Delta.",
    )
    version: int | None = option(
        "txnVersion",
        parsers.whole_number(0, MOST_VERSION),
        "With `txnAppId`: the number of this write, such as the batch number of `foreachBatch`."
        " It grows with each write: the newest recorded number is not written again, and an"
        " older number is an error unless the log shows that it was written.",
    )
    fail_on_data_loss: bool = shared(FAIL_ON_DATA_LOSS)


def read_transaction(values: ParsedOptions, account: Account) -> TransactionConfig | None:
    """Return the settings of the transaction, or None without `transactionLog`. Raises
    InvalidOption.

    account: account of the queues.
    """
    return section(TransactionConfig, values, account, _idle)


def _idle(name: str) -> InvalidOption:
    return _invalid(
        f"'{name}' is set, but there is no transaction: set 'transactionLog', or remove '{name}'"
    )


def check_stream(config: TransactionConfig | None) -> None:
    """Raise InvalidOption if a stream has settings that are only for batch writes."""
    if config and (config.app_id is not None or config.version is not None):
        raise _invalid(
            "'txnAppId' and 'txnVersion' are for df.write: in a stream, the query's id and the"
            " batch number name the transaction. Remove them"
        )


def check_batch(config: TransactionConfig | None) -> None:
    """Raise InvalidOption if a batch write does not identify its transaction."""
    if config and (config.app_id is None or config.version is None):
        missing = "txnAppId" if config.app_id is None else "txnVersion"
        raise _invalid(
            f"'transactionLog' on df.write needs '{missing}': a name for this writer (txnAppId) and"
            " a number that grows from write to write (txnVersion), so that a repeated write is"
            " known. In foreachBatch the number of the batch will do"
        )


def life_of(ttl_s: int | None) -> int:
    """Return the time to live, in seconds, with which a message of a transaction is put.

    ttl_s: time to live of the row. The message lives one day longer, so that it does not expire
    before it is published, even if a restart is needed. Raises ValueError if a prepared message
    cannot have this time to live.
    """
    ttl_s = WEEK_S if ttl_s is None else ttl_s
    if ttl_s == NEVER_EXPIRES or ttl_s > WEEK_S:
        life = "never ends" if ttl_s == NEVER_EXPIRES else f"is {ttl_s} s"
        raise ValueError(
            f"the time to live {life}; with 'transactionLog' it is at most {WEEK_S} s (7 days),"
            " since a message can be hidden for no longer"
        )
    return min(ttl_s + _DAY_S, WEEK_S)


def check_delay(delay_s: int, ttl_s: int | None) -> None:
    """Raise ValueError if a message would expire too soon after it becomes visible.

    delay_s: delay until the message becomes visible. ttl_s: time to live of the row. Both in
    seconds.
    """
    most = life_of(ttl_s) - VISIBLE_AT_LEAST_S
    if delay_s > most:
        raise ValueError(
            f"the delay of {delay_s} s is too long: with 'transactionLog' it is at most {most} s,"
            f" so that the message is visible for {VISIBLE_AT_LEAST_S} s before it expires"
        )
