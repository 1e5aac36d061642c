"""`drain`: reads and deletes everything in the queues, on every version of Spark.

    result = drain(lambda: orders.writeStream.….trigger(availableNow=True).start(), options)
    sys.exit(0 if result.finished else 1)

See docs/supervision.md. `finished.py` decides when a drain has finished.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import logging
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TextIO

from spark_azqueue.errors import AzQueueError
from spark_azqueue.metrics.read import Read
from spark_azqueue.metrics.report import Counters
from spark_azqueue.service.messages import MAX_VISIBILITY_S, QueueRef
from spark_azqueue.source.driver.left import QueueLook, QueuesLeft, SourceLeft
from spark_azqueue.source.offsets import QueueOffset

from .finished import Again, Enough, Finish, QueueSeen, RunSeen, Step, Took, Unfinished, Wait
from .supervisor import Hears, OutOfTime, RestartLimits, RunResult, Runs, SkippedBatch, reads

log = logging.getLogger(__name__)

HIDDEN_AT_MOST_S = 600.0
"""Maximum seconds for which a drain without `hidden` waits for messages that runs of its query may
have leased."""

_ENDS = "AvailableNowTrigger"
"""Name of the trigger availableNow. With other triggers, a query does not end by itself."""

_WIDTH = 40

Shows = Callable[[int, int | None], None]
"""Function that shows progress. Its arguments are the number of messages read, and the total (None
if unknown)."""


@dataclasses.dataclass(frozen=True)
class DrainResult(RunResult):
    """Result of a drain, in numbers of messages.

    finished: True if every message that was readable at the call is read and deleted. If so,
    `left_visible` and `left_hidden` are 0. read: messages in committed batches. deleted,
    poison_moved: minimum number of messages that the source (not your code) deleted or moved to
    poison queues. left_visible: minimum number of readable messages from before the call.
    left_hidden: messages that a failed run of this query may have leased. others: messages that are
    newer, delayed, or leased by other consumers; None if some may be from before the call. The last
    three numbers are None if the queues do not answer.
    """

    read: int = 0
    deleted: int = 0
    poison_moved: int = 0
    left_visible: int | None = None
    left_hidden: int | None = None
    others: int | None = None


def drain(
    start: Callable[[], Any],
    options: Mapping[str, object] | Sequence[Mapping[str, object]],
    *,
    hidden: float | None = None,
    within: float | None = None,
    bar: bool | Shows = False,
    listener: Hears | None = None,
    **limits: Any,
) -> DrainResult:
    """Run a query until it has read and deleted every message that is readable when `drain` is
    called.

    start: starts the query with `trigger(availableNow=True)`, and returns the query. Each call must
        use the same checkpoint. Other triggers are refused. `drain` calls `start` until all
        messages are read: on Spark 4.0 and 4.1 once for each batch.
    options: options of the source, as the reader gets them; a list if the query has several
        sources. `drain` reads the queues' state before and after each run, without a lease.
    hidden: maximum seconds, in total, to wait for leased or delayed messages. None: wait up to ten
        minutes for messages that a failed run of this query may have leased.
    within: seconds after which `drain` stops; the next call resumes. None: no limit.
    bar: True prints a progress bar; a function gets the numbers once a second.
    listener, limits: the other arguments of `run_until_done`.

    Does not wait for messages that arrive after the call. Messages that are leased or delayed at
    the call are read if they become visible within one lease. With deleteOnCommit=false, a message
    is done when its batch is committed, and only with `hidden` does `drain` wait for leased or
    delayed messages.

    Returns when everything is read, the query fails too often, no further run helps, or `within`
    has passed; see `reason`. Raises the errors of the first `start` and of the first read of the
    queues' state, InvalidOption, TypeError and ValueError. If interrupted, stops the query.
    """
    check_times(hidden, within)
    return drained(start, options, hidden, within, bar, listener, RestartLimits(**limits))


def check_times(hidden: float | None, within: float | None) -> None:
    """Raise ValueError for waiting times that `drain` cannot use."""
    if hidden is not None and not (hidden >= 0 and math.isfinite(hidden)):
        raise ValueError(f"hidden={hidden}: expected 0 or more seconds, or None")
    if within is not None and not within > 0:
        raise ValueError(f"within={within}: expected more than 0 seconds, or None for no limit")


def drained(
    start: Callable[[], Any],
    options: Mapping[str, object] | Sequence[Mapping[str, object]],
    hidden: float | None,
    within: float | None,
    bar: bool | Shows,
    listener: Hears | None,
    limits: RestartLimits,
    watch: Callable[[Any], None] | None = None,
) -> DrainResult:
    """Run a drain; see `drain`. watch: called with the query each second while the query runs."""
    with contextlib.closing(QueuesLeft(options)) as queues:
        return _Drain(start, queues, hidden, within, _shows(bar), listener, limits, watch).run()


def _shows(bar: bool | Shows) -> Shows | None:
    return DrainBar() if bar is True else bar or None


class DrainBar:
    """Prints the progress of a drain.

    On a terminal, one line is updated. Otherwise, a line is printed each time that another tenth is
    read.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        """stream: output; None for stderr."""
        self._stream = stream or sys.stderr or io.StringIO()  # sys.stderr is None without a console
        self._shown = ""

    def __call__(self, read: int, total: int | None) -> None:
        """Show the progress. read: number of messages read. total: number of all messages; None if
        unknown."""
        text = f"{read:,} messages read"
        tenth = ""
        if total is not None:
            share = min(1.0, read / total) if total else 1.0
            tenth = f"{int(share * 10)}"
            text = f"[{'#' * round(_WIDTH * share):{_WIDTH}}] {read:,} of {max(read, total):,}"
        if self._stream.isatty():
            print(f"\r{text}", end="", file=self._stream, flush=True)
        elif self._shown != (shown := tenth or text):
            self._shown = shown
            print(text, file=self._stream, flush=True)

    def close(self) -> None:
        """End the current line."""
        with contextlib.suppress(OSError, ValueError):  # the terminal was closed
            if self._stream.isatty():
                print(file=self._stream)


class _Drain:
    """One call of `drain`."""

    def __init__(
        self,
        start: Callable[[], Any],
        queues: QueuesLeft,
        hidden: float | None,
        within: float | None,
        shows: Shows | None,
        listener: Hears | None,
        limits: RestartLimits,
        watch: Callable[[Any], None] | None,
    ) -> None:
        self._on_progress = watch
        self._queues, self._hidden, self._shows = queues, hidden, shows
        self._within, self._limits = within, limits
        self._until = None if within is None else limits.clock() + within
        self._runs = Runs(lambda: _ending(start()), listener, limits, self._watch, self._until)
        self._reads: dict[tuple[str, int], Read] = {}
        self._leaves = any(each.leaves for each in queues.sources)
        self._seen = self._look()
        self._lease_s = max(each.lease_s for each in queues.sources)
        self._finish = Finish(
            self._seen,
            limits.clock(),
            lease_s=self._lease_s,
            longest_s=max(each.longest_s for each in queues.sources),
            patience_s=HIDDEN_AT_MOST_S if hidden is None else hidden,
            waits_for_all=hidden is not None,
            deletes_early=any(each.deletes_early for each in queues.sources),
            leaves=self._leaves,
        )
        self._total = sum(each.messages for each in self._seen)
        self._counted: set[tuple[str, int]] = set()  # batches whose kind of messages is known
        self._is_verified = False  # True if the queues show that the read messages are deleted

    def run(self) -> DrainResult:
        """Run the query until the drain ends."""
        step: Step = Again()
        restarts = 0
        try:
            while isinstance(step, Again) and (query := self._runs.until_one_ends()) is not None:
                if restarts != self._runs.restarts:
                    restarts = self._runs.restarts
                    self._finish.failed(self._runs.failed_at)
                step = self._after(query)
        except OutOfTime:
            step = Unfinished(f"within={self._within:g} s is over: the next call resumes")
        except SkippedBatch as why:
            step = Unfinished(str(why))
        if isinstance(step, Unfinished):
            log.warning("drain has not finished: %s", step.why)
        elif isinstance(step, Again):  # the query failed too often
            self._finish.failed(self._runs.failed_at)
        result = self._result(step)
        self._show(result.read if result.finished else None)
        if isinstance(self._shows, DrainBar):
            self._shows.close()
        return result

    def _after(self, query: Any) -> Step:
        """Wait for leased or delayed messages, if needed. Return the next step after this run."""
        run = self._took(query, self._limits.clock())
        if isinstance(run, Unfinished):
            return run
        self._is_verified = run.took is not Took.NEWER
        try:
            self._seen = self._look()
            step = self._finish.after(run, self._seen)
            while isinstance(step, Wait):
                if self._until is not None and self._limits.clock() + step.seconds >= self._until:
                    raise OutOfTime
                self._limits.sleep(step.seconds)
                self._seen = self._look()
                step = self._finish.waited(self._seen, self._limits.clock())
        except AzQueueError as error:
            return Unfinished(f"the queues do not show what is left: {error}")
        return step

    def _took(self, query: Any, ended: float) -> RunSeen | Unfinished:
        """Return the result of a run that ended, or the reason why no further run helps."""
        self._watch(query)
        new = [each for batch, each in self._reads.items() if batch not in self._counted]
        self._counted |= self._reads.keys()
        took = {each.batch: self._took_of(each, ended) for each in new}  # includes failed runs
        runs = {each.batch[0] for each in reads(query)}
        of_run = [each for each in new if each.batch[0] in runs]
        if why := self._wrong_options(of_run):
            return Unfinished(why)
        batches = [each for each in of_run if each.is_new]
        is_one_batch = any(each.is_old_spark is not False for each in batches)
        kinds = {took[each.batch] for each in batches}
        if not of_run:
            kind = Took.UNKNOWN
        elif not batches:
            kind = Took.NOTHING
        else:
            kind = next(each for each in (Took.OLDER, Took.NEWER, Took.NO_ROWS) if each in kinds)
        hides = any(self._hides(each, took[each.batch]) for each in new)
        count = sum(each.messages for each in batches)
        is_repeated = kind is Took.NO_ROWS and all(each.is_repeated for each in batches)
        began = self._runs.began_at
        return RunSeen(kind, began, ended, is_one_batch, hides, count, is_repeated)

    def _wrong_options(self, of_run: Sequence[Read]) -> str:
        """Return the reason why the options cannot be the query's options; "" if there is no
        reason."""
        sources = max((each.sources for each in of_run), default=len(self._queues.sources))
        if sources != len(self._queues.sources):
            return (
                f"the query has {sources} sources that read queues, and drain has the options of"
                f" {len(self._queues.sources)}: give it those of each, as a list"
            )
        for each in of_run:
            # A batch without messages may have been made before the options changed.
            if each.messages and (others := self._queues.unknown(each.places)):
                return (
                    f"the options are not those of the query, which reads {others}: give drain the"
                    " options of its reader"
                )
        return ""

    def _took_of(self, read: Read, now: float) -> Took:
        """Return the kind of messages that a batch read."""
        leased_s = max(read.visibility_timeout, *map(_leased_for, read.ends))
        self._finish.leases_for(leased_s, renewed=self._is_long(read))
        if not read.messages:
            return Took.NO_ROWS
        if self._leaves:
            ids = [each for end in read.ends for each in _ids(end)]
            return Took.OLDER if self._finish.delivered(ids) else Took.NEWER
        called, back = self._called_at(), self._finish.back_after(now)
        is_newer = read.oldest and all(
            oldest is not None and oldest > called.get(account, math.inf) + back
            for account, oldest in read.oldest
        )
        return Took.NEWER if is_newer else Took.OLDER

    def _hides(self, read: Read, took: Took) -> bool:
        """Return True if messages from before the drain may still be leased when this batch ends.

        The result is True in three cases: the batch reports it; Spark repeated the batch, so an
        earlier run failed; or the batch's leases were renewed, so that the receipts with which the
        next run deletes the messages are stale (Spark 4.0 and 4.1).
        """
        is_dead = took is Took.OLDER and read.is_old_spark is not False and self._is_long(read)
        return read.hides or (read.is_new and read.is_repeated) or is_dead

    def _is_long(self, read: Read) -> bool:
        """Return True if the leases of this batch may have been renewed while the batch ran."""
        return read.seconds > self._lease_s / 2

    def _called_at(self) -> dict[str, float]:
        """Return, for each account, the service's time at the call of `drain`, in seconds since
        1970.

        If several sources use an account, the latest of their times is returned.
        """
        found: dict[str, float] = {}
        for each in self._queues.sources:
            at = math.inf if each.called_at is None else each.called_at / 1_000_000
            found[each.selection.account] = max(at, found.get(each.selection.account, 0.0))
        return found

    def _look(self) -> list[QueueSeen]:
        return [each for source in self._queues.sources for each in _shown(source, source.look())]

    def _result(self, step: Step) -> DrainResult:
        finished = isinstance(step, Enough)
        read, deleted, dead = self._counts()
        if finished and self._is_verified and not self._leaves:
            deleted = max(deleted, read + dead)
        result = DrainResult(
            finished,
            self._runs.restarts,
            self._runs.error,
            step.why if isinstance(step, Enough | Unfinished) else "",
            read,
            deleted,
            dead,
        )
        if not finished:
            try:
                self._seen = self._look()
            except AzQueueError as error:
                log.warning("what the queues hold is not known: %s", error)
                return result
        visible = self._finish.older(self._seen)
        hidden = 0 if finished else self._finish.hidden(self._seen, self._limits.clock())
        held = sum(each.messages for each in self._seen)
        others: int | None = max(0, held - visible - hidden - self._finish.pending)
        if any(each.older and not each.is_all for each in self._seen):
            others = None  # further messages from before the call may follow
        return dataclasses.replace(result, left_visible=visible, left_hidden=hidden, others=others)

    def _counts(self) -> tuple[int, int, int]:
        """Return the numbers of messages that the runs have read, deleted, and moved to poison
        queues."""
        by_run: dict[str, Counters] = {}
        for (run, _), each in self._reads.items():
            if each.counters and each.counters.deleted >= by_run.get(run, Counters()).deleted:
                by_run[run] = each.counters
        return (
            sum(each.messages for each in self._reads.values()),
            sum(each.deleted for each in by_run.values()),
            sum(each.poison_moved for each in by_run.values()),
        )

    def _watch(self, query: Any) -> None:
        """Count the messages that the query has read, and show the progress."""
        if self._on_progress:
            self._on_progress(query)
        for each in reads(query):
            before = self._reads.get(each.batch)
            if before is None or each.messages >= before.messages:
                self._reads[each.batch] = each
        self._show()

    def _show(self, total: int | None = None) -> None:
        if self._shows is None:
            return
        try:
            read = sum(each.messages for each in self._reads.values())
            self._shows(read, self._total if total is None else total)
        except Exception as error:  # noqa: BLE001 (a terminal that was closed must not end the run)
            log.warning("the progress is not shown any more: %s: %s", type(error).__name__, error)
            self._shows = None


def _shown(source: SourceLeft, looks: Mapping[QueueRef, QueueLook]) -> Iterable[QueueSeen]:
    before = ""
    for queue, look in looks.items():
        older = frozenset(each.message_id for each in look.first if source.is_older(each))
        yield QueueSeen(queue.name, look.messages, len(look.first), look.is_all, older, before)
        before = queue.name if source.is_strict else ""


def _leased_for(end: Mapping[str, Any]) -> int:
    """Return the field `leasedFor` of this offset: length of the batch's leases in seconds; 0 if
    the field is missing."""
    seconds = end.get("leasedFor", 0)
    return seconds if type(seconds) is int and 0 <= seconds <= MAX_VISIBILITY_S else 0


def _ids(end: Mapping[str, Any]) -> list[str]:
    """Return the ids of the messages in the offset of a batch without a log."""
    try:
        return [
            each.message_id for each in QueueOffset.from_json(end, account=end["account"]).leases
        ]
    except AzQueueError:
        return []


def _ending(query: Any) -> Any:
    """Return this query if its trigger is availableNow; else stop the query and raise ValueError.

    With Spark Connect, any query is returned, because Spark Connect does not report the trigger.
    """
    try:
        trigger = str(query._jsq.streamingQuery().trigger().toString())
    except Exception:  # noqa: BLE001
        return query
    if trigger.startswith(_ENDS):
        return query
    query.stop()
    raise ValueError(
        f"the query has the trigger {trigger}, with which it does not end when all is read: start"
        " it with .trigger(availableNow=True)"
    )
