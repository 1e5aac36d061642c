"""Processes a batch of events: writes the list of the batch's files, then passes the files' rows to
the user's function."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from spark_azqueue.journal.store import log_store
from spark_azqueue.options.log import LogPlace
from spark_azqueue.service.account import Account
from spark_azqueue.service.names import FILES
from spark_azqueue.service.redaction import shown

from .bodies import of_bodies
from .decide import Announced, Looks, Quarantined, changed, listed_by, not_matched, without
from .hadoop import is_sparks, said
from .listing import (
    SETTLED_S,
    Listed,
    Window,
    again,
    announce,
    etags,
    event,
    in_containers,
    send,
    to_announce,
)
from .log import FileLog, LookAt, Means, list_of
from .memory import Bounds, File, Memory
from .reading import Files
from .record import Begun, FileList
from .refusals import files_not_trusted
from .rules import Rules, may_be_a_mount

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

_ENVELOPE = 48_000
"""Maximum size of an envelope in bytes. A message has at most 64 KiB, and base64 turns three bytes
into four.
"""

_QUERY_ID = "sql.streaming.queryId"


@dataclass(repr=False)  # kept out of `repr`, because the options contain secrets
class Arrivals:
    """The function for `foreachBatch`. All state that it needs after a restart is in its log.

    queue: queue of the events. account: account of the queue. blobs: the same account with its blob
    endpoint, if the log or etags are read from blobs. each: the user's function. aside_queue: queue
    for quarantined files and events. backfill_s: seconds between two listings; None for only the
    first listing. most: maximum number of files in a batch, even if the batch's messages name more
    files.
    """

    options: Mapping[str, str]
    queue: str
    trusted: Sequence[str]
    rules: Rules
    files: Files
    each: Callable[[DataFrame, int], object]
    place: LogPlace
    account: Account
    blobs: Account | None
    bounds: Bounds
    aside_queue: str | None = None
    backfill_s: float | None = None
    most: int = 10_000
    clock: Callable[[], float] = time.time
    _log: FileLog | None = field(default=None, repr=False)
    _began: float = 0.0
    _seen: float = 0.0  # files that arrived before this time were in a listing
    _due: float = 0.0

    def begin(self, spark: SparkSession, *, existing: bool, resumed: bool = False) -> None:
        """Open the log, and list the files of the containers if a listing is due. existing: list
        the files from before the first start.

        resumed: True if the checkpoint already has batches. The log may raise ServiceError,
        LogConflict or LogDamaged. A listing may raise Spark's errors or ValueError.
        """
        files = self._opened()
        now = Begun(self.clock(), existing, self.rules.allow_overwrites)
        began = files.begun(now, resumed=resumed)
        self._began = 0.0 if began.existing else began.at
        listed = files.listed()
        at = began.at if listed is None else listed
        # in seconds; files of this time may be missing in a listing that was made with another
        # interval
        self._seen = at - SETTLED_S
        self._due = at + (self.backfill_s or 0.0)
        if listed is None and began.existing:
            self._list(spark, Window())
        else:
            self.list_again(spark)

    def __call__(self, batch: DataFrame, number: int) -> None:
        """Read the files of a batch. Raises errors of the log and of the user's function."""
        files, spark = self._opened(), batch.sparkSession
        files.check_number(number)  # check this before any event is quarantined
        if query := spark.sparkContext.getLocalProperty(_QUERY_ID):
            files.claim(query)
        found = self._events(batch, spark)
        if left_out := not_matched(found, self.rules):
            log.info(
                "%s events of batch %d are deleted unread, since path_glob_filter does not match"
                " their files, such as %s/%s",
                f"{len(left_out):,}",
                number,
                left_out[0].place,
                shown(left_out[0].path),
            )
        comes_again = number == files.newest

        def look(asked: Sequence[File]) -> Looks:
            found = self.files.look(spark, asked, or_denied=True)
            files.denials.check(found)
            return found

        def put_back(events: Sequence[Announced]) -> None:
            self._put_back(spark, events)

        means = Means(self._etags, look, self.most, put_back)
        record = list_of(files, self.rules, number, found, means, self.clock())
        if record:
            self._told(spark, [*record.aside, *files.bad(number)])
            self._read(spark, files, record, look, comes_again=comes_again)
        self.list_again(spark, found)

    @property
    def sender(self) -> str:
        """Secret in the events that this query's listings send. Raises ServiceError, LogDamaged."""
        return self._opened().sender

    def _opened(self) -> FileLog:
        if self._log is None:
            store = log_store(self.place, self.blobs if self.place.container else None, FILES)
            memory = Memory(self.bounds, allow_overwrites=self.rules.allow_overwrites)
            opened = FileLog(store, self.account.name, memory)
            opened.open()
            self._log = opened
        return self._log

    def _events(self, batch: DataFrame, spark: SparkSession) -> list[Announced]:
        """Return the events about files. Quarantine events that are not readable or not about
        trusted containers."""
        found, broken = of_bodies(batch, self.trusted, self.clock())
        if broken:
            log.warning(
                "%s events name no file that is trusted, such as one in the message %s: %s",
                f"{sum(1 + each.more for each in broken):,}",
                broken[0].message_id,
                broken[0].reason,
            )
            self._envelopes(spark, [each.envelope() for each in broken])
        return found

    def _read(
        self,
        spark: SparkSession,
        files: FileLog,
        record: FileList,
        look: LookAt,
        *,
        comes_again: bool,
    ) -> None:
        """Pass the rows of the files in a list to the user's function. Files that turn out to be
        unreadable are left out.

        The function is called even if no file is left, because an earlier call may have written
        rows under this batch number.
        """
        if missing := {file.place for file in record.files} - self.rules.roots.keys():
            raise files_not_trusted(files.where, record.batch, sorted(missing)[0])
        if comes_again:
            rest = without(record.files, files.bad(record.batch))
            self._set_aside(spark, record, changed(rest, look(rest), self._etags(rest)))
        while record.files:
            rest = without(record.files, files.bad(record.batch))
            try:
                self.each(self.files.frame(spark, rest), record.batch)
                return
            except Exception as error:
                if not is_sparks(error):
                    raise
                found = False
                for bad in self.files.unreadable(spark, rest):
                    found = True
                    self._set_aside(spark, record, bad)
                if not found:
                    raise
                log.warning(
                    "batch %d comes again without what cannot be read: %s",
                    record.batch,
                    said(error),
                )

    def _set_aside(self, spark: SparkSession, record: FileList, bad: Sequence[Quarantined]) -> None:
        if bad:
            self._opened().put_bad(record.batch, bad)
            self._told(spark, bad)

    def _etags(self, asked: Sequence[File]) -> Mapping[tuple[str, str], str] | None:
        wanted = asked and self.rules.allow_overwrites and self.blobs
        return etags(self.blobs, asked) if wanted and self.blobs else None

    def _put_back(self, spark: SparkSession, events: Sequence[Announced]) -> None:
        texts = (again(event, self.rules.roots[event.place]) for event in events)
        count = announce(spark, self.options, self.queue, texts)
        log.warning(
            "the messages of a batch name more than %s files: %s events were put back into the"
            " queue %s, each as a message",
            f"{self.most:,}",
            f"{count:,}",
            self.queue,
        )

    def _told(self, spark: SparkSession, aside: Sequence[Quarantined]) -> None:
        if not aside:
            return
        file, why = aside[0]
        place, path = file.place, shown(file.path)
        log.warning("%d files are set aside, such as %s/%s: %s", len(aside), place, path, why)
        self._envelopes(spark, [envelope(each) for each in aside])

    def _envelopes(self, spark: SparkSession, envelopes: Sequence[Mapping[str, Any]]) -> None:
        if self.aside_queue:
            send(spark, self.options, self.aside_queue, [*map(envelope_text, envelopes)])

    def list_again(self, spark: SparkSession, events: Sequence[Announced] = ()) -> None:
        """List the containers again if a listing is due. events: events of the batch that just
        ended.

        While events of an earlier listing still arrive, no listing begins, because it would send
        events about the same files again.
        """
        now, every, listed = self.clock(), self.backfill_s, listed_by(self.sender)
        if every is None or now < self._due or any(event.api == listed for event in events):
            return
        settled = min(SETTLED_S, every)
        since = max(self._began, self._opened().memory.horizon)
        if self._list(spark, Window(since, now - settled, self._seen - settled)):
            self._seen = now - settled

    def _list(self, spark: SparkSession, window: Window) -> bool:
        """List the containers and announce the files. Returns False if the next start of the query
        has to repeat this."""
        files, now = self._opened(), self.clock()
        empty = {name for name, root in self.rules.roots.items() if may_be_a_mount(root)}
        seen = _taken_from(empty, in_containers(spark, self.rules))
        found = to_announce(seen, self.rules, files.memory, window)
        events = (event(each, now, self.sender) for each in found)
        count = announce(spark, self.options, self.queue, events)
        self._due = self.clock() + (self.backfill_s or 0.0)
        log.info("%d files of a listing were announced in the queue %s", count, self.queue)
        if count > self.bounds.most:
            log.warning(
                "%s files of a listing were announced, more than max_files_remembered=%s: all of"
                " them are remembered until they are read",
                f"{count:,}",
                f"{self.bounds.most:,}",
            )
        if empty:
            log.warning(
                "nothing is in %s: the next start lists it again, as it may be a container that is"
                " not mounted",
                self.rules.roots[min(empty)].spark,
            )
            return False
        files.put_listed(now)
        return True


def _taken_from(empty: set[str], found: Iterable[Listed]) -> Iterator[Listed]:
    """Yield these files. Remove the names of their containers from `empty`."""
    for each in found:
        empty.discard(each.root.name)
        yield each


def envelope(aside: Quarantined) -> dict[str, Any]:
    """Return the envelope of a quarantined file."""
    container, file = aside.file.place, aside.file
    return {"container": container, "path": file.path, "etag": file.etag, "reason": aside.reason}


def envelope_text(envelope: Mapping[str, Any]) -> str:
    """Return an envelope as JSON, shortened if it is too long for a message."""
    fields = dict(envelope)
    while len(text := json.dumps(fields)) > _ENVELOPE:  # an emoji takes twelve bytes of JSON
        longest = max(fields, key=lambda name: len(str(fields[name])))
        fields[longest] = fields[longest][: len(fields[longest]) // 2]
    return text
