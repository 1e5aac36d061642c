"""How far a log has come, as headers and marks say it. Pure values, but for `PendingLists`.

A long list of pending deletes is an object of its own, so that not every segment repeats it.
`pending/<claim>-<sequence>` holds the list as it was when the holder of the claim wrote it. Headers
and marks that follow name it, say which of its deletes are no longer pending, and list those that
came since. When these are many, the list is written anew.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from spark_azqueue.errors import LogDamaged
from spark_azqueue.journal.codec import (
    COUNT,
    COUNT_OR_0,
    FLAG,
    HEXADECIMAL,
    LATEST,
    MAYBE_TIME,
    TAG,
    TEXT,
    Coded,
    Damaged,
    as_json,
    compact,
    flag,
    list_of,
    loaded,
    number,
    number_or_0,
    object_of,
    of_version,
    queues,
    read_fields,
    sealed,
    text,
    unsealed,
)
from spark_azqueue.journal.messages import COLUMNS, newest_columns
from spark_azqueue.journal.numbers import tagged_in
from spark_azqueue.journal.pending import (
    MESSAGE_BYTES,
    MESSAGE_VALUES,
    PENDING_AT_MOST,
    PendingDelete,
    pending_deletes,
)
from spark_azqueue.journal.refusals import tell_loss
from spark_azqueue.service.messages import MOST_IN_A_BATCH, QueueRef

from ..logged.options import READING
from . import names

if TYPE_CHECKING:
    from spark_azqueue.journal.journal import Journal


class FirstBatch(NamedTuple):
    """The first batch of a checkpoint: the segments behind `after` up to `last`."""

    after: int
    last: int

    @classmethod
    def read(cls, found: Mapping[str, Any], name: str) -> FirstBatch:
        """Read it back. Raises Damaged."""
        values = dict(zip(("after", "last"), list_of(found, name, 2), strict=False))
        return cls(number(values, "after"), number(values, "last"))


class PendingList(NamedTuple):
    """Which list in an object of its own is meant, see `PendingLists`.

    gone: a bit for each of its messages, the lowest first: that one is no longer pending.
    """

    claim: int
    sequence: int
    gone: bytes = b""

    def to_json(self, more: list[Any]) -> dict[str, Any]:
        """Plain values. more: those that are not in the list."""
        gone = base64.b64encode(self.gone).decode()
        return {"list": [self.claim, self.sequence], "gone": gone, "more": more}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> PendingList:
        """Read it back. Raises Damaged."""
        numbers = list_of(value, "list", 2)
        if len(numbers) != 2:
            raise Damaged("its list of pending deletes has no name")
        named = dict(zip(("claim", "sequence"), numbers, strict=True))
        try:
            gone = base64.b64decode(value["gone"], validate=True)
        except (LookupError, TypeError, ValueError):
            raise Damaged("its pending deletes are not valid") from None
        if len(gone) > PENDING_AT_MOST // 8 + 1:
            raise Damaged("its pending deletes are too many")
        return cls(number(named, "claim"), number(named, "sequence"), gone)


@dataclass(frozen=True, slots=True)
class LogProgress:
    """How far a log has come, as the holder of claim `claim` wrote it down the `sequence`th time.

    named: the newest segment that is known to be in Spark's checkpoint. committed: the newest
    segment proven committed. done: deletes have ended up to this segment. pending: of those,
    the messages that may return. began: the first batch of the newest checkpoint; None
    if an earlier release wrote it, or if Spark has not said yet. hidden: how
    many messages of batches that were given up may be hidden. hidden_until: when the last lease of
    these and of pending deletes ends at the latest, seconds since 1970, 0 if unknown. leased_s: for
    how long the process leases messages at most, 0 if an earlier release wrote it.
    has_ended: the process that wrote this ended in order then, so it leased nothing later.
    pending_list: where the others are, None if `pending` has all.
    """

    claim: Annotated[int, COUNT] = 0
    sequence: Annotated[int, COUNT] = 0
    named: Annotated[int, COUNT_OR_0] = 0
    committed: Annotated[int, COUNT] = 0
    done: Annotated[int, COUNT] = 0
    pending: Annotated[tuple[PendingDelete, ...], pending_deletes()] = ()
    leased_s: Annotated[int, Coded(number, name="leased", is_late=True)] = 0
    began: Annotated[FirstBatch | None, Coded(FirstBatch.read, is_late=True)] = None
    hidden: int = 0
    hidden_until: int = 0
    pending_list: PendingList | None = None
    has_ended: bool = False

    @property
    def newest(self) -> int:
        """The highest number of a segment that it knows of; 0 if it knows none."""
        knows_named = self.committed or (self.began and self.named > self.began.after)
        return max(self.committed, self.done, self.named if knows_named else 0)

    @property
    def age(self) -> tuple[int, int]:
        """Later ones are greater."""
        return self.claim, self.sequence

    def to_json(self) -> dict[str, Any]:
        """Plain values; the newest `PENDING_AT_MOST` pending deletes."""
        value = as_json(self)
        if self.pending_list:
            value["pending"] = self.pending_list.to_json(value["pending"])
        if self.pending or self.pending_list or self.hidden:
            value["hidden"] = self.hidden
            value["hidden_until"] = self.hidden_until
            value["ended"] = self.has_ended
        return value

    def to_mark(self) -> bytes:
        """As an object of its own."""
        return sealed(self.to_json())

    @classmethod
    def from_mark(cls, data: bytes, *, account: str) -> LogProgress:
        """Read it back. account: of the queues. Raises Damaged."""
        return cls.from_json(unsealed(data, _VALUES_AT_MOST), account=account)

    @classmethod
    def from_json(cls, value: object, *, account: str) -> LogProgress:
        """Read it back. account: of the queues. Raises Damaged."""
        found = {**object_of(value, "progress"), "account": account}
        where = None
        if isinstance(pending := found.get("pending"), dict):
            where = PendingList.from_json(pending)
            found["pending"] = pending.get("more")
        return cls(
            **read_fields(cls, found),
            hidden=number_or_0(found, "hidden"),
            hidden_until=_hidden_until(found),
            pending_list=where,
            has_ended=flag(found, "ended"),
        )


def _hidden_until(found: Mapping[str, Any]) -> int:
    until = number_or_0(found, "hidden_until")
    if until > LATEST - _A_DAY_S:  # so that clocks may differ
        raise Damaged("'hidden_until' is not valid")
    return until


_A_DAY_S = 86_400

_VALUES_AT_MOST = MESSAGE_VALUES * PENDING_AT_MOST + 100
"""Of a mark, or a list of pending deletes."""

MARK_AT_MOST = MESSAGE_BYTES * PENDING_AT_MOST + 2**16
"""Bytes of one of these."""

SEGMENT_VERSION = 1
VERSION_WITH_LIST = 2
"""If pending deletes are in a list of their own: earlier releases would not know of them."""

_QUEUES_AT_MOST = 10_000


def _cut(found: Mapping[str, Any], name: str) -> tuple[int, ...]:
    values = list_of(found, name, MOST_IN_A_BATCH)
    cut = tuple(value for value in values if type(value) is int and value > 0)
    if len(cut) != len(values) or not 0 < sum(cut) <= MOST_IN_A_BATCH:
        raise Damaged("its partitions are not valid")
    return cut


_NUMBER = Coded(lambda found, name: number(found, name, least=1))
_CUT = Coded(_cut)
_PROGRESS = Coded(
    lambda found, name: LogProgress.from_json(found.get(name), account=found["account"]),
    LogProgress.to_json,
)


@dataclass(frozen=True, slots=True)
class SegmentHeader:
    """What is at the head of segment `number` of log `log`, written by process `writer`.

    prev: digest of the segment before, "" for the first of a log. floor: segments up to this one
    may be removed. queues: the queues that were read. reading: the options that make rows of
    messages, by name. cut: rows in each partition. oldest: earliest insertion, seconds since 1970,
    None if unknown. suspect: one of its messages may be poison. status: what isolation does,
    in a line. columns: the version of its messages' columns.
    """

    log: Annotated[str, HEXADECIMAL]
    number: Annotated[int, _NUMBER]
    writer: Annotated[str, HEXADECIMAL]
    account: Annotated[str, TEXT]
    prev: Annotated[str, TAG] = ""
    floor: Annotated[int, COUNT] = 0
    progress: Annotated[LogProgress, _PROGRESS] = field(default_factory=LogProgress)
    queues: Annotated[tuple[QueueRef, ...], queues(_QUEUES_AT_MOST)] = ()
    reading: Annotated[Mapping[str, str], READING] = field(default_factory=dict)
    cut: Annotated[tuple[int, ...], _CUT] = ()
    oldest: Annotated[int | None, MAYBE_TIME] = None
    suspect: Annotated[bool, FLAG] = False
    status: Annotated[str, Coded(text, name="isolation", is_late=True)] = ""
    columns: Annotated[int, COLUMNS] = field(default_factory=newest_columns)

    @property
    def messages(self) -> int:
        """How many messages the segment holds."""
        return sum(self.cut)

    def to_bytes(self) -> bytes:
        """As JSON."""
        version = VERSION_WITH_LIST if self.progress.pending_list else SEGMENT_VERSION
        return compact({"version": version, **as_json(self)})

    @classmethod
    def from_bytes(cls, data: bytes) -> SegmentHeader:
        """Read it back. Raises Damaged."""
        value = loaded(data, _VALUES_AT_MOST + MOST_IN_A_BATCH + _QUEUES_AT_MOST)
        found = of_version(value, "header", SEGMENT_VERSION, VERSION_WITH_LIST)
        return cls(**read_fields(cls, found))


IN_PLACE = 100
"""At most this many pending deletes are in the header itself: some 10 KiB."""


_SHARE = 32
"""A list is written anew when more than this part of it came since."""


class PendingLists:
    """The lists in a log's folder. Used by one thread.

    Raises ServiceError, and LogDamaged for a list that is needed and cannot be read.
    """

    def __init__(self, journal: Journal, *, lose: bool) -> None:
        """lose: failOnDataLoss=false."""
        self._journal = journal
        self._lose = lose
        self._listed: set[tuple[int, int]] = set()
        self._newest: PendingList | None = None  # which the next header or mark may still name
        self._place: dict[PendingDelete, int] = {}  # of each message in it
        self._in_header: PendingList | None = None  # which the newest header names
        self._in_mark: PendingList | None = None

    def whole(self, progress: LogProgress, *, is_final: bool = True) -> LogProgress | None:
        """This progress with all pending deletes, read from its list. Changes nothing.

        is_final: a list that does not exist is lost. Otherwise None is returned then: its writer
        may have written another one meanwhile.
        """
        if progress.pending_list is None:
            return progress
        base = self._read(progress.pending_list, is_final=is_final)
        if base is None:
            return None
        gone = progress.pending_list.gone
        left = tuple(each for place, each in enumerate(base) if not _has(gone, place))
        return replace(progress, pending=left + progress.pending, pending_list=None)

    def find(self, header: LogProgress | None, mark: LogProgress | None) -> None:
        """Find out which lists there are, and which of them are named. Once, after the claim."""
        self._listed = {
            (tagged.number, int(tagged.tag))
            for tagged in map(tagged_in, self._journal.store.names(names.PENDING))
            if tagged and tagged.tag.isdecimal()
        }
        self._in_header = header.pending_list if header else None
        self._in_mark = mark.pending_list if mark else None

    def shortened(self, progress: LogProgress) -> LogProgress:
        """This progress as a header or a mark is to hold it. Writes a list if that is due.

        Of more than `PENDING_AT_MOST` the newest are kept.
        """
        progress = replace(progress, pending=progress.pending[-PENDING_AT_MOST:])
        if len(progress.pending) <= IN_PLACE:
            self._newest, self._place = None, {}
            return progress
        came = [each for each in progress.pending if each not in self._place]
        if self._newest is None or len(came) > max(IN_PLACE, len(self._place) // _SHARE):
            self._write(progress)
            came = []
        assert self._newest
        left = set(progress.pending)
        gone = bytearray((len(self._place) + 7) // 8)
        for each, place in self._place.items():
            if each not in left:
                gone[place // 8] |= 1 << place % 8
        named = self._newest._replace(gone=bytes(gone))
        return replace(progress, pending=tuple(came), pending_list=named)

    def in_header(self, progress: LogProgress) -> None:
        """A segment with this header exists: remove the lists that nothing names any more."""
        self._in_header = progress.pending_list
        self._remove_older_than(progress)

    def in_mark(self, progress: LogProgress) -> None:
        """This mark exists: remove lists as above. (If it is damaged, the newest header counts.)"""
        self._in_mark = progress.pending_list
        self._remove_older_than(progress)

    def _write(self, progress: LogProgress) -> None:
        name = names.pending(*progress.age)
        data = sealed([each.to_json() for each in progress.pending])
        if not self._journal.is_ours(name, data):
            raise self._journal.damaged(name, "another process wrote it")
        self._newest = PendingList(*progress.age)
        self._listed.add(progress.age)
        self._place = {each: place for place, each in enumerate(progress.pending)}

    def _read(self, named: PendingList, *, is_final: bool) -> Sequence[PendingDelete] | None:
        name = names.pending(named.claim, named.sequence)
        account = self._journal.account
        try:
            read = self._journal.need if is_final else self._journal.read
            return read(
                name,
                MARK_AT_MOST,
                lambda data: PendingDelete.all_from_json(unsealed(data, _VALUES_AT_MOST), account),
            )
        except LogDamaged as error:
            then = "messages that it names may give a second row"
            tell_loss(error, lose=self._lose, then=then)
            return ()

    def _remove_older_than(self, written: LogProgress) -> None:
        """Only older ones: a younger one may be about to be named by a process that was fenced."""
        kept = {(each.claim, each.sequence) for each in (self._in_header, self._in_mark) if each}
        old = {names.pending(*age): age for age in sorted(self._old(written, kept))}
        self._listed.difference_update(old[name] for name in self._journal.remove(old))

    def _old(self, written: LogProgress, kept: set[tuple[int, int]]) -> Iterable[tuple[int, int]]:
        return [age for age in self._listed if age < written.age and age not in kept]


def _has(bits: bytes, place: int) -> bool:
    return place // 8 < len(bits) and bool(bits[place // 8] >> place % 8 & 1)
