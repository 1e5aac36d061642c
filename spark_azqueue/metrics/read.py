"""Parses, from a progress event, what a batch read from queues. Detects a batch that the sink
skipped.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import add
from typing import Any, NamedTuple

from .latency import NO_ANSWER
from .report import Counters, Report, whole
from .source_progress import CLOSING, DAMAGE, offset_of, oldest_in, source_progress

_DEQUEUE = "dequeue"


class Read(NamedTuple):
    """What a progress event shows about its batch and the queues that the batch read.

    batch: run and number of the batch. sources: number of sources that read queues. messages:
    number of messages whose rows the batch has. is_new: True if at least one source made a new
    batch, perhaps without rows. is_repeated: True if Spark repeated the batch after a failure, and
    requested no new batch. is_old_spark: True if the event is from Spark 4.0 or 4.1, where
    `availableNow` runs a single batch; None if unknown, for example for a repeated batch. ends: for
    each source, the offset at the end of its batch.

    oldest: for each source with a batch, the account and the earliest insertion time of the
    messages, in seconds since 1970 by the service's clock; None if unknown. With leaseOn=executors,
    this is the time of the previous batch, because no newer time is known.

    seconds: duration of the trigger. visibility_timeout: visibility timeout of new leases, or 0 if
    unknown. hides: True if tasks were killed or a dequeue of the run got no answer, so that
    messages may be invisible. counters: counters of the run so far, or None if they are not
    reported. unread: number of messages in a new batch if no row of the batch was read, because the
    sink skipped it; otherwise 0.
    """

    batch: tuple[str, int]
    sources: int
    messages: int
    is_new: bool
    is_repeated: bool
    is_old_spark: bool | None
    ends: tuple[Mapping[str, Any], ...] = ()
    oldest: tuple[tuple[str, float | None], ...] = ()
    seconds: float = 0.0
    visibility_timeout: int = 0
    hides: bool = False
    counters: Counters | None = None
    unread: int = 0

    @property
    def places(self) -> list[tuple[str, frozenset[str]]]:
        """For each source, the account and the names of the queues in the batch."""
        return [(str(end["account"]), _queues_in(end)) for end in self.ends]


def read_of(progress: Mapping[str, Any]) -> Read | None:
    """Parse a progress event (JSON). Return None if the query reads no queue.

    Never raises.
    """
    try:
        return _read(progress)
    except DAMAGE:
        return None


def _read(progress: Mapping[str, Any]) -> Read | None:
    found = [
        (each, ours) for each in progress.get("sources") or () if (ours := source_progress(each))
    ]
    if not found:
        return None
    offsets = [
        [offset_of(each.get(name)) or {} for name in ("startOffset", "endOffset", "latestOffset")]
        for each, _ in found
    ]
    latest = [each for _, _, each in offsets if each]
    is_new = [
        bool(start != end and end["batch"] and CLOSING not in end) for start, end, _ in offsets
    ]
    # A report in an offset describes the run that made the offset.
    reports = [
        ours.report if ours.report and (latest and (ours.made_at is None or new)) else None
        for (_, ours), new in zip(found, is_new, strict=True)
    ]
    known = [each for each in reports if each]
    return Read(
        (str(progress["runId"]), int(progress["batchId"])),
        len(found),
        sum(ours.messages for _, ours in found),
        any(is_new),
        not latest,
        # The end of the batch shows this, not the source's report.
        all({"batch", "account"} <= each.keys() for each in latest) if latest else None,
        tuple(end for _, end, _ in offsets),
        tuple(
            (str(end["account"]), oldest_in(end, report))
            for (_, end, _), report, new in zip(offsets, reports, is_new, strict=True)
            if new
        ),
        (progress.get("durationMs") or {}).get("triggerExecution", 0) / 1_000,
        max((each.visibility_timeout for each in known), default=0),
        any(each.hidden_for or _loses(each) for each in known),
        reduce(add, [each.counters for each in known]) if len(known) == len(found) else None,
        sum(
            _messages_in(end)
            for (source, _), (_, end, _), new in zip(found, offsets, is_new, strict=True)
            if new and latest and not source.get("numInputRows")
        ),
    )


_LOST = frozenset(f"{_DEQUEUE} {each}" for each in (NO_ANSWER, 500, 502, 504))
"""Outcomes of a failed dequeue after which messages may be leased, by their names in
`Report.latencies`.
"""


def _loses(report: Report) -> bool:
    """Return True if dequeues of the run were sent and got no answer. Some may still be in
    flight."""
    answered = sum(
        each.count
        for name, each in report.latencies.items()
        if name.split(" ")[0] == _DEQUEUE and name not in _LOST
    )
    return bool(report.latencies) and report.requests.get(_DEQUEUE, 0) > answered


def skipped(read: Read) -> str:
    """Return a warning if the batch has messages, but no row of the batch was read; "" for other
    batches.
    """
    if not read.unread:
        return ""
    number = read.batch[1]
    logs = sorted(str(end["batch"]) for end in read.ends if "log" in end)
    if logs:
        rows = (
            f"They are in the write-ahead log, batch {', '.join(logs)}: read them with readLog, or"
            " put them into the queue again by the command `replay`"
        )
    elif read.is_old_spark:
        rows = (
            "The next start with this checkpoint would delete them. Until then they are in the"
            " queue: start with a new checkpoint and a new output"
        )
    else:
        rows = "Without a write-ahead log they are deleted with the next batch, and lost"
    return (
        f"batch {number} had {read.unread} messages, and no row of them was read: the sink skipped"
        " it. An output that has batches of an earlier checkpoint skips their numbers: with a new"
        f" checkpoint take a new output (and a new log). {rows}"
    )


def _messages_in(end: Mapping[str, Any]) -> int:
    """Return the number of messages in the batch of this offset; 0 for a plan, whose tasks lease
    messages later.
    """
    if "slots" in end:
        return 0
    if "log" in end:
        return whole(end["messages"])
    return sum(whole(packed["messages"]) for packed in end["queues"].values())


def _queues_in(end: Mapping[str, Any]) -> frozenset[str]:
    slots = end.get("slots") or ()
    return frozenset(end.get("queues") or ()).union(*(each["queues"] for each in slots))
