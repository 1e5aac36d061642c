"""What is in a write-ahead log, and whose it is, for the doctor. Reads only, and claims nothing."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence

from spark_azqueue.options.log import LogConfig
from spark_azqueue.options.source_config import SourceConfig
from spark_azqueue.service.names import Stored
from spark_azqueue.source.log import names
from spark_azqueue.source.log.log import WriteAheadLog
from spark_azqueue.source.log.standing import Standing
from spark_azqueue.source.log.store import LogStore

from .finding import Finding

_HEADERS_AT_MOST = 200
"""More batches than this whose messages are not deleted are not counted."""

_MANY_UNCOMMITTED = 3


def contents(
    told: str, store: LogStore, config: SourceConfig, settings: LogConfig
) -> Iterator[Finding]:
    """Whose log it is, and what it holds. told: begins each finding. Raises AzQueueError."""
    log = WriteAheadLog(
        store, config.account.name, settings.retention, lose=not settings.fail_on_data_loss
    )
    if not log.identify():
        advice = "if a query has used it before, restore it: its checkpoint needs it"
        yield Finding(None, f"{told} is new: the first start writes its identity", advice)
        return
    standing = log.survey()
    yield Finding(True, f"{told} belongs to account '{config.account.name}'")
    if log.newest is None:
        yield Finding(None, f"{told} holds no batch yet")
        return
    yield _queues(told, log, config)
    listed = [each for each in store.entries(names.SEGMENTS) if names.number_in(each.name)]
    yield from _tiers(told, listed)
    head = log.segment(standing.head)
    yield Finding(
        True, f"{told}: the newest batch is as it was written: {len(head.messages):,} messages"
    )
    yield _held(told, standing, listed)
    yield _progress(told, log, standing)
    yield from _given_up(told, log, standing)


def _queues(told: str, log: WriteAheadLog, config: SourceConfig) -> Finding:
    assert log.newest
    logged = sorted(queue.name for queue in log.newest.queues)
    if any(map(config.selection.includes, log.newest.queues)):
        return Finding(True, f"{told} was written from the queues {logged}")
    advice = "Name the folder of this query, or a new one: a start with this one is refused"
    text = f"{told} was written from the queues {logged}, and option 'queue' names none of them"
    return Finding(False, text, advice)


def _tiers(told: str, listed: Sequence[Stored]) -> Iterator[Finding]:
    """The connector sets no tier. If somebody does, a lifecycle rule covers the folder."""
    tiers = sorted({each.tier for each in listed if each.tier})
    if tiers:
        text = f"{told}: something has set access tiers in it ({', '.join(tiers)})"
        advice = "Leave its folder out of lifecycle rules and cleaning jobs"
        if "Archive" in tiers:
            advice += "; rehydrate what is archived, since it cannot be read"
        yield Finding(False if "Archive" in tiers else None, text, advice)


def _held(told: str, standing: Standing, listed: Sequence[Stored]) -> Finding:
    stand = [each for each in listed if (names.number_in(each.name) or 0) > standing.floor]
    size = size_told(sum(each.size for each in listed))
    text = f"{told} holds batches {standing.floor + 1} to {standing.head} ({size})"
    if missing := standing.head - standing.floor - len(stand):
        advice = "failOnDataLoss=false goes on without them: restore them if you can"
        return Finding(False, f"{text}, and {missing} of them are missing", advice)
    written = [each.written for each in stand if each.written]
    if written:
        text += f", the oldest written {_moment(min(written))}, the newest {_moment(max(written))}"
    return Finding(True, text)


def _progress(told: str, log: WriteAheadLog, standing: Standing) -> Finding:
    progress = standing.progress
    behind = standing.head - max(progress.committed, standing.floor)
    owed = len(progress.owed)
    first = max(progress.done, standing.floor) + 1
    not_deleted = [n for n in range(first, standing.head + 1) if n in log.sizes]
    known = owed + sum(log.header(n).messages for n in not_deleted[-_HEADERS_AT_MOST:])
    more = "at least " if len(not_deleted) > _HEADERS_AT_MOST else ""
    text = (
        f"{told}: committed up to batch {progress.committed}, deleted from the queue up to"
        f" {progress.done}, {behind} not known to be committed; {more}{known:,} ids known,"
        f" {owed:,} deletes owed"
    )
    if behind >= _MANY_UNCOMMITTED:
        advice = "a query that runs is one or two behind: does a batch fail again and again?"
        return Finding(None, text, advice)
    return Finding(True, text)


def _given_up(told: str, log: WriteAheadLog, standing: Standing) -> Iterator[Finding]:
    verdicts = log.verdicts
    verdicts.find()
    given_up = [
        number
        for number in sorted(verdicts.up_to(standing.head))
        if (verdict := verdicts.on(number)) and verdict.gives_up
    ]
    if given_up:
        advice = "their messages came again in later batches, or are in the poison queue"
        yield Finding(
            None, f"{told}: {len(given_up)} batches were given up, {given_up[0]} first", advice
        )


def size_told(size: int) -> str:
    """Bytes, for texts."""
    return f"{size / 2**20:,.1f} MiB" if size >= 2**20 else f"{size / 2**10:.1f} KiB"


def _moment(seconds: float) -> str:
    moment = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
