"""The file log. The log stores the list of files of each batch, before a file of the list is read.

    batch/<n>      the list of batch n, written once
    bad/<n>-<k>    files of list n that were unreadable
    memory/<n>     a snapshot of the memory up to batch n
    listing/<s>    the listing that began at second s has put all its events into the queue
    begun/begun    when the log began, and settings that must not change afterwards
    begun/query    Spark's id of the log's query, which is also in the query's checkpoint
    begun/sender   a secret that marks the events of the log's listings
    newest/<n>     a mark that the list of batch n was written, so the list must exist
    denied/…       a start was denied access to a folder: see `denials.py`

The log makes no decisions. Its methods raise ServiceError if the store fails, LogDamaged for an
object that was changed, and LogConflict for a log of another kind, account or checkpoint.
"""

from __future__ import annotations

import logging
import math
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from typing import NamedTuple, TypeVar

from spark_azqueue.journal.codec import Damaged
from spark_azqueue.journal.frame import FRAME_AT_MOST, framed, unframed, unpacked
from spark_azqueue.journal.journal import Journal
from spark_azqueue.journal.numbers import number_in, tagged_in
from spark_azqueue.journal.store import LogStore
from spark_azqueue.service.redaction import shown

from . import record as objects
from .decide import (
    REPLACED,
    TOO_OLD,
    Announced,
    Looks,
    Quarantined,
    candidates,
    choose,
    listed_by,
    looked_at,
    unseen,
)
from .denials import Denials
from .memory import MOST_REMEMBERED, File, Memory
from .record import Begun, FileList, SnapshotHead
from .refusals import (
    files_not_listed,
    log_of_another_query,
    new_log_of_used_checkpoint,
    older_batch,
    other_overwrites,
    written_by_another,
)
from .rules import Rules, cut, trouble_with

log = logging.getLogger(__name__)

T = TypeVar("T")

SNAPSHOT_AFTER = 100
"""After this many lists, a snapshot of the whole memory is stored."""

_MAGIC = b"azqueue files 1\n"
_BEGUN = "begun/begun"


class FileLog(Journal):
    """One log, for one query at a time. `open` reads its contents from the folder."""

    def __init__(self, store: LogStore, account: str, memory: Memory) -> None:
        """account: storage account of the queue. memory: an empty memory, which `open` fills. Sends
        no request.
        """
        self.memory = memory
        self.newest = -1
        super().__init__(store, account, "batch")
        self._since: list[int] = []
        self._snapshots: list[int] = []
        self._bad: dict[int, list[Quarantined]] = {}
        self._at = 0.0
        self._marked = -1
        self._query: str | None = None

    def open(self) -> None:
        """Read the log's identity, and fill the memory of read files. In a new folder, write the
        identity.
        """
        super().open()
        self._snapshots = _numbers(self.store.names("memory"))
        if self._snapshots:
            self.newest = self._snapshots[-1]
            self._fill(self.newest)
        for name in self.store.names("bad"):
            if (batch := _number(name)) is not None:
                aside = self.read(name, objects.BAD_AT_MOST, objects.read_bad)
                self._bad.setdefault(batch, []).extend(aside or [])
        for batch in _numbers(self.store.names("batch")):
            if batch > self.newest:
                found = self.record(batch)
                if found is None or found.previous != self.newest:
                    what = f"a list before it is missing (batch {found.previous})" if found else "?"
                    raise self.damaged(_batch(batch), what)
                self._fold(found)
        self._marked = max(_numbers(self.store.names("newest")), default=-1)
        if self._marked > self.newest:
            raise self.damaged(_batch(self._marked), "it is missing")

    @cached_property
    def sender(self) -> str:
        """Secret in the events of this log's listings. The first use creates the secret."""
        found = self._word(objects.SENDER)
        if found is None:
            self._put_word(objects.SENDER, secrets.token_hex(16))
            found = self._word(objects.SENDER)
        if found is None:
            raise self.damaged(f"begun/{objects.SENDER}", "it is missing")
        return found

    @cached_property
    def denials(self) -> Denials:
        """Records of the folders to which starts were denied access."""
        return Denials(self)

    def record(self, batch: int) -> FileList | None:
        """Return the list of this batch; None if the batch has no list."""
        parse = partial(FileList.read, batch=batch)
        return self.read(_batch(batch), objects.LIST_AT_MOST, parse)

    def bad(self, batch: int) -> Sequence[Quarantined]:
        """Return the unreadable files of this batch's list."""
        return self._bad.get(batch, [])

    def check_number(self, batch: int) -> None:
        """Raise LogConflict if this batch is older than the log's newest list."""
        if batch < self.newest:
            raise older_batch(self.where, self.newest, batch)

    def claim(self, query: str) -> None:
        """Raise LogConflict if the log belongs to another query. A log belongs to the first query
        that calls `claim`.

        query: Spark's id of the query, which is the same after a restart from the same checkpoint.
        """
        if self._query is None:
            self._put_word(objects.QUERY, query)
            self._query = self._word(objects.QUERY)
        if self._query != query:
            raise log_of_another_query(self.where, self._query, query)

    def put(self, record: FileList) -> FileList:
        """Write the list of a batch that has no list yet. Returns the written list."""
        if len(self._since) >= SNAPSHOT_AFTER:
            self._snapshot()
        self._check_alone(self.newest)
        record = record._replace(previous=self.newest, at=max(record.at, self._at))
        name, data = _batch(record.batch), record.to_bytes()
        # An earlier attempt of this put, which got no answer, may have written the list.
        if not self.is_ours(name, data):
            raise written_by_another(self.where, record.batch)
        self._check_alone(record.batch)
        self.store.put_new(_newest(record.batch), objects.small_to_bytes(batch=record.batch))
        if self._marked >= 0:
            self.remove([_newest(self._marked)])
        self._marked = record.batch
        self._fold(record)
        return record

    def _check_alone(self, newest: int) -> None:
        """Raise LogConflict if there is a list that this run did not write or read.

        If two runs write at the same time, the run that writes later finds the list of the other
        run.
        """
        known = {*self._since, newest}
        behind = self._snapshots[-1] if self._snapshots else -1
        numbers = _numbers(self.store.names("batch"))
        if found := [each for each in numbers if each > behind and each not in known]:
            raise written_by_another(self.where, max(found))

    def put_bad(self, batch: int, aside: Sequence[Quarantined]) -> None:
        """Record the unreadable files of the newest list.

        Objects of an earlier run are kept. `aside` has none of their files.
        """
        self._check_alone(self.newest)
        known = self._bad.setdefault(batch, [])
        part = 0
        for data in objects.bad_to_bytes(aside):
            while not self.store.put_new(f"bad/{batch:012d}-{part:03d}", data):
                part += 1
        known.extend(aside)
        self.memory.note(self._at, (), _unread(aside), math.inf)

    def begun(self, now: Begun, *, resumed: bool) -> Begun:
        """Return when the log began, and its settings. The first call records them. now: values to
        record in the first call.

        resumed: True if the checkpoint already has batches.
        """
        found = self._small(_BEGUN, Begun.read)
        if found is None:
            if resumed:
                raise new_log_of_used_checkpoint(self.where)
            self.store.put_new(_BEGUN, now.to_bytes())
            found = self._small(_BEGUN, Begun.read) or now
        if found.allow_overwrites != now.allow_overwrites:
            raise other_overwrites(self.where, found.allow_overwrites)
        return found

    def listed(self) -> float | None:
        """Return the time at which the newest complete listing began; None if there is no complete
        listing.
        """
        return max(_numbers(self.store.names("listing")), default=None)

    def put_listed(self, at: float) -> None:
        """Record that the listing that began at this time has put all its events into the queue."""
        older = self.store.names("listing")
        self.store.put_new(f"listing/{int(at):012d}", objects.small_to_bytes(at=at))
        self.remove(name for name in older if name != f"listing/{int(at):012d}")

    def _fold(self, record: FileList) -> None:
        self.memory.note(record.at, record.files, _unread(record.aside), record.oldest)
        if bad := self._bad.get(record.batch):
            self.memory.note(record.at, (), _unread(bad), math.inf)
        self.newest, self._at = record.batch, record.at
        self._since.append(record.batch)

    def _snapshot(self) -> None:
        previous = self._snapshots[-1] if self._snapshots else -1
        if len(self.memory) > MOST_REMEMBERED * 6 // 5:
            log.warning(
                "the file log %s remembers %s files, too many for a snapshot: it keeps all its"
                " lists until these are fewer",
                self.where,
                f"{len(self.memory):,}",
            )
            return
        raw = self.memory.to_bytes()
        head = SnapshotHead(self.memory.horizon, previous, self._at, self.memory.oldest_event)
        self.store.put_new(f"memory/{self.newest:012d}", framed(_MAGIC, head.to_bytes(), raw))
        self.memory.turn()
        # Remove the lists up to the previous snapshot, and the snapshots before the previous
        # snapshot.
        old = [*_named(self.store, "batch", previous), *_named(self.store, "bad", previous)]
        self.remove([*old, *_named(self.store, "memory", previous - 1)])
        self._bad = {batch: bad for batch, bad in self._bad.items() if batch > previous}
        self._snapshots, self._since = [previous, self.newest], []

    def _fill(self, batch: int) -> None:
        def fill(data: bytes) -> SnapshotHead:
            frame = unframed(_MAGIC, data)
            if (
                frame.size > 2 * len(frame.packed) + objects.SMALL_AT_MOST
            ):  # the keys in a snapshot cannot be compressed
                raise Damaged("its sizes do not fit")
            head = SnapshotHead.read(frame.head)
            with unpacked(frame.packed, frame.size) as stream:
                self.memory.fill(head.horizon, head.oldest_event, stream.read(frame.size))
            return head

        self._at = self.need(f"memory/{batch:012d}", FRAME_AT_MOST, fill).at

    def _word(self, name: str) -> str | None:
        return self._small(f"begun/{name}", partial(objects.read_word, name=name))

    def _put_word(self, name: str, word: str) -> None:
        self.store.put_new(f"begun/{name}", objects.word_to_bytes(name, word))

    def _small(self, name: str, parse: Callable[[bytes], T]) -> T | None:
        return self.read(name, objects.SMALL_AT_MOST, parse)


def _unread(aside: Sequence[Quarantined]) -> list[File]:
    """Leave out files whose current version must still be read, because it has an event of its
    own."""
    return [each.file for each in aside if each.reason not in (REPLACED, TOO_OLD)]


def _batch(batch: int) -> str:
    return f"batch/{batch:012d}"


def _newest(batch: int) -> str:
    return f"newest/{batch:012d}"


def _numbers(names: Sequence[str]) -> list[int]:
    return sorted({number for number in map(_number, names) if number is not None})


def _named(store: LogStore, folder: str, up_to: int) -> list[str]:
    found = [(_number(name), name) for name in store.names(folder)]
    return [name for number, name in found if number is not None and number <= up_to]


def _number(name: str) -> int | None:
    """Return the number in a name; None for a name that is not the log's."""
    if part := tagged_in(name):
        return part.number if part.tag.isdecimal() else None
    return number_in(name)


LookAt = Callable[[Sequence[File]], Looks]


class Means(NamedTuple):
    """Functions that `list_of` calls for anything outside of the log.

    etags: returns the current etag of each file; None if etags do not matter. look: returns what
    exists at the path of each file. most: maximum number of files in a list. put_back: puts the
    events about files that do not fit into the list back into the queue, one event per message.
    """

    etags: Callable[[Sequence[File]], Mapping[tuple[str, str], str] | None]
    look: LookAt
    most: int
    put_back: Callable[[Sequence[Announced]], None]


def list_of(
    log: FileLog,
    rules: Rules,
    batch: int,
    events: Sequence[Announced],
    means: Means,
    now: float,
) -> FileList | None:
    """Make the list of this batch, write it to the log, and return it. Returns None if the list is
    empty.

    now: seconds since 1970. Raises the errors of `means`; LogConflict for a log of another
    checkpoint or query; ServiceError.
    """
    log.check_number(batch)
    listed = listed_by(log.sender)
    found = candidates(unseen(events, log.memory, listed), rules)
    if batch == log.newest:
        record = log.record(batch)
        _check_same(log, rules, batch, found, record)
        return record
    if not rules.allow_overwrites:
        found = [file for file in found if not log.memory.knows(file)]
    # An event with an unreadable path is never put back into the queue, and the path is never
    # recorded as left out.
    sound = [file for file in found if not trouble_with(file.path)]
    room = objects.fitting(sound, means.most)
    sound, rest = sound[:room], sound[room:]
    troubled = _with_room(
        file._replace(path=cut(file.path)) for file in found if trouble_with(file.path)
    )
    chosen = choose([*sound, *troubled], log.memory, means.etags(sound) if sound else None)
    if chosen.files:
        chosen = looked_at(chosen, means.look(chosen.files))
    # Put events back only after the calls that fail in an outage. Otherwise each restart would put
    # them back again.
    if rest:
        later = {(file.place, file.path) for file in rest}
        means.put_back([event for event in events if (event.place, event.path) in later])
    if not (chosen.files or chosen.aside):
        return None
    put_back = (rest[0].place, rest[0].path, len(rest)) if rest else None
    own = {(event.place, event.path) for event in events if event.api == listed}
    named = [*chosen.files, *(each.file for each in chosen.aside)]
    oldest = log.memory.oldest_of(named, own, now)
    chosen = chosen._replace(left_out=tuple(chosen.left_out))
    return log.put(FileList(batch, -1, now, *chosen, oldest, put_back))


def _with_room(troubled: Iterable[File]) -> list[File]:
    """Return the unreadable paths that fit into a list. (A sender may send any number of paths.)"""
    every = [*troubled]
    kept = every[: objects.fitting(every, len(every))]
    if left := len(every) - len(kept):
        log.warning(
            "%s more events name paths that cannot be read, such as %s: a list has no room for"
            " them, and they are deleted",
            f"{left:,}",
            shown(every[-1].path),
        )
    return kept


def _check_same(
    log: FileLog, rules: Rules, batch: int, found: Sequence[File], record: FileList | None
) -> None:
    """Raise LogConflict if a repeated batch has events about files that are not in the batch's
    list.

    With `allow_overwrites`, nothing is checked, because a file's version in the list may differ
    from its version in the event.
    """
    left_out = {(file.place, file.path) for file in record.left_out} if record else set()
    known = [file for file in found if (file.place, file.path) not in left_out]
    new = [] if rules.allow_overwrites else [*choose(known, log.memory).files]
    if record and record.put_back:
        place, path, count = record.put_back  # `rest` was sorted like all candidates
        before = sum((file.place, file.path) < (place, path) for file in new)
        new = new[:before] + new[before + count :]
    if new:
        raise files_not_listed(log.where, batch, len(new), new[0].path)
