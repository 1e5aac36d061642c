"""Read and delete all that is in the queues, on every version of Spark.

    result = drain(lambda: orders.writeStream.….trigger(availableNow=True).start(), options)
    sys.exit(0 if result.finished else 1)

See docs/supervision.md.
"""

from __future__ import annotations

import contextlib
import io
import logging
import math
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TextIO

from .errors import AzQueueError
from .metrics.query_metrics import Read
from .source.left import Left, QueuesLeft
from .supervisor import Hears, OutOfTime, RestartLimits, RunResult, Runs, reads

log = logging.getLogger(__name__)

CLOCKS_DIFFER_S = 10.0
"""So much the driver's clock may be behind the service's, if the queues cannot be asked."""

_WHOLE_SECONDS_S = 2.0
"""The service tells times in whole seconds, so an age may be so much too low."""

_LOOK_AGAIN_S = 5.0

_ENOUGH = 2
"""This many runs in a row without anything older than the call end it."""

_TOO_MANY = 10
"""At most this many runs in a row read nothing, although there is something to read."""

_LEAVES = (
    "deleteOnCommit=false: on Spark 4.0 and 4.1 each run reads again what you did not delete, so"
    " drain cannot tell when all is read, and stopped after one batch. Remove it, or use Spark 4.2"
)

_ENDLESS = ("ProcessingTimeTrigger", "ContinuousTrigger", "RealTimeTrigger")
"""Names of Spark's triggers, with their time in brackets."""

_WIDTH = 40

Shows = Callable[[int, int | None], None]
"""Gets how many messages were read, and how many there were (None if unknown)."""


class CountsQueues(Protocol):
    """Who counts what queues hold."""

    sources: int
    """How many sources read them."""

    def now(self) -> Left | None:
        """What they hold now; None if that is unknown."""

    def unknown(self, places: Iterable[tuple[str, Iterable[str]]]) -> str:
        """Which of these, accounts with names of queues, no source reads; "" if none."""

    def close(self) -> None:
        """Close the connections."""


def drain(
    start: Callable[[], Any],
    options: Mapping[str, object] | Sequence[Mapping[str, object]] = (),
    *,
    hidden: float = 0.0,
    within: float | None = None,
    bar: bool | Shows = False,
    listener: Hears | None = None,
    queues: CountsQueues | None = None,
    now: Callable[[], float] = time.time,
    **limits: Any,
) -> RunResult:
    """Run a query until it has read and deleted every message that could be read at the call.

    start: starts the query with `trigger(availableNow=True)`, and returns it. Each call must use
        the same checkpoint. Another trigger is refused (not with Spark Connect, which does not tell
        it). Called once on Spark 4.2 and newer, or again if the query is stopped and the counts
        show it; on 4.0 and 4.1, where such a run is one batch, as often as it takes.
    options: of the source, as the reader gets them; a list if the query has several sources. With
        them the queues are counted between two runs: this gives `bar` a total and `RunResult.left`
        a value, and is needed for `hidden`. No message is leased for it.
    hidden: wait this many seconds at most for messages that another consumer leases, or that are
        delayed. 0: do not wait; a warning says how many are left.
    within: stop the query after this many seconds; `finished` is False then, and the next call
        resumes. None: no limit.
    bar: True prints a progress bar to stderr; a function gets the numbers once a second.
    listener: as of `run_until_done`.
    queues, now: for tests.
    limits: restarts, restarts_in_all, first_wait, longest_wait, healthy_after, sleep and clock of
        `run_until_done`. A query that fails is started again in the same way.

    What arrives meanwhile is not waited for: the run of 4.2 leaves it; on 4.0 and 4.1 some of it is
    read, and the call ends when two runs in a row read nothing older than the call. The messages of
    the last of these runs are deleted by the next start.
    Returns when that is so, when a query is given up, or when `within` is over; `finished` is False
    if it cannot know: with deleteOnCommit=false on 4.0 and 4.1, if the options name other queues
    than the query reads, or if `hidden` messages cannot be counted. Raises what the first call of
    `start` raises, InvalidOption for bad options, TypeError and ValueError. If it is interrupted,
    it stops the query.
    """
    if not (hidden >= 0 and math.isfinite(hidden)):
        raise ValueError(f"hidden={hidden}: expected 0 or more seconds")
    if within is not None and not within > 0:
        raise ValueError(f"within={within}: expected more than 0 seconds, or None for no limit")
    if queues is None and options:
        queues = QueuesLeft(options)
    if hidden and queues is None:
        raise ValueError("'hidden' needs the options of the source, to count what is hidden")
    checked = RestartLimits(**limits)
    try:
        return _Drain(start, queues, hidden, within, _shows(bar), listener, now, checked).run()
    finally:
        if queues is not None:
            queues.close()


def _shows(bar: bool | Shows) -> Shows | None:
    return DrainBar() if bar is True else bar or None


class DrainBar:
    """Prints how far a drain has come: on a terminal in place, else a line for each tenth."""

    def __init__(self, stream: TextIO | None = None) -> None:
        """stream: stderr by default."""
        self._stream = stream or sys.stderr or io.StringIO()  # None without a console
        self._shown = ""

    def __call__(self, read: int, total: int | None) -> None:
        """read: messages so far. total: of how many, None if unknown."""
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
        """End the line."""
        with contextlib.suppress(OSError, ValueError):  # the terminal is gone
            if self._stream.isatty():
                print(file=self._stream)


class _Unfinished(Exception):  # noqa: N818
    """No further run helps; says why."""


class _Drain:
    """One call of `drain`."""

    def __init__(
        self,
        start: Callable[[], Any],
        queues: CountsQueues | None,
        hidden: float,
        within: float | None,
        shows: Shows | None,
        listener: Hears | None,
        now: Callable[[], float],
        limits: RestartLimits,
    ) -> None:
        self._queues, self._hidden, self._shows = queues, hidden, shows
        self._may_hide = hidden > 0
        self._within, self._limits = within, limits
        self._began = limits.clock()
        self._now = now
        self._began_at = now()
        self._failures = 0
        self._until = None if within is None else self._began + within
        self._runs = Runs(lambda: _ending(start()), listener, limits, self._watch, self._until)
        self._read: dict[tuple[str, int], int] = {}  # messages by run and batch
        self._total: int | None = None
        self._newer = self._barren = 0
        self._before: Left | None = None  # what was left before the newest run
        self._left: Left | None = None
        self._wait_until: float | None = None  # for hidden messages

    def run(self) -> RunResult:
        """Run the query until it is over."""
        self._before = self._look()
        self._total = self._before.messages if self._before else None
        finished, reason = False, ""
        try:
            while not finished and (query := self._runs.until_one_ends()) is not None:
                self._left = self._look()
                finished, reason = self._is_over([*reads(query)])
                finished = finished and not self._waits()
        except _Unfinished as why:
            finished, reason = False, str(why)
            log.warning("%s", reason)
        except OutOfTime:
            finished = False
            reason = f"within={self._within:g} s is over: the next call resumes"
            log.warning("%s", reason)
        finally:
            if isinstance(self._shows, DrainBar):
                self._shows.close()
        if not finished:
            self._left = self._look()
        if finished and self._left and self._left.messages:
            reason = reason or f"{self._left.messages} messages are left, hidden or new"
            if self._left.oldest_s is None and self._left.all_seen:
                log.warning(
                    "%d messages are left and hidden: another consumer leases them, or they are"
                    " delayed. A later run reads them; drain(…, hidden=90) waits for them",
                    self._left.messages,
                )
        return RunResult(
            finished,
            self._runs.restarts,
            self._runs.error,
            reason,
            sum(self._read.values()),
            self._left.messages if self._left else None,
        )

    def _is_over(self, reads: list[Read]) -> tuple[bool, str]:
        """Whether all that could be read at the call is read and deleted, after a run; and why.

        Raises _Unfinished if no further run can tell.
        """
        sources = max((each.sources for each in reads), default=0)
        # A run that tells nothing has read what the options say, as far as is known.
        is_ours = self._queues is not None and sources in (0, self._queues.sources)
        queues = self._queues if is_ours else None
        left = self._left if queues else None
        if queues:
            _check_places(queues, reads)
        # Older than the call, or visible although this run read nothing.
        has_older = left is not None and self._has_older(left)
        lines = {each.is_old_spark for each in reads} - {None}
        new = [each for each in reads if each.is_new]
        is_all = not has_older and (not new or self._may_be_all(left))
        if lines == {False} and (is_all or any(each.leaves for each in reads)):
            return True, ""  # else it was stopped
        if any(each.leaves and each.is_old_spark for each in new):
            raise _Unfinished(_LEAVES)
        has_messages = any(each.messages for each in new)
        if not reads and left and self._before:
            has_messages = left.messages < self._before.messages
        self._before = self._left
        if self._failures != self._runs.restarts:
            self._barren = 0
        if reads and not new and not has_older:
            return True, ""
        if not has_messages or self._failures != self._runs.restarts:
            # What a failed run had leased is released: it may be behind what came until now.
            self._began, self._began_at = self._limits.clock(), self._now()
        self._failures = self._runs.restarts
        self._barren = 0 if has_messages else self._barren + 1
        if self._barren >= _TOO_MANY:
            raise _Unfinished(
                f"{self._barren} runs in a row read no message, although the queues have some that"
                " can be read"
            )
        if self._barren >= _ENOUGH and not has_older:
            return True, "two runs in a row read no message"
        self._newer = self._newer + 1 if new and self._is_newer(new[-1], left) else 0
        if self._newer >= _ENOUGH:
            return True, "two runs in a row read only messages that came after the call"
        return False, ""

    def _may_be_all(self, left: Left | None) -> bool:
        """False if so many are left that some are from before the call: perhaps in the batch of a
        run that was stopped, which has leased them."""
        read = sum(self._read.values())
        return not left or not left.messages or self._total is None or read >= self._total

    def _is_newer(self, read: Read, left: Left | None) -> bool:
        """True if no message is left that could be read at the call, as far as can be known."""
        after = self._began_at + CLOCKS_DIFFER_S
        if read.logged is not None and read.logged <= after:
            return False  # the log has more than the queues show
        if left:
            return left.all_seen and not self._has_older(left)
        return read.oldest is not None and read.oldest > after

    def _has_older(self, left: Left) -> bool:
        since = self._limits.clock() - self._began
        return left.oldest_s is not None and left.oldest_s + _WHOLE_SECONDS_S >= since

    def _waits(self) -> bool:
        """Wait for hidden messages, if asked to. True if the query is to run again."""
        clock = self._limits.clock
        if self._wait_until is None:
            self._wait_until = clock() + self._hidden
        while self._hidden and (self._left is None or self._left.messages):
            rest = self._wait_until - clock()
            if rest <= 0:
                self._hidden = 0.0  # one more run, and no more waits
                return True
            pause = min(rest, _LOOK_AGAIN_S)
            if self._until is not None and clock() + pause >= self._until:
                raise OutOfTime
            self._limits.sleep(pause)
            self._left = self._look()
            if self._left and self._has_older(self._left):
                return True
        if self._may_hide and self._left is None:
            raise _Unfinished("the queues could not be counted: hidden messages may be left")
        return False

    def _look(self) -> Left | None:
        if self._queues is None:
            return None
        try:
            return self._queues.now()
        except AzQueueError as error:
            log.warning("what the queues hold is not known: %s", error)
            return None

    def _watch(self, query: Any) -> None:
        """Count what the query has read so far, and show it."""
        for each in reads(query):
            self._read[each.batch] = max(each.messages, self._read.get(each.batch, 0))
        if self._shows is None:
            return
        try:
            self._shows(sum(self._read.values()), self._total)
        except Exception as error:  # noqa: BLE001 (a terminal that was closed must not end the run)
            log.warning("the progress is not shown any more: %s: %s", type(error).__name__, error)
            self._shows = None


def _ending(query: Any) -> Any:
    """The query. Raises ValueError, and stops it, if it would never end.

    Spark Connect does not tell the trigger: there it is not checked.
    """
    try:
        trigger = str(query._jsq.streamingQuery().trigger().toString())
    except Exception:  # noqa: BLE001
        return query
    if not trigger.startswith(_ENDLESS):
        return query
    query.stop()
    raise ValueError(
        f"the query has the trigger {trigger} and would never end: start it with"
        " .trigger(availableNow=True)"
    )


def _check_places(queues: CountsQueues, reads: list[Read]) -> None:
    """Raise _Unfinished if the options are of other queues than the query reads."""
    for each in reads:
        # A batch without messages may be one of before the options changed.
        if each.messages and (others := queues.unknown(each.places)):
            raise _Unfinished(
                f"the options are not those of the query, which reads {others}: give drain the"
                " options of its reader"
            )
