"""A long list of owed deletes stands in an object of its own, so that not every segment repeats it.

`owed/<claim>-<sequence>` holds the list as it was when the holder of the claim wrote it. Headers
and marks that follow name it, say which of its messages are owed no more, and list those that came
since. When these are many, the list is written anew.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace

from spark_azqueue.errors import LogDamaged
from spark_azqueue.journal.codec import sealed, unsealed
from spark_azqueue.journal.journal import Journal

from . import names
from .progress import OWED_AT_MOST, LogProgress, Owed, OwedList

log = logging.getLogger(__name__)

IN_PLACE = 100
"""So many owed deletes stand in the header itself: some 10 KiB."""

_SHARE = 32
"""A list is written anew when more than this part of it came since."""

_AT_MOST = 16 * 2**20


class OwedLists:
    """The lists in a log's folder. Used by one thread.

    Raises ServiceError, and LogDamaged for a list that is needed and cannot be read.
    """

    def __init__(self, journal: Journal, *, lose: bool) -> None:
        """lose: failOnDataLoss=false."""
        self._journal = journal
        self._lose = lose
        self._listed: set[tuple[int, int]] = set()
        self._newest: OwedList | None = None  # which the next header or mark may go on to name
        self._place: dict[Owed, int] = {}  # of each message in it
        self._in_header: OwedList | None = None  # which the newest header names
        self._in_mark: OwedList | None = None

    def whole(self, progress: LogProgress, *, is_final: bool = True) -> LogProgress | None:
        """The same with all owed deletes, read from the list that it names. Changes nothing.

        is_final: a list that does not exist is lost. Otherwise None is returned then: its writer
        may have written another one meanwhile.
        """
        if progress.owed_list is None:
            return progress
        base = self._read(progress.owed_list, is_final=is_final)
        if base is None:
            return None
        gone = progress.owed_list.gone
        left = tuple(each for place, each in enumerate(base) if not _has(gone, place))
        return replace(progress, owed=left + progress.owed, owed_list=None)

    def find(self, header: LogProgress | None, mark: LogProgress | None) -> None:
        """Find out which lists there are, and which of them are named. Once, after the claim."""
        self._listed = {
            (tagged.number, int(tagged.tag))
            for tagged in map(names.tagged_in, self._journal.store.names(names.OWED))
            if tagged and tagged.tag.isdecimal()
        }
        self._in_header = header.owed_list if header else None
        self._in_mark = mark.owed_list if mark else None

    def shortened(self, progress: LogProgress) -> LogProgress:
        """The same, as a header or a mark is to hold it. Writes a list if that is due.

        Of more than `OWED_AT_MOST` the newest are kept.
        """
        progress = replace(progress, owed=progress.owed[-OWED_AT_MOST:])
        if len(progress.owed) <= IN_PLACE:
            self._newest, self._place = None, {}
            return progress
        came = [each for each in progress.owed if each not in self._place]
        if self._newest is None or len(came) > max(IN_PLACE, len(self._place) // _SHARE):
            self._write(progress)
            came = []
        assert self._newest
        left = set(progress.owed)
        gone = bytearray((len(self._place) + 7) // 8)
        for each, place in self._place.items():
            if each not in left:
                gone[place // 8] |= 1 << place % 8
        named = self._newest._replace(gone=bytes(gone))
        return replace(progress, owed=tuple(came), owed_list=named)

    def in_header(self, progress: LogProgress) -> None:
        """A segment with this header stands: remove the lists that nothing names any more."""
        self._in_header = progress.owed_list
        self._remove_older_than(progress)

    def in_mark(self, progress: LogProgress) -> None:
        """The same for a mark. (If the mark is damaged, the newest header counts.)"""
        self._in_mark = progress.owed_list
        self._remove_older_than(progress)

    def _write(self, progress: LogProgress) -> None:
        name = names.owed(*progress.age)
        data = sealed([each.to_json() for each in progress.owed])
        if not self._journal.is_ours(name, data):
            raise self._journal.damaged(name, "another process wrote it")
        self._newest = OwedList(*progress.age)
        self._listed.add(progress.age)
        self._place = {each: place for place, each in enumerate(progress.owed)}

    def _read(self, named: OwedList, *, is_final: bool) -> Sequence[Owed] | None:
        name = names.owed(named.claim, named.sequence)
        account = self._journal.account
        try:
            read = self._journal.need if is_final else self._journal.read
            return read(name, _AT_MOST, lambda data: Owed.all_from_json(unsealed(data), account))
        except LogDamaged as error:
            if not self._lose:
                raise
            log.warning(
                "%s; failOnDataLoss=false: messages that it names may give a second row", error
            )
            return ()

    def _remove_older_than(self, written: LogProgress) -> None:
        """Only older ones: a younger one may be about to be named by a process that was fenced."""
        kept = {(each.claim, each.sequence) for each in (self._in_header, self._in_mark) if each}
        old = {names.owed(*age): age for age in sorted(self._old(written, kept))}
        self._listed.difference_update(old[name] for name in self._journal.remove(old))

    def _old(self, written: LogProgress, kept: set[tuple[int, int]]) -> Iterable[tuple[int, int]]:
        return [age for age in self._listed if age < written.age and age not in kept]


def _has(bits: bytes, place: int) -> bool:
    return place // 8 < len(bits) and bool(bits[place // 8] >> place % 8 & 1)
