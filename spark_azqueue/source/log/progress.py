"""Progress of a log, which headers and marks store. Pure values, except `PendingLists`.

A long list of pending deletes is stored in a separate object, so that the headers of the segments
do not repeat the list. The holder of a claim writes the list as `pending/<claim>-<sequence>`. Later
headers and marks name this list, state which of its deletes are no longer pending, and add new
pending deletes. When many pending deletes have been added, a new list is written.
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
    """First batch of a checkpoint: the segments from `after` + 1 to `last`."""

    after: int
    last: int

    @classmethod
    def read(cls, found: Mapping[str, Any], name: str) -> FirstBatch:
        """Read a first batch from plain values. Raises Damaged."""
        values = dict(zip(("after", "last"), list_of(found, name, 2), strict=False))
        return cls(number(values, "after"), number(values, "last"))


class PendingList(NamedTuple):
    """Reference to a list of pending deletes in a separate object; see `PendingLists`.

    gone: one bit for each message of the list, lowest bit first. The bit is 1 if the delete is no
    longer pending.
    """

    claim: int
    sequence: int
    gone: bytes = b""

    def to_json(self, more: list[Any]) -> dict[str, Any]:
        """Return plain values. more: pending deletes that are not in the list."""
        gone = base64.b64encode(self.gone).decode()
        return {"list": [self.claim, self.sequence], "gone": gone, "more": more}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> PendingList:
        """Read a reference from plain values. Raises Damaged."""
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
    """Progress of a log.

    claim, sequence: the holder of claim `claim` wrote this progress as its version `sequence`.
    named: the newest segment that Spark's checkpoint is known to contain. committed: the newest
    segment that is proven to be committed. done: in segments up to this number, every delete has
    succeeded or is in `pending`. pending: pending deletes of segments up to `done`; these messages
    may be delivered again. began: the first batch of the newest checkpoint; None if an earlier
    release wrote the progress, or if Spark has not named a batch yet. hidden: number of messages of
    abandoned batches whose leases may not have ended. hidden_until: time at which the last lease of
    these messages and of `pending` ends, in seconds since 1970; 0 if unknown. leased_s: longest
    lease that the process requests, in seconds; 0 if an earlier release wrote the progress.
    has_ended: the process that wrote the progress stopped normally, and leased no messages
    afterwards. pending_list: list of the other pending deletes; None if `pending` contains all
    pending deletes.
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
        """Highest number of a segment that the progress names; 0 if the progress names no
        segment."""
        knows_named = self.committed or (self.began and self.named > self.began.after)
        return max(self.committed, self.done, self.named if knows_named else 0)

    @property
    def age(self) -> tuple[int, int]:
        """Sort key; a later progress has a greater key."""
        return self.claim, self.sequence

    def to_json(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        value = as_json(self)
        if self.pending_list:
            value["pending"] = self.pending_list.to_json(value["pending"])
        if self.pending or self.pending_list or self.hidden:
            value["hidden"] = self.hidden
            value["hidden_until"] = self.hidden_until
            value["ended"] = self.has_ended
        return value

    def to_mark(self) -> bytes:
        """Encode the progress as a mark."""
        return sealed(self.to_json())

    @classmethod
    def from_mark(cls, data: bytes, *, account: str) -> LogProgress:
        """Decode a mark. account: storage account of the queues. Raises Damaged."""
        return cls.from_json(unsealed(data, _VALUES_AT_MOST), account=account)

    @classmethod
    def from_json(cls, value: object, *, account: str) -> LogProgress:
        """Read a progress from plain values. account: storage account of the queues. Raises
        Damaged."""
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
    if until > LATEST - _A_DAY_S:  # one day is subtracted, because clocks may differ
        raise Damaged("'hidden_until' is not valid")
    return until


_A_DAY_S = 86_400

_VALUES_AT_MOST = MESSAGE_VALUES * PENDING_AT_MOST + 100
"""Maximum number of JSON values in a mark, or in a list of pending deletes."""

MARK_AT_MOST = MESSAGE_BYTES * PENDING_AT_MOST + 2**16
"""Maximum size of a mark, or of a list of pending deletes, in bytes."""

SEGMENT_VERSION = 1
VERSION_WITH_LIST = 2
"""Version of a header that refers to a list of pending deletes.

Earlier releases refuse this version, because they cannot read the list.
"""

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
    """Header of segment `number` of log `log`, written by process `writer`.

    prev: digest of the previous segment; "" for the first segment of a log. floor: number up to
    which segments may be removed. queues: the queues that were read. reading: the options that turn
    messages into rows, by name. cut: number of rows of each partition. oldest: insertion time of
    the oldest message, in seconds since 1970; None if unknown. suspect: one of the messages may be
    poison. status: one line about the isolation of poison messages. columns: version of the
    messages' columns.
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
        """Number of messages in the segment."""
        return sum(self.cut)

    def to_bytes(self) -> bytes:
        """Encode the header as JSON."""
        version = VERSION_WITH_LIST if self.progress.pending_list else SEGMENT_VERSION
        return compact({"version": version, **as_json(self)})

    @classmethod
    def from_bytes(cls, data: bytes) -> SegmentHeader:
        """Decode a header. Raises Damaged."""
        value = loaded(data, _VALUES_AT_MOST + MOST_IN_A_BATCH + _QUEUES_AT_MOST)
        found = of_version(value, "header", SEGMENT_VERSION, VERSION_WITH_LIST)
        return cls(**read_fields(cls, found))


IN_PLACE = 100
"""Maximum number of pending deletes that a header stores without a separate list.

100 pending deletes take about 10 KiB.
"""


_SHARE = 32
"""A new list is written when more than 1/32 as many pending deletes were added as the old list has.
"""


class PendingLists:
    """The lists of pending deletes in a log's folder. Used by one thread.

    Raises ServiceError, and LogDamaged for a list that is needed and cannot be read.
    """

    def __init__(self, journal: Journal, *, lose: bool) -> None:
        """lose: failOnDataLoss is false."""
        self._journal = journal
        self._lose = lose
        self._listed: set[tuple[int, int]] = set()
        self._newest: PendingList | None = None  # list that the next header or mark may name
        self._place: dict[PendingDelete, int] = {}  # position of each message in the newest list
        self._in_header: PendingList | None = None  # list that the newest header names
        self._in_mark: PendingList | None = None

    def whole(self, progress: LogProgress, *, is_final: bool = True) -> LogProgress | None:
        """Return this progress with all pending deletes, including the pending deletes in its list.
        Writes nothing.

        is_final: a missing list is treated as lost. If false, this method returns None for a
        missing list, because the writer may have replaced the list in the meantime.
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
        """Find the existing lists, and the lists that the newest header and mark name. Called once,
        after the claim.
        """
        self._listed = {
            (tagged.number, int(tagged.tag))
            for tagged in map(tagged_in, self._journal.store.names(names.PENDING))
            if tagged and tagged.tag.isdecimal()
        }
        self._in_header = header.pending_list if header else None
        self._in_mark = mark.pending_list if mark else None

    def shortened(self, progress: LogProgress) -> LogProgress:
        """Return this progress as a header or mark stores it. Writes a new list if too many pending
        deletes are in no list.

        Only the newest `PENDING_AT_MOST` pending deletes are kept.
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
        """Record that the newest segment's header has this progress. Then remove unused lists."""
        self._in_header = progress.pending_list
        self._remove_older_than(progress)

    def in_mark(self, progress: LogProgress) -> None:
        """Record that a mark with this progress exists. Then remove unused lists.

        The list that the newest header names is kept as well: if the mark is damaged, the header is
        used.
        """
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
        """Remove lists that are older than `written` and that neither the newest header nor the
        newest mark names.

        Lists that are not older are kept: a process that is fenced, but does not know it yet, may
        be about to name such a list.
        """
        kept = {(each.claim, each.sequence) for each in (self._in_header, self._in_mark) if each}
        old = {names.pending(*age): age for age in sorted(self._old(written, kept))}
        self._listed.difference_update(old[name] for name in self._journal.remove(old))

    def _old(self, written: LogProgress, kept: set[tuple[int, int]]) -> Iterable[tuple[int, int]]:
        return [age for age in self._listed if age < written.age and age not in kept]


def _has(bits: bytes, place: int) -> bool:
    return place // 8 < len(bits) and bool(bits[place // 8] >> place % 8 & 1)
