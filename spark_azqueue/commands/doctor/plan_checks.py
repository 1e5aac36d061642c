"""Checks the folder of a query with leaseOn=executors. Changes nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from spark_azqueue.journal.store import LogStore
from spark_azqueue.options.source_config import SourceConfig
from spark_azqueue.service.messages import QueueRef
from spark_azqueue.source.executors.inspect import FolderContents, Plan

from .finding import Finding


def plan_findings(subject: str, store: LogStore, config: SourceConfig) -> Iterator[Finding]:
    """Yield findings about which query owns the folder, and about its plans. subject: text with
    which each finding begins.

    Raises AzQueueError.
    """
    folder = FolderContents(store, config.account.name)
    if folder.is_new:
        advice = "if a query has used it before, restore it: its checkpoint needs it"
        yield Finding(None, f"{subject} is new: the first start writes its identity", advice)
        return
    yield Finding(True, f"{subject} belongs to account '{config.account.name}'")
    newest = folder.newest()
    if newest is None:
        yield Finding(None, f"{subject} holds no batch yet")
        return
    if newest.is_again:
        yield _again(subject, newest)
    else:
        yield of_its_queues(subject, newest.queues, config)
    floor, size = folder.kept()
    yield Finding(
        True, f"{subject} holds batches {floor + 1} to {newest.number} ({size / 2**20:,.1f} MiB)"
    )
    yield _slots(subject, folder, newest)


def of_its_queues(subject: str, queues: Collection[QueueRef], config: SourceConfig) -> Finding:
    """Check that the query reads at least one of the queues that the log's newest batch has
    read."""
    names = sorted(queue.name for queue in queues)
    text = f"{subject} was written from the queues {names}"
    if any(map(config.selection.includes, queues)):
        return Finding(True, text)
    advice = "Name the folder of this query, or a new one: a start with this one is refused"
    return Finding(False, f"{text}, and option 'queue' names none of them", advice)


def _again(subject: str, newest: Plan) -> Finding:
    now = sum(slot.again.messages for slot in newest.slots if slot.again)
    waiting = sum(part.messages for group in newest.waiting for part in group)
    text = (
        f"{subject}: a batch failed repeatedly and was abandoned: the newest batch delivers"
        f" {now:,} of its messages, and {waiting:,} wait for later ones"
    )
    advice = "See why the query fails, and start it again until they have been tried one by one"
    return Finding(None, text, advice)


def _slots(subject: str, folder: FolderContents, newest: Plan) -> Finding:
    given, answered, messages = folder.slots(newest)
    text = (
        f"{subject}: batch {newest.number} has {len(newest.slots)} slots;"
        f" {given} gave something, and the deletes of {answered} are answered"
    )
    if not messages:
        return Finding(True, text)
    advice = "A query that runs ends them; otherwise start it again"
    return Finding(None, f"{text}; {messages:,} messages may be in their queues yet", advice)
