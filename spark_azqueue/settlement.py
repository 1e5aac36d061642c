"""Acknowledging by hand in one call: done, again later, or given up.

    def work(batch, number):
        answered = call_the_service(batch)
        settle(
            answered,
            azure,
            done=F.col("status") == 200,
            dead=Dead(F.col("dequeue_count") >= 5, "orders-dead", F.col("error")),
            retry=Retry(F.lit(True), backoff()),
        )

For streams with `deleteOnCommit=false`; see docs/acknowledging.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from .errors import InvalidSchema
from .service.messages import NEVER_EXPIRES, WEEK_S

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_RECEIPT = "message_id string, pop_receipt string, queue string"


@dataclass(frozen=True)
class Retry:
    """Which rows are to come again, and when.

    when: a condition. delay: seconds until the message is visible again (0 to 7 days), for all or
    as a column; `backoff()` makes one.
    """

    when: Column
    delay: Column | int = 60


@dataclass(frozen=True)
class Dead:
    """Which rows are given up, and where their messages go.

    when: a condition. queue: the queue for them, which must exist or be created by the option
    `createQueue`. reason: a text, for all or as a column.
    """

    when: Column
    queue: str
    reason: Column | str = "given up"


@dataclass(frozen=True)
class Settled:
    """How many rows of a batch were done, are to come again, were given up, and were left alone."""

    done: int = 0
    retry: int = 0
    dead: int = 0
    left: int = 0


def backoff(first: int = 30, longest: int = 3600) -> Column:
    """Return a delay in seconds that doubles with each dequeue of the message.

    first: the delay after the first dequeue. longest: the delay never exceeds it. Both in seconds.
    The batch needs the source's column `dequeue_count`.
    """
    # No message is dequeued 30 times before `longest` is reached; a larger power may overflow.
    doublings = F.least(F.col("dequeue_count") - 1, F.lit(30))
    return F.least(F.lit(first) * F.pow(F.lit(2.0), doublings), F.lit(longest)).cast("int")


def settle(
    batch: DataFrame,
    options: Mapping[str, str],
    *,
    done: Column | None = None,
    retry: Retry | None = None,
    dead: Dead | None = None,
) -> Settled:
    """Delete, retry later or give up each message of a batch, by conditions on its rows.

    batch: rows of a source with `deleteOnCommit=false`, one for each message. It needs the columns
        `message_id`, `pop_receipt` and `queue`, and with `dead` also `body`.
    options: the account and its credential, and what else the sink is to know (`createQueue`,
        `onStaleReceipt`, …).
    done: these messages are deleted. dead: these are copied into a queue, then deleted. retry:
        these become visible again after a delay. If several conditions hold, the first of done,
        dead and retry counts; NULL counts as false. A message of none of them comes again when its
        visibility timeout ends.

    The rows are evaluated once, and the decisions collected on the driver, so that a task that
    runs again cannot decide otherwise. Dead messages are copied before they are deleted.
    Returns how many rows went which way. Raises InvalidSchema for a missing column, and Spark's
    error if a write fails; messages that were not reached then come again.
    """
    _check(batch, dead)
    verdicts = _verdicts(batch, done, retry, dead)
    spark = batch.sparkSession
    # A copy has its own format, whatever the options say of messages.
    options = {name: value for name, value in options.items() if name.lower() != "messageformat"}
    by_kind: dict[str, list[Any]] = {"done": [], "dead": [], "retry": [], "left": []}
    for row in verdicts.collect():
        by_kind[row.verdict].append(row)
    gone, later = by_kind["done"] + by_kind["dead"], by_kind["retry"]
    if dead and by_kind["dead"]:
        copies = [(row.letter,) for row in by_kind["dead"]]
        target = options | {"queue": dead.queue}
        if not any(name.lower() == "timetolive" for name in options):
            target["timeToLive"] = str(NEVER_EXPIRES)
        _write(spark, copies, "body string", target)
    known = {name: value for name, value in options.items() if name.lower() not in _OF_NEW_MESSAGES}
    if gone:
        _write(spark, _receipts(gone), _RECEIPT, known | {"operation": "delete"})
    if later:
        rows = [(*receipt, row.delay) for receipt, row in zip(_receipts(later), later, strict=True)]
        columns = f"{_RECEIPT}, visibility_delay int"
        _write(spark, rows, columns, known | {"operation": "update"})
    return Settled(**{kind: len(rows) for kind, rows in by_kind.items()})


_OF_NEW_MESSAGES = frozenset(
    {
        *("timetolive", "visibilitydelay", "createqueue", "onfailure"),
        *("onrowerror", "rowerrorqueue"),
    }
)
"""Options of the copies, in lower case: updates and deletes refuse or do not need them."""


def _check(batch: DataFrame, dead: Dead | None) -> None:
    needed = ["message_id", "pop_receipt", "queue", *(["body"] if dead else [])]
    missing = [name for name in needed if name not in batch.columns]
    if missing:
        raise InvalidSchema(
            f"cannot settle a batch without the column '{missing[0]}': keep"
            f" {', '.join(needed)} of the source's rows"
        )


def _verdicts(
    batch: DataFrame, done: Column | None, retry: Retry | None, dead: Dead | None
) -> DataFrame:
    verdict = F.when(F.lit(False), "")
    for kind, condition in (
        ("done", done),
        ("dead", dead.when if dead else None),
        ("retry", retry.when if retry else None),
    ):
        if condition is not None:
            verdict = verdict.when(condition, kind)
    delay = _column(retry.delay).cast("int") if retry else F.lit(None).cast("int")
    bounded = F.when(delay.isNotNull(), F.greatest(F.lit(0), F.least(F.lit(WEEK_S), delay)))
    decided = batch.withColumn("_verdict", verdict.otherwise("left"))
    return decided.select(
        *("message_id", "pop_receipt", "queue"),
        F.col("_verdict").alias("verdict"),
        F.when(F.col("_verdict") == "retry", bounded).alias("delay"),
        F.when(F.col("_verdict") == "dead", _letter(batch, dead)).alias("letter"),
    )


def _letter(batch: DataFrame, dead: Dead | None) -> Column:
    """The message that tells of a dead one: JSON with its id, queue, body and the reason."""
    if dead is None:
        return F.lit(None).cast("string")
    binary = dict(batch.dtypes)["body"] == "binary"
    body = F.base64("body") if binary else F.col("body")
    return F.to_json(
        F.struct(
            _column(dead.reason).alias("reason"),
            F.col("queue"),
            F.col("message_id"),
            body.alias("body"),
            F.lit("base64" if binary else "text").alias("body_encoding"),
        )
    )


def _column(value: Column | int | str) -> Column:
    return F.lit(value) if isinstance(value, (int, str)) else value


def _receipts(rows: Sequence[Any]) -> list[tuple[str, str, str]]:
    return [(row.message_id, row.pop_receipt, row.queue) for row in rows]


def _write(
    spark: SparkSession, rows: list[tuple[Any, ...]], schema: str, options: Mapping[str, str]
) -> None:
    frame = spark.createDataFrame(rows, schema)
    frame.write.format("azqueue").mode("append").options(**options).save()
