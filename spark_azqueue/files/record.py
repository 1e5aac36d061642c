"""Converts the objects of a file log to bytes and back. Every value that is read is checked."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from spark_azqueue.journal.codec import (
    HIGHEST,
    Damaged,
    flag,
    list_of,
    number,
    object_of,
    sealed,
    text,
    unsealed,
)

from .decide import Quarantined
from .memory import File
from .rules import PLACE, trouble_with

LIST_AT_MOST = 128 * 2**20
"""Maximum size of an object with a list, in bytes."""

BAD_AT_MOST = 32 * 2**20
"""Maximum size, in bytes, of an object with unreadable files. A list may have several such objects.
"""

SMALL_AT_MOST = 4_096
"""Maximum size of every other object, and of a snapshot's head, in bytes."""

_MOST_FILES = 1_000_000
_MOST_VALUES = 6 * _MOST_FILES + 100
"""Maximum number of JSON values in a list. A quarantined file is an array of five values."""

_SHARE = 56 * 2**20
"""Maximum number of bytes of a list for readable paths, and again for unreadable paths."""

_REASON = 150
"""Assumed number of bytes of the reason why a file was not read, and of separators."""

_STEP = 2**20
SENDER, QUERY = "sender", "query"
"""Names of two values: the secret in events of the log's listings, and Spark's id of the log's
query."""

_WORDS = {SENDER: re.compile(r"[0-9a-f]{32}"), QUERY: re.compile(r"[0-9a-f-]{1,64}")}


class FileList(NamedTuple):
    """The list of a batch. previous: number of the previous list, or -1 for the first list.

    at: time when the list was made, in seconds since 1970. aside: files that were already
    quarantined at that time.

    left_out: files that were ignored and are not remembered. oldest: result of `Memory.oldest_of`;
    None if unknown. put_back: place and path of the first file that did not fit into the list, and
    the number of files that did not fit. In the order of candidates, these files come last. A
    stored list may lack left_out, oldest and put_back.
    """

    batch: int
    previous: int
    at: float
    files: Sequence[File]
    aside: Sequence[Quarantined]
    left_out: Sequence[File] = ()
    oldest: float | None = None
    put_back: tuple[str, str, int] | None = None

    def to_bytes(self) -> bytes:
        """Return the bytes to store. Raises ValueError if `read` would refuse these bytes."""
        value = {
            "version": 1,
            "batch": self.batch,
            "previous": self.previous,
            "at": self.at,
            "files": [list(file) for file in self.files],
            "aside": _asides(self.aside),
            **({"left_out": [list(file) for file in self.left_out]} if self.left_out else {}),
        }
        if self.oldest is not None:
            value["oldest"] = _finite(self.oldest)
        if self.put_back:
            value["put_back"] = list(self.put_back)
        data = sealed(value)
        count = len(self.files) + len(self.aside) + len(self.left_out)
        if len(data) > LIST_AT_MOST or count > _MOST_FILES:
            raise ValueError(
                f"batch {self.batch} has {count:,} files in {len(data):,} bytes, which is more than"
                " a list holds: lower max_files_per_trigger"
            )
        return _readable(data, lambda data: FileList.read(data, self.batch))

    @classmethod
    def read(cls, data: bytes, batch: int) -> FileList:
        """Parse the list of this batch. Raises Damaged."""
        found = _unsealed(data)
        if number(found, "batch") != batch:
            raise Damaged("it is of another batch")
        previous = number(found, "previous", -1)
        if previous >= batch:
            raise Damaged("'previous' is not valid")
        files = [_file(each) for each in list_of(found, "files", _MOST_FILES)]
        if any(trouble_with(file.path) for file in files):
            raise Damaged("a path in it could lead out of its container")
        ignored = list_of(found, "left_out", _MOST_FILES) if "left_out" in found else []
        left_out = tuple(_file(each) for each in ignored)
        aside = _read_asides(found)
        oldest = _or_infinite(found, "oldest") if "oldest" in found else None
        at = _seconds(found, "at")
        return cls(batch, previous, at, files, aside, left_out, oldest, _put_back(found))


def fitting(files: Sequence[File], most: int) -> int:
    """Return how many of the first files fit into half of a list; at most `most`."""
    size, most = 0, min(most, _MOST_FILES // 2)
    for count, file in enumerate(files[:most]):
        size += len(json.dumps(file)) + _REASON
        if size > _SHARE:
            return count
    return min(most, len(files))


def bad_to_bytes(aside: Sequence[Quarantined]) -> list[bytes]:
    """Return the bytes of objects with the unreadable files of a list. Raises ValueError as
    `to_bytes` does.
    """
    data = sealed({"version": 1, "aside": _asides(aside)})
    if len(data) > BAD_AT_MOST:
        half = len(aside) // 2
        return [*bad_to_bytes(aside[:half]), *bad_to_bytes(aside[half:])]
    return [_readable(data, read_bad)]


def read_bad(data: bytes) -> list[Quarantined]:
    """Parse an object with unreadable files. Raises Damaged."""
    return _read_asides(_unsealed(data))


class Begun(NamedTuple):
    """Time at which a log began, and the values of two arguments: `include_existing_files` and
    `allow_overwrites`."""

    at: float
    existing: bool = True
    allow_overwrites: bool = False

    def to_bytes(self) -> bytes:
        """Return the object to store. Raises ValueError as `FileList.to_bytes` does."""
        return _readable(sealed({"version": 1, **self._asdict()}), Begun.read)

    @classmethod
    def read(cls, data: bytes) -> Begun:
        """Parse the object. Raises Damaged."""
        found = _unsealed(data)
        return cls(
            _seconds(found, "at"),
            flag(found, "existing"),
            flag(found, "allow_overwrites"),
        )


def small_to_bytes(**values: Any) -> bytes:
    """Return the bytes of a small object, such as the mark of a listing or of the newest list, a
    secret, or an id.
    """
    return sealed({"version": 1, **values})


def word_to_bytes(name: str, word: str) -> bytes:
    """Return the bytes of a small object with one text. Raises ValueError if `read_word` would
    refuse these bytes.
    """
    return _readable(small_to_bytes(**{name: word}), lambda data: read_word(data, name))


def read_word(data: bytes, name: str) -> str:
    """Parse a small object with one text. Raises Damaged. name: `SENDER` or `QUERY`."""
    found = text(_unsealed(data), name)
    if not _WORDS[name].fullmatch(found):
        raise Damaged(f"'{name}' is not valid")
    return found


class SnapshotHead(NamedTuple):
    """Head of a snapshot. previous: number of the previous snapshot, or -1 if there is none.

    at: time of the snapshot's newest list. oldest_event: time of the oldest event of the snapshot's
    generation; infinity if there is no event.
    """

    horizon: float
    previous: int
    at: float
    oldest_event: float

    def to_bytes(self) -> bytes:
        """Return the head to store."""
        value = {"version": 1, **self._asdict(), "oldest_event": _finite(self.oldest_event)}
        return json.dumps(value).encode()

    @classmethod
    def read(cls, data: bytes) -> SnapshotHead:
        """Parse the head. Raises Damaged."""
        if len(data) > SMALL_AT_MOST:
            raise Damaged("its head is too large")
        try:
            found = object_of(json.loads(data), "head")
        except (ValueError, RecursionError):
            raise Damaged("its head is not valid") from None
        oldest = _or_infinite(found, "oldest_event")
        previous = number(found, "previous", -1)
        return cls(_seconds(found, "horizon"), previous, _seconds(found, "at"), oldest)


def _readable(data: bytes, read: Callable[[bytes], object]) -> bytes:
    """Return these bytes, if `read` accepts them. Raises ValueError otherwise."""
    try:
        read(data)
    except Damaged as error:
        raise ValueError(f"an object of a file log could not be read again: {error}") from None
    return data


def _check_values(data: bytes) -> None:
    """Raise Damaged for JSON with more values than a list may have.

    A value of two bytes takes up to seventy bytes of memory, so values are counted before parsing.
    """
    if len(data) <= 2 * _MOST_VALUES:
        return
    bare = data.replace(rb"\\", b"").replace(
        rb"\"", b""
    )  # now every quotation mark begins or ends a string
    count, in_text = 0, False
    for at in range(0, len(bare), _STEP):
        pieces = bare[at : at + _STEP].split(b'"')
        outside = b"".join(pieces[in_text::2])
        count += outside.count(b",") + outside.count(b"[") + outside.count(b"{")
        in_text ^= len(pieces) % 2 == 0
        if count > _MOST_VALUES:
            raise Damaged("it has more values than a list")


def _unsealed(data: bytes) -> Any:
    _check_values(data)
    found = object_of(unsealed(data), "object")
    if number(found, "version") != 1:
        raise Damaged("a newer release wrote it")
    return found


def _asides(aside: Sequence[Quarantined]) -> list[Any]:
    return [[*each.file, each.reason] for each in aside]


def _read_asides(found: Any) -> list[Quarantined]:
    read = []
    for each in list_of(found, "aside", _MOST_FILES):
        if not isinstance(each, list) or not each or not isinstance(each[-1], str):
            raise Damaged("a reason in it is not valid")
        read.append(Quarantined(_file(each[:-1]), each[-1]))
    return read


def _put_back(found: Any) -> tuple[str, str, int] | None:
    if "put_back" not in found:
        return None
    value = found["put_back"]
    if not isinstance(value, list) or len(value) != 3:
        raise Damaged("'put_back' is not valid")
    first = _file([*value[:2], "", 0])
    return first.place, first.path, number({"count": value[2]}, "count")


def _file(value: Any) -> File:
    if not isinstance(value, list) or len(value) != 4:
        raise Damaged("a file in it is not valid")
    place, path, _, at = value
    etag = text({"etag": value[2]}, "etag")
    if not isinstance(place, str) or not PLACE.fullmatch(place):
        raise Damaged("a container in it is not valid")
    if not isinstance(path, str) or not 0 < len(path) <= 4_096:
        raise Damaged("a path in it is not valid")
    return File(place, path, etag, _seconds({"at": at}, "at"))


def _finite(at: float) -> float | None:
    return at if math.isfinite(at) else None


def _or_infinite(found: Any, name: str) -> float:
    return math.inf if found.get(name, 0) is None else _seconds(found, name)


def _seconds(found: Any, name: str) -> float:
    value = found.get(name)
    if type(value) not in (int, float) or not 0 <= value <= HIGHEST:  # NaN is refused, too
        raise Damaged(f"'{name}' is missing or not valid")
    return float(value)
