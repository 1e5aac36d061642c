"""Checks a write-ahead log: whether it can be used, belongs to this query, is complete, and is
safe.

The checks never claim the log, so they do not stop a running query. The checks write one object
into the log's folder, and remove it. If a query writes to the log during the checks, the findings
may be outdated.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator, Sequence

from spark_azqueue.errors import AzQueueError
from spark_azqueue.journal.claim import CLAIMS
from spark_azqueue.journal.store import LogStore, log_store
from spark_azqueue.options.log import LogConfig
from spark_azqueue.options.source_config import SourceConfig
from spark_azqueue.service.blobs.folder import BlobFolder
from spark_azqueue.service.blobs.protection import Protection
from spark_azqueue.service.names import EXECUTORS, WRITE_AHEAD, Stored
from spark_azqueue.source.log.inspect import LogContents

from .finding import Finding, advice_on, moment_of
from .plan_checks import of_its_queues, plan_findings

_MANY_UNCOMMITTED = 3

_PROBE_BYTES = 64 * 2**10
"""Size of the test object in bytes, so large that a full disk refuses the object."""


def examine_log(
    config: SourceConfig, settings: LogConfig, store: LogStore | None = None
) -> Iterator[Finding]:
    """Check the log of these options. store: replaces the store that the options name.

    Never raises: an error becomes a finding.
    """
    kind = EXECUTORS if config.executors else WRITE_AHEAD
    store = store or log_store(settings.place, settings.account, kind)
    subject = f"write-ahead log {store.where}"
    try:
        if settings.place.container is None:
            found = _disk(subject, settings.place.folder, config.max_bytes)
            yield found
            if found.good is not True:
                return
        store.open()
        yield from _writing(subject, store, settings)
        if config.executors:
            yield from plan_findings(subject, store, config)
        else:
            yield from _contents(subject, store, config, settings)
    except AzQueueError as error:
        yield Finding(False, f"{subject} cannot be used", advice_on(error))
    finally:
        store.close()


# ── can it be used? ───────────────────────────────────────────────────────────────────────────────


def _disk(subject: str, folder: str, most: int) -> Finding:
    """Check that the folder exists or can be created, and that its disk has room for a batch."""
    there = folder
    for _ in range(2):  # the first start creates at most two folders
        if not os.path.lexists(there):
            there = os.path.dirname(there)
    if not os.path.isdir(there):
        advice = "Is the disk mounted? For a new log, create the folder above; else restore it"
        return Finding(False, f"{subject}: there is no folder {there}", advice)
    try:
        free = shutil.disk_usage(there).free
    except OSError as error:
        return Finding(
            False, f"{subject}: {there} cannot be read ({error.strerror})", "Check the disk"
        )
    if free < most:
        text = f"{subject}: {_size(free)} are free on its disk"
        return Finding(False, text, f"Make room: a batch may take {_size(most)} there")
    if there != folder:
        if os.access(there, os.W_OK | os.X_OK):
            advice = "if a query has used it before, restore it: its checkpoint needs it"
            return Finding(None, f"{subject} is new: the first start makes the folder", advice)
        advice = "Let the user of the driver's process write there, or create the folder for it"
        return Finding(False, f"{subject} cannot be made: {there} is not writable", advice)
    return Finding(True, f"{subject}: {_size(free)} are free on its disk")


def _writing(subject: str, store: LogStore, settings: LogConfig) -> Iterator[Finding]:
    """Create, read and delete an object.

    The object is among the claims, but its name is not the name of a claim.
    """
    place = settings.place
    if place.container is None and not os.path.isdir(os.path.join(place.folder, CLAIMS)):
        # `open` has already created and linked a file
        yield Finding(True, f"{subject}: files can be made there")
        return
    probe, data = f"{CLAIMS}/doctor-{uuid.uuid4().hex}", os.urandom(_PROBE_BYTES)
    created = store.put_new(probe, data)
    try:
        overwrites = store.put_new(probe, b"another")
        same = store.get(probe, len(data) + 1) == data
        if place.container is not None:
            yield from _protection(subject, store, probe, f"{place.container}/{place.folder}")
    finally:
        store.delete(probe)
    if overwrites or not (created and same):
        advice = "Use another place: here, two queries could overwrite each other's log"
        yield Finding(False, f"{subject}: an object that exists is overwritten", advice)
    else:
        yield Finding(True, f"{subject}: objects can be created once, read and deleted")


def _protection(subject: str, store: LogStore, probe: str, place: str) -> Iterator[Finding]:
    rule = (
        f"no rule may cover '{place}/' (one without a prefix covers everything): see"
        " `az storage account management-policy show`"
    )
    yield Finding(
        None, f"{subject}: this credential does not show whether a lifecycle rule covers it", rule
    )
    if isinstance(store, BlobFolder):
        yield from _kept_longer(subject, store.protection(probe))


def _kept_longer(subject: str, found: Protection) -> Iterator[Finding]:
    if found.immutable:
        advice = "Use another container: a start deletes the claim before it, and old batches"
        yield Finding(False, f"{subject}: an immutability policy or a legal hold is on", advice)
    kept = [f"soft delete for {found.kept_days} days"] if found.kept_days else []
    kept += ["versions"] if found.versions else []
    if kept:
        advice = "what the log removes takes storage for so long, and holds bodies"
        yield Finding(
            None, f"{subject}: the account keeps deleted blobs ({', '.join(kept)})", advice
        )
    if found.kept_days is None:
        advice = "that takes an account key, or the letter 'r' of a SAS for the account"
        yield Finding(None, f"{subject}: may not read whether soft delete is on", advice)


# ── what is in it, and whose is it? ───────────────────────────────────────────────────────────────


def _contents(
    subject: str, store: LogStore, config: SourceConfig, settings: LogConfig
) -> Iterator[Finding]:
    """Yield findings about which query owns the log, and about its contents. subject: text with
    which each finding begins.

    Raises AzQueueError.
    """
    log = LogContents(store, config.account.name, settings)
    if log.is_new:
        advice = "if a query has used it before, restore it: its checkpoint needs it"
        yield Finding(None, f"{subject} is new: the first start writes its identity", advice)
        return
    yield Finding(True, f"{subject} belongs to account '{config.account.name}'")
    if not log.queues:
        is_lost = log.state.head > log.state.floor  # a mark proves that there were batches
        none = Finding(None, f"{subject} holds no batch yet")
        yield _held(subject, log, ()) if is_lost else none
        return
    yield of_its_queues(subject, log.queues, config)
    listed = log.segments()
    yield from _tiers(subject, listed)
    yield Finding(
        True, f"{subject}: the newest batch is as it was written: {log.read_newest():,} messages"
    )
    yield _held(subject, log, listed)
    yield _progress(subject, log)
    if given_up := log.given_up():
        advice = "their messages came again in later batches, or are in the poison queue"
        yield Finding(
            None, f"{subject}: {len(given_up)} batches were abandoned, {given_up[0]} first", advice
        )


def _tiers(subject: str, listed: Sequence[Stored]) -> Iterator[Finding]:
    """Check for objects with an access tier. The connector sets no tiers, so a lifecycle rule has
    set them.
    """
    tiers = sorted({each.tier for each in listed if each.tier})
    if tiers:
        text = f"{subject}: something has set access tiers in it ({', '.join(tiers)})"
        advice = "Leave its folder out of lifecycle rules and cleaning jobs"
        if "Archive" in tiers:
            advice += "; rehydrate what is archived, since it cannot be read"
        yield Finding(False if "Archive" in tiers else None, text, advice)


def _held(subject: str, log: LogContents, listed: Sequence[Stored]) -> Finding:
    state, stand = log.state, [each for each in listed if log.is_held(each)]
    size = _size(sum(each.size for each in listed))
    text = f"{subject} holds batches {state.floor + 1} to {state.head} ({size})"
    if missing := state.head - state.floor - len(stand):
        advice = "failOnDataLoss=false continues without them: restore them if you can"
        return Finding(False, f"{text}, and {missing} of them are missing", advice)
    written = [each.written for each in stand if each.written]
    if written:
        text += (
            f", the oldest written {moment_of(min(written))}, the newest {moment_of(max(written))}"
        )
    return Finding(True, text)


def _progress(subject: str, log: LogContents) -> Finding:
    progress = log.state.progress
    behind = log.state.head - max(progress.committed, log.state.floor)
    known, are_all = log.known()
    more = "" if are_all else "at least "
    text = (
        f"{subject}: committed up to batch {progress.committed}, deleted from the queue up to"
        f" {progress.done}, {behind} not known to be committed; {more}{known:,} ids known,"
        f" {len(progress.pending):,} pending deletes"
    )
    if behind >= _MANY_UNCOMMITTED:
        advice = "a query that runs is one or two behind: does a batch fail again and again?"
        return Finding(None, text, advice)
    return Finding(True, text)


def _size(size: int) -> str:
    """Return a size in bytes as text."""
    return f"{size / 2**20:,.1f} MiB" if size >= 2**20 else f"{size / 2**10:.1f} KiB"
