"""Checks a write-ahead log: can it be used, is it this query's, what is in it, what may harm it.

It never claims the log, so a query that runs goes on. It writes one object beside the segments, and
removes it. A query that writes meanwhile may be further than the findings say.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator

from spark_azqueue.errors import AzQueueError
from spark_azqueue.options.log import LogConfig
from spark_azqueue.options.source_config import SourceConfig
from spark_azqueue.service.blobs.protection import Protection
from spark_azqueue.source.log import names
from spark_azqueue.source.log.store import LogStore, log_store

from .finding import Finding, advice_on
from .log_contents import contents, size_told

_PROBE_BYTES = 64 * 2**10
"""So many that a full disk refuses them."""


def examine_log(
    config: SourceConfig, settings: LogConfig, store: LogStore | None = None
) -> Iterator[Finding]:
    """Check the log of these options. store: where it is, if not where they say.

    Never raises: an error becomes a finding.
    """
    store = store or log_store(settings)
    told = f"write-ahead log {store.where}"
    try:
        if settings.place.container is None:
            found = _disk(told, settings.place.folder, config.max_bytes)
            yield found
            if found.good is not True:
                return
        store.open()
        yield from _writing(told, store, settings)
        yield from contents(told, store, config, settings)
    except AzQueueError as error:
        yield Finding(False, f"{told} cannot be used", advice_on(error))
    finally:
        store.close()


# ── can it be used? ───────────────────────────────────────────────────────────────────────────────


def _disk(told: str, folder: str, most: int) -> Finding:
    """Is the folder there, or can the first start make it, and is there room for a batch?"""
    there = folder
    for _ in range(2):  # the first start makes two folders at most
        if not os.path.lexists(there):
            there = os.path.dirname(there)
    if not os.path.isdir(there):
        advice = "Is the disk mounted? For a new log, create the folder above; else restore it"
        return Finding(False, f"{told}: there is no folder {there}", advice)
    try:
        free = shutil.disk_usage(there).free
    except OSError as error:
        return Finding(
            False, f"{told}: {there} cannot be read ({error.strerror})", "Check the disk"
        )
    if free < most:
        text = f"{told}: {size_told(free)} are free on its disk"
        return Finding(False, text, f"Make room: a batch may take {size_told(most)} there")
    if there != folder:
        if os.access(there, os.W_OK | os.X_OK):
            advice = "if a query has used it before, restore it: its checkpoint needs it"
            return Finding(None, f"{told} is new: the first start makes the folder", advice)
        advice = "Let the user of the driver's process write there, or create the folder for it"
        return Finding(False, f"{told} cannot be made: {there} is not writable", advice)
    return Finding(True, f"{told}: {size_told(free)} are free on its disk")


def _writing(told: str, store: LogStore, settings: LogConfig) -> Iterator[Finding]:
    """Create an object, read it and delete it. In a claim's place, under a name that claims not."""
    place = settings.place
    if place.container is None and not os.path.isdir(os.path.join(place.folder, names.CLAIMS)):
        yield Finding(True, f"{told}: files can be made there")  # `open` has made and linked one
        return
    probe, data = f"{names.CLAIMS}/doctor-{uuid.uuid4().hex}", os.urandom(_PROBE_BYTES)
    created = store.put_new(probe, data)
    try:
        overwrites = store.put_new(probe, b"another")
        same = store.get(probe, len(data) + 1) == data
        if place.container is not None:
            yield from _protection(told, store, probe, f"{place.container}/{place.folder}")
    finally:
        store.delete(probe)
    if overwrites or not (created and same):
        advice = "Use another place: here, two queries could overwrite each other's log"
        yield Finding(False, f"{told}: an object that exists is overwritten", advice)
    else:
        yield Finding(True, f"{told}: objects can be created once, read and deleted")


def _protection(told: str, store: LogStore, probe: str, place: str) -> Iterator[Finding]:
    from spark_azqueue.service.blobs.folder import BlobFolder  # needs Azure's SDK

    rule = (
        f"no rule may cover '{place}/' (one without a prefix covers everything): see"
        " `az storage account management-policy show`"
    )
    yield Finding(
        None, f"{told}: this credential does not show whether a lifecycle rule covers it", rule
    )
    if isinstance(store, BlobFolder):
        yield from _kept_longer(told, store.protection(probe))


def _kept_longer(told: str, found: Protection) -> Iterator[Finding]:
    if found.immutable:
        advice = "Use another container: a start deletes the claim before it, and old batches"
        yield Finding(False, f"{told}: an immutability policy or a legal hold is on", advice)
    kept = [f"soft delete for {found.kept_days} days"] if found.kept_days else []
    kept += ["versions"] if found.versions else []
    if kept:
        advice = "what the log removes takes storage for so long, and holds bodies"
        yield Finding(None, f"{told}: the account keeps deleted blobs ({', '.join(kept)})", advice)
    if found.kept_days is None:
        advice = "that takes an account key, or the letter 'r' of a SAS for the account"
        yield Finding(None, f"{told}: may not read whether soft delete is on", advice)
