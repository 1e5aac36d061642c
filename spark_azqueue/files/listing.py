"""Lists the containers, and puts an event in Event Grid's schema for each listed file into the
queue.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from spark_azqueue.options.choices import Side
from spark_azqueue.options.parse import OPTIONS, sink_config
from spark_azqueue.service.account import Account
from spark_azqueue.service.blobs.container import Container
from spark_azqueue.service.blobs.etags import etag_of

from .decide import Announced, is_wanted, listed_by
from .memory import File, Memory
from .rules import Root, Rules, path_below, spark_path, trouble_with

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHUNK = 5_000
"""Number of messages per write."""

SETTLED_S = 3_600.0
"""Listings after the first leave out files that changed in the last so many seconds: a file may be
half-written, or its event may still arrive.
"""


_PIECES = 16
"""Number of pieces in which the driver collects a listing that Spark's tasks have made."""


class Listed(NamedTuple):
    """A file in a container. at: time of the last change, in seconds since 1970. size: size in
    bytes."""

    root: Root
    path: str
    at: float
    size: int


class Window(NamedTuple):
    """Times of a listing, in seconds since 1970. A file is listed if its last change was at or
    after `since` and before `until`.

    again: with `allow_overwrites`, files that changed at or after this time get an event even if
    they were read.
    """

    since: float = 0.0
    until: float = float("inf")
    again: float = 0.0


def in_containers(spark: SparkSession, rules: Rules) -> Iterator[Listed]:
    """List the trusted containers with Spark's reader. Raises Spark's errors and ValueError."""
    for root in rules.roots.values():
        reader = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
        found = reader.option("ignoreMissingFiles", "true").load(spark_path(root, ""))
        rows = found.selectExpr("path", "unix_micros(modificationTime) AS at", "length")
        for row in rows.repartition(_PIECES).toLocalIterator():
            path = path_below(root, row["path"])
            if path is None:
                raise ValueError(
                    f"Spark lists {row['path']!r} in {root.spark!r}, which is not below it, so no"
                    f" event can name it: say in paths how Spark names the container {root.name}"
                )
            yield Listed(root, path, row["at"] / 1e6, row["length"])


def to_announce(
    found: Iterable[Listed], rules: Rules, memory: Memory, window: Window
) -> Iterator[Listed]:
    """Yield the files of a listing that need an event: files that the rules select and that were
    not read before.

    Empty files are left out: a program may still be writing them, and an event follows when they
    are written. A quarantined file is yielded only if it changed after it was quarantined. A file
    with an unreadable name is yielded only once, so that it is quarantined.
    """
    for each in found:
        file = File(each.root.name, each.path)
        aside = memory.aside_at(file)
        has_changed = each.at >= window.again
        is_new = has_changed if rules.allow_overwrites else not memory.knows(file)
        is_new = is_new and each.size > 0 and (aside is None or each.at > aside)
        is_new = is_new and (has_changed or not trouble_with(each.path))
        if window.since <= each.at < window.until and is_new and is_wanted(each.path, rules):
            yield each


def announce(
    spark: SparkSession, options: Mapping[str, str], queue: str, events: Iterable[str]
) -> int:
    """Put events into the queue, one event per message. Returns the number of events.

    options: options of the source. Raises Spark's error if a write fails. After this error, some
    events may be in the queue.
    """
    target = {**_of_a_sink(options), "queue": queue, "timeToLive": "-1"}
    count, rest = 0, ((event,) for event in events)
    while rows := [*islice(rest, CHUNK)]:
        frame = spark.createDataFrame(rows, "body STRING")
        frame.write.format("azqueue").mode("append").options(**target).save()
        count += len(rows)
    return count


def check_sink(options: Mapping[str, str], queue: str) -> None:
    """Raise InvalidOption if a sink cannot write events and envelopes with the source's options."""
    sink_config({**_of_a_sink(options), "queue": queue})


def send(spark: SparkSession, options: Mapping[str, str], queue: str, envelopes: list[str]) -> None:
    """Put envelopes into a queue as messages. Creates the queue if it is missing."""
    target = {**_of_a_sink(options), "queue": queue, "createQueue": "true"}
    frame = spark.createDataFrame([(envelope,) for envelope in envelopes], "body STRING")
    frame.write.format("azqueue").mode("append").options(**target).save()


def event(found: Listed, now: float, sender: str) -> str:
    """Return the event of a listed file, in Event Grid's schema. now: seconds since 1970.

    sender: see `listed_by`.
    """
    data = {"api": listed_by(sender), "contentLength": found.size}
    return _event(found.root, found.path, "BlobCreated", now, data)


def again(event: Announced, root: Root) -> str:
    """Return the text of an event, in Event Grid's schema, to put a received event back into the
    queue.
    """
    kind = "BlobDeleted" if event.change == "deleted" else "BlobCreated"
    data = {"api": event.api, "eTag": event.etag, "sequencer": event.sequencer}
    return _event(root, event.path, kind, event.at, data)


def _event(root: Root, path: str, kind: str, at: float, data: Mapping[str, object]) -> str:
    subject = f"/blobServices/default/containers/{root.container}/blobs/{path}"
    return json.dumps(
        {
            "id": uuid.uuid4().hex,
            "topic": root.name,
            "subject": subject,
            "eventType": f"Microsoft.Storage.{kind}",
            "eventTime": datetime.fromtimestamp(at, timezone.utc).isoformat(),
            "data": {**data, "url": root.https + quote(path)},
        }
    )


OF_BLOBS = frozenset({"blobaccounturl", "secret.blobconnectionstring"})
"""Options, in lower case, that a source or sink refuses if it uses no blobs."""

_BOTH = {option.name.lower() for option in OPTIONS if option.side is Side.BOTH}


def _of_a_sink(options: Mapping[str, str]) -> dict[str, str]:
    """Return the source's options that are also options of the sink: account, credential, encoding,
    …
    """
    given = {name.lower() for name in options}
    no_blobs = frozenset() if "largebody" in given else OF_BLOBS
    left_out = {"queue", "createqueue", "timetolive", *no_blobs}
    return {
        name: value
        for name, value in options.items()
        if name.lower() in _BOTH - left_out
        # AUTO is for reading only. A source with AUTO can read messages that were written without
        # this option.
        and (name.lower(), str(value).strip().lower()) != ("messageencoding", "auto")
    }


_AT_ONCE = 8


def etags(account: Account, files: Iterable[File]) -> dict[tuple[str, str], str]:
    """Return the etag of each file, by place and path. Missing files are left out.

    account: its `url` is the blob endpoint. Raises ServiceError.
    """
    asked = list(files)
    containers = {
        place: Container(
            account,
            place.partition("/")[2],
            if_missing="Correct 'trusted', or create the container",
        )
        for place in {file.place for file in asked}
    }
    try:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            found = pool.map(lambda file: etag_of(containers[file.place], file.path), asked)
            pairs = zip(asked, found, strict=True)
            return {(file.place, file.path): etag for file, etag in pairs if etag is not None}
    finally:
        for container in containers.values():
            container.close()
