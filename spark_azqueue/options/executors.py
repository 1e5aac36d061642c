"""The options of `leaseOn=executors`. Nothing is sent or opened."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from spark_azqueue.conditions import Condition
from spark_azqueue.errors import InvalidOption

from . import parsers
from .choices import DeleteAfter, LeaseOn
from .log import LogConfig
from .option import Option, Parsed, option, options_of, taken

_invalid = partial(InvalidOption, condition=Condition.INVALID_EXECUTORS_OPTION)

SHORTEST_LEASE_S = 30
"""A task leases for a sixth of this time, then stores and deletes what it has leased."""

LEASE_ON = Option(
    "leaseOn",
    parsers.one_of(LeaseOn),
    "Where messages are dequeued, stored and deleted: in one process beside the `driver`, or in the"
    " tasks on the `executors`, so that the work grows with the cluster. `executors` needs Spark"
    " 4.2, `writeAheadLog` in a place that every executor reaches, and `deleteAfter=log`. See"
    " [executors](executors.md).",
    default=LeaseOn.DRIVER,
)


@dataclass(frozen=True)
class ExecutorsConfig:
    """The settings of leaseOn=executors.

    slots: the most tasks of a micro-batch, each with queues of its own; None: as many as turn out
    to run at the same time. max_bytes: the option `maxBytesPerTrigger`, if it was set; None: each
    slot may have the default.
    """

    slots: int | None = option(
        "executorSlots",
        parsers.or_auto(parsers.whole_number(1, 1_000)),
        "With `leaseOn=executors`: the most tasks of a micro-batch. A queue is in one of them."
        " `auto`: as many as turn out to run at the same time. Set it to the number of cores that"
        " the query has, if that is known.",
        shown="auto",
    )
    max_bytes: int | None = None


def check_place(values: Parsed) -> None:
    """Raise InvalidOption if tasks are to lease and there is no log. Its options come later."""
    if values["leaseOn"] is LeaseOn.EXECUTORS and values["writeAheadLog"] is None:
        raise _invalid(
            "leaseOn=executors needs 'writeAheadLog', a folder that the driver and every executor"
            " reach (blob:<container>/<folder>, or a mounted file:/<folder>), and deleteAfter=log"
        )


def read_executors(values: Parsed, log: LogConfig | None) -> ExecutorsConfig | None:
    """The settings, None with leaseOn=driver. Raises InvalidOption. log: that of the same query."""
    if values["leaseOn"] is LeaseOn.DRIVER:
        if idle := {each.name for each in options_of(ExecutorsConfig)} & values.written.keys():
            raise _invalid(f"'{min(idle)}' is set, and it is for leaseOn=executors: remove it")
        return None
    check_place(values)
    assert log is not None
    if log.delete_after is not DeleteAfter.LOG:
        raise _invalid(
            "leaseOn=executors needs deleteAfter=log: a task deletes what it has stored in the log,"
            " since nobody renews its leases until a commit. Set it, or leaseOn=driver"
        )
    if "dequeueAhead" in values.written and values["dequeueAhead"]:
        raise _invalid(
            "dequeueAhead=true does not go with leaseOn=executors: nothing is leased between two"
            " batches. Remove it, or set leaseOn=driver"
        )
    limit = values["maxBytesPerTrigger"] if "maxBytesPerTrigger" in values.written else None
    return ExecutorsConfig(max_bytes=limit, **taken(ExecutorsConfig, values))


def check_executors(visibility_timeout: int | None) -> None:
    """Raise InvalidOption for other settings of the source that do not go with it.

    visibility_timeout: in seconds, None for auto.
    """
    if visibility_timeout is not None and visibility_timeout < SHORTEST_LEASE_S:
        raise _invalid(
            f"'visibilityTimeout' (or the queue's metadata 'defaulttimeout') is"
            f" {visibility_timeout} s, and leaseOn=executors needs at least {SHORTEST_LEASE_S} s: a"
            " task dequeues, stores and deletes within one lease. Raise it, or leave it out"
        )


def needs_newer_spark() -> InvalidOption:
    """The error on a Spark that does not tell a source where a query is."""
    return _invalid(
        "leaseOn=executors needs Spark 4.2 or later, which tells a source what is committed:"
        " upgrade Spark, or set leaseOn=driver"
    )
