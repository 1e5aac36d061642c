"""The options of `readLog`, which reads a write-ahead log as a table. This module sends no requests
and opens no files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from spark_azqueue.errors import InvalidOption
from spark_azqueue.errors.conditions import Condition
from spark_azqueue.service.account import Account
from spark_azqueue.service.encoding import BodyType, Encoding

from . import parsers
from .account import SharedConfig, read_account
from .blobs import ClaimCheck, read_blob_account, read_claim_check
from .choices import LargeBody, OnUndecodable
from .log import LogPlace, log_place
from .option import Option, ParsedOptions, made_of, option, options_of, taken

_invalid = partial(InvalidOption, condition=Condition.INVALID_LOG_OPTION)

READ_LOG = Option(
    "readLog",
    log_place,
    "Read the write-ahead log of a query as a table, instead of a queue: the rows of its"
    " committed batches, with their number (`log_batch`) and time (`logged_at`). `spark.read`"
    " returns the current batches, `spark.readStream` follows the query. Changes nothing in the"
    " log, and needs permission to read and list (SAS `rl`). See"
    " [replay](exactly-once.md#replay).",
)

_STARTING_AT = Option(
    "startingAt",
    parsers.bound,
    "With `readLog`: begin with this batch of the log (numbered from 1), or with the first"
    ' batch stored at this time or later: `"2026-11-17T08:00:00Z"`, or `"2026-11-17"` for'
    " midnight in UTC. A stream uses it only for a new checkpoint.",
    shown="the oldest that the log still has",
)

_ENDING_AT = Option(
    "endingAt",
    parsers.bound,
    "With `readLog` and `spark.read`: end with this batch, included, or with the last batch"
    " stored at this time or before.",
    shown="the newest committed one",
)

_ALSO = frozenset(
    {
        *("blobAccountUrl", "secret.blobConnectionString", "largeBody", "blobContainer"),
        *("messageEncoding", "bodyType", "onUndecodable", "failOnDataLoss", "maxPollInterval"),
    }
)


@dataclass(frozen=True, kw_only=True)
class ReplayConfig:
    """The log to read, and its range. Spark pickles this config for the processes that read.

    account: the account of a log in blobs, or None for a log in files. start, end: first and last
    batch, both included. encoding: None for the encoding with which each batch was logged.
    claim_check: set with largeBody=blob.
    """

    place: LogPlace = made_of(READ_LOG)
    account: Account | None
    start: parsers.Bound = made_of(_STARTING_AT)
    end: parsers.Bound = made_of(_ENDING_AT)
    batches_per_trigger: int = option(
        "maxBatchesPerTrigger",
        parsers.whole_number(1, 10_000),
        "With `readLog` and `spark.readStream`: the most batches of the log in one micro-batch.",
        default=100,
    )
    encoding: Encoding | None
    body_type: BodyType
    on_undecodable: OnUndecodable
    fail_on_data_loss: bool
    max_poll_interval: float
    claim_check: ClaimCheck | None

    @property
    def has_start(self) -> bool:
        """True if the options set the first batch. In this case, a missing batch in the range is an
        error.
        """
        return self.start != parsers.Bound()


def check_no_replay(values: ParsedOptions) -> None:
    """Raise InvalidOption if the options have `readLog` or an option of `readLog`. Called for reads
    of queues."""
    if READ_LOG.name in values.written:
        raise _invalid(
            "'readLog' reads a write-ahead log and no queue: it is for spark.read and"
            " spark.readStream alone. Remove it here"
        )
    if idle := values.idle(ReplayConfig):
        raise _invalid(
            f"'{idle}' is set, and it is for 'readLog', which reads a write-ahead log: a queue"
            " has no offsets, and a query reads what is in it, from the oldest on. Set 'readLog',"
            f" or remove '{idle}'"
        )


def read_replay(values: ParsedOptions, environment: Mapping[str, str]) -> ReplayConfig:
    """Make the config from parsed options that have 'readLog'. Raises InvalidOption.

    environment: environment variables, such as `os.environ`, for the account of a log in blobs.
    """
    _check_combination(values)
    place: LogPlace = values["readLog"]
    has_own = values["secret.blobConnectionString"] is not None
    is_in_blobs = place.container is not None
    needs_account = is_in_blobs or values["largeBody"] is LargeBody.BLOB
    account = read_account(values, environment) if needs_account and not has_own else None
    start, end = _bounds(values)
    is_permissive = values["onUndecodable"] is OnUndecodable.PERMISSIVE
    return ReplayConfig(
        place=place,
        start=start,
        end=end,
        account=read_blob_account(values, account) if is_in_blobs else None,
        encoding=values["messageEncoding"] if "messageEncoding" in values.written else None,
        body_type=values["bodyType"],
        on_undecodable=OnUndecodable.PERMISSIVE if is_permissive else OnUndecodable.FAIL,
        fail_on_data_loss=values["failOnDataLoss"],
        max_poll_interval=values["maxPollInterval"],
        claim_check=read_claim_check(values, account),
        **taken(ReplayConfig, values),
    )


def _bounds(values: ParsedOptions) -> tuple[parsers.Bound, parsers.Bound]:
    return values["startingAt"] or parsers.Bound(), values["endingAt"] or parsers.Bound()


def _check_combination(values: ParsedOptions) -> None:
    shared = {each.name for each in options_of(SharedConfig)} - {"createQueue", "parallelism"}
    allowed = _ALSO | shared | {each.name for each in options_of(ReplayConfig)}
    if idle := values.written.keys() - allowed:
        raise _invalid(
            f"'{min(idle)}' is set, and with 'readLog' no queue is read and nothing is written:"
            f" remove '{min(idle)}'. Rows have a column 'queue', to filter by"
        )
    for low, high in zip(*_bounds(values), strict=True):
        if low is not None and high is not None and low > high:
            raise _invalid(
                "'startingAt' lies behind 'endingAt', so nothing would be read: correct them"
            )
    if values["onUndecodable"] is OnUndecodable.POISON:
        raise _invalid(
            "onUndecodable=poison does not go with 'readLog', which moves no message: set"
            " onUndecodable=permissive to get such messages as rows, or remove it"
        )
