"""Acknowledge messages by hand in one call: done, retried later, or dead-lettered.

For streams with `deleteOnCommit=false`; see docs/writing.md.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from spark_azqueue.errors import InvalidOption, InvalidSchema
from spark_azqueue.options.choices import LargeBody, Side
from spark_azqueue.options.parse import parse
from spark_azqueue.service.encoding import Encoding
from spark_azqueue.service.fields import check_usable
from spark_azqueue.service.messages import NEVER_EXPIRES, WEEK_S

from .dead_letters import Copy, copies_of
from .decided import delete, one_for_each_message, show_later

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


@dataclass(frozen=True)
class Retry:
    """Rows whose messages are retried, and the delay.

    when: a condition. delay: seconds until the message is visible again (0 to 7 days), as a number
    or a column; `backoff()` returns such a column.
    """

    when: Column
    delay: Column | int = 60


@dataclass(frozen=True)
class DeadLetter:
    """Rows whose messages are dead-lettered, and the queue for the copies.

    when: a condition. queue: target queue, which must not be a queue of the source, and must exist
    unless `createQueue` is set. reason: a text or a column.
    """

    when: Column
    queue: str
    reason: Column | str = "given up"


@dataclass(frozen=True)
class Settled:
    """Counts of the messages of a batch, as the service answered.

    done, dead: deleted messages. retry: messages that become visible after their delay. left:
    messages that were not changed. not_copied: messages among `left` that should have been
    dead-lettered, but could not be copied. stale: messages that the service refused to change
    because of a stale receipt; they were deleted or will be delivered again. A dead message with a
    stale receipt was still copied.
    """

    done: int = 0
    retry: int = 0
    dead: int = 0
    left: int = 0
    not_copied: int = 0
    stale: int = 0


def backoff(first: int = 30, longest: int = 3600) -> Column:
    """Return a column: a delay in seconds that doubles with each dequeue of the message.

    first: delay in seconds after the first dequeue. longest: maximum delay in seconds. The batch
    needs the source's column `dequeue_count`.
    """
    # The delay reaches `longest` before 30 doublings; a larger power may overflow.
    doublings = F.least(F.col("dequeue_count") - 1, F.lit(30))
    most = F.lit(min(longest, WEEK_S))
    return F.least(F.lit(first) * F.pow(F.lit(2.0), doublings), most).cast("int")


def settle(
    batch: DataFrame,
    options: Mapping[str, str],
    *,
    done: Column | None = None,
    retry: Retry | None = None,
    dead: DeadLetter | None = None,
) -> Settled:
    """Delete, retry or dead-letter each message of a batch, by conditions on its rows.

        def work(batch, number):
            good = F.col("status") == 200
            settle(call(batch), azure, done=good, retry=Retry(~good, backoff()))

        orders = spark.readStream.format("azqueue").options(**azure, queue="orders")
        orders = orders.option("deleteOnCommit", "false").load()
        orders.writeStream.foreachBatch(work).option("checkpointLocation", folder).start()

    batch: rows of a source with `deleteOnCommit=false`, with the columns `message_id`,
        `pop_receipt` and `queue`, and for `dead` also `body`.
    options: the account, its credential, and other options of the sink (`createQueue`,
        `onStaleReceipt`, …).
    done: messages to delete. dead: messages to copy into a queue, then delete. retry: messages to
        make visible after a delay. If several conditions are true, the first of done, dead and
        retry is used; NULL is false. If none is true, the message becomes visible when its lease
        ends.

    If a message has several rows, the decision that keeps the message longest is used: no
    condition, then retry (with the longest delay), then dead, then done. The rows are evaluated
    once. The driver collects the decision about each message, and the body of each message to
    dead-letter, and sends updates and deletes. If a message cannot be copied, it is not changed,
    and a warning says why. Before any change, raises InvalidSchema for a missing column,
    InvalidOption (also for rows of a source that deletes on commit), and InvalidRow for rows of a
    peek or of `readLog`. Raises Spark's error if a copy cannot be written, and ServiceError;
    messages that are not settled before the error are delivered again.
    """
    _check(batch, dead)
    known = parse(options, Side.BOTH)
    spark = batch.sparkSession
    rows = _outcomes(batch, done, retry, dead).collect()
    for row in rows:
        check_usable(row.message_id, row.pop_receipt)
        if dead and row.queue == dead.queue:
            raise InvalidOption(
                f"the queue for dead messages is '{dead.queue}', from which rows of this batch were"
                " read: they would come again and again. Name another queue"
            )
    by_kind: dict[str, list[Any]] = {"done": [], "dead": [], "retry": [], "left": []}
    for row in one_for_each_message(rows):
        by_kind[row.outcome].append(row)
    given_up: list[Any] = []
    if dead and by_kind["dead"]:
        in_blobs = known["largeBody"] is LargeBody.BLOB
        copies = copies_of(by_kind["dead"], known["messageEncoding"], dead.queue, in_blobs=in_blobs)
        _send(spark, [copy for _, copy in copies], dead.queue, options)
        given_up = [row for row, _ in copies]
    receipts = _without(options, _OF_NEW_MESSAGES)
    not_copied = len(by_kind["dead"]) - len(given_up)
    of_dead = delete(given_up, receipts)
    of_done = delete(by_kind["done"], receipts)
    of_retry = show_later(by_kind["retry"], receipts)
    return Settled(
        done=of_done.done,
        retry=of_retry.done,
        dead=of_dead.done,
        left=len(by_kind["left"]) + not_copied,
        not_copied=not_copied,
        stale=of_dead.stale + of_done.stale + of_retry.stale,
    )


_OF_COPIES_IGNORED = frozenset({"messageformat", "onrowerror", "rowerrorqueue", "onstalereceipt"})
"""Options that copies ignore, in lower case.

A copy has its own format, and no receipt. A copy is never sent to the queue of row errors, because
its body could be cut there.
"""

_OF_NEW_MESSAGES = frozenset(
    {
        *("messageformat", "onrowerror", "rowerrorqueue"),
        *("queue", "timetolive", "visibilitydelay", "createqueue"),
    }
)
"""Options that updates and deletes refuse or do not need, in lower case.

Rows to update or delete name the queue themselves.
"""


def _without(options: Mapping[str, str], names: Collection[str]) -> dict[str, str]:
    return {name: value for name, value in options.items() if name.lower() not in names}


def _send(
    spark: SparkSession, copies: Sequence[Copy], queue: str, options: Mapping[str, str]
) -> None:
    """Write the copies. If a row is refused, the write fails, so no message is deleted."""
    target = _without(options, _OF_COPIES_IGNORED | {"queue"}) | {"queue": queue}
    if not any(name.lower() == "timetolive" for name in options):
        target["timeToLive"] = str(NEVER_EXPIRES)
    if envelopes := [(copy.text,) for copy in copies if not copy.bare]:
        _write(spark, envelopes, "body string", target)
    if bare := [(copy.text,) for copy in copies if copy.bare]:
        as_it_is = {"messageEncoding": Encoding.NONE.value}
        _write(spark, bare, "body string", _without(target, {"messageencoding"}) | as_it_is)


def _check(batch: DataFrame, dead: DeadLetter | None) -> None:
    needed = ["message_id", "pop_receipt", "queue", *(["body"] if dead else [])]
    missing = [name for name in needed if name not in batch.columns]
    if missing:
        raise InvalidSchema(
            f"cannot settle a batch without the column '{missing[0]}': keep"
            f" {', '.join(needed)} of the source's rows"
        )
    if dead and (kind := dict(batch.dtypes)["body"]) not in ("string", "binary"):
        raise InvalidSchema(
            f"cannot copy dead messages from a column 'body' that is {kind}: keep the column 'body'"
            " of the source unchanged, and give a column that you derive from it another name"
        )


def _outcomes(
    batch: DataFrame, done: Column | None, retry: Retry | None, dead: DeadLetter | None
) -> DataFrame:
    """Return one row for each decision about a message.

    Equal rows are grouped, because thousands of rows may have the same body.
    """
    outcome = F.when(F.lit(False), "")
    for kind, condition in (
        ("done", done),
        ("dead", dead.when if dead else None),
        ("retry", retry.when if retry else None),
    ):
        if condition is not None:
            outcome = outcome.when(condition, kind)
    delay = (_column(retry.delay) if retry else F.lit(None)).cast("double")
    within = F.greatest(F.lit(0.0), F.least(F.lit(float(WEEK_S)), delay)).cast("int")
    bounded = F.when(delay.isNotNull(), within)
    nothing = F.lit(None).cast("string")
    has_stored = dead and _CORRUPT in batch.columns
    is_dead = F.col("_outcome") == "dead"
    decided = batch.withColumn("_outcome", outcome.otherwise("left"))
    rows = decided.select(
        *_MESSAGE,
        F.col("_outcome").alias("outcome"),
        F.when(F.col("_outcome") == "retry", bounded).alias("delay"),
        F.when(is_dead, _column(dead.reason).cast("string") if dead else nothing).alias("reason"),
        F.when(is_dead, F.col("body") if dead else nothing).alias("body"),
        F.when(is_dead, F.col(_CORRUPT).cast("string") if has_stored else nothing).alias("stored"),
        F.monotonically_increasing_id().alias("place"),
    )
    letter = F.min_by(F.struct("reason", "body", "stored"), "place").alias("letter")
    each = rows.groupBy(*_MESSAGE, "outcome").agg(F.max("delay").alias("delay"), letter)
    return each.select(*_MESSAGE, "outcome", "delay", "letter.*").coalesce(1)


_MESSAGE = ("message_id", "pop_receipt", "queue")

_CORRUPT = "_corrupt_record"
"""Column of the source for the text of a message that could not be decoded."""


def _column(value: Column | int | str) -> Column:
    return F.lit(value) if isinstance(value, (int, str)) else value


def _write(
    spark: SparkSession, rows: list[tuple[Any, ...]], schema: str, options: Mapping[str, str]
) -> None:
    frame = spark.createDataFrame(rows, schema)
    frame.write.format("azqueue").mode("append").options(**options).save()
