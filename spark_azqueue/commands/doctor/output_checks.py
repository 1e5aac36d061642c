"""Compares a checkpoint with the output of its query, to find batches that the output would skip.

Spark's file sink and Delta skip a batch if they already have a batch with this number. So with a
new checkpoint, a restored checkpoint, or the checkpoint of another query, rows may be lost,
although their messages are deleted. The check reads folders of this machine, and writes nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spark_azqueue.journal.file_system import names_in, read_start

from .finding import Finding

NAMES_AT_MOST = 1_000_000
"""Maximum number of names that are read from a folder."""

DELTA_BYTES_AT_MOST = 256 * 2**20
"""Maximum number of bytes that are read from a table's log. The newest commits are read first."""

APPS_AT_MOST = 1000
"""Maximum number of a table's applications that are kept in memory, besides the application that is
searched for.
"""

METADATA_AT_MOST = 4096
"""Maximum size of a checkpoint's file `metadata`, in bytes."""

_COMMIT_AT_MOST = 16 * 2**20
_ACTION_AT_MOST = 64 * 2**10
_APPS_SHOWN = 3
_NUMBER_AT_MOST = 2**63 - 1

_OF_BATCH = re.compile(r"([0-9]{1,19})(?:\.compact)?")
_OF_DELTA = re.compile(r"([0-9]{20})\.json")
_REMOTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")

_FILES, _DELTA = "_spark_metadata", "_delta_log"


class _NotRead(Exception):  # noqa: N818
    """Raised if a folder cannot be read. The text is the reason, and the advice is the remedy."""

    def __init__(self, text: str, advice: str) -> None:
        super().__init__(text)
        self.advice = advice


@dataclass(frozen=True)
class Checkpoint:
    """State of a checkpoint: numbers of the newest planned and the newest committed batch (-1 if
    there is none), and the query.

    query: id of the query; "" if the checkpoint has no id, for example because it is new.
    """

    planned: int = -1
    committed: int = -1
    query: str = ""


@dataclass
class Versions:
    """The newest version of each application, from the `txn` actions in the log of a Delta table.

    is_whole: True if the whole log was read, so that an application that is missing here is not in
    the log.
    """

    newest: dict[str, int] = field(default_factory=dict)
    is_whole: bool = True


def compare(checkpoint: str, output: str, app: str | None = None) -> Iterator[Finding]:
    """Compare the folders of a checkpoint and of an output. Never raises.

    app: the `txnAppId` with which the query writes to Delta tables in `foreachBatch`; "" if it uses
    none.
    """
    try:
        known = read_checkpoint(_folder("checkpoint", checkpoint))
        place = _folder("output", output)
        kinds = [each for each in (_FILES, _DELTA) if (place / each).is_dir()]
        if _FILES in kinds:
            yield of_file_sink(output, known, _newest(place / _FILES))
        if _DELTA in kinds:
            versions = read_versions(place / _DELTA, app or known.query)
            yield from of_delta(output, known, versions, app)
        if not kinds:
            there = f"has no record of batches ({_FILES}, {_DELTA})"
            yield of_none(output, known, there if os.path.lexists(place) else "does not exist")
    except _NotRead as error:
        yield Finding(False, str(error), error.advice)
    except OSError as error:
        text = f"the checkpoint or the output cannot be read: {error.strerror} ({error.filename})"
        yield Finding(False, text, "Run the doctor as the user of the driver's process")


# ── what follows from what was read ───────────────────────────────────────────────────────────────


def of_file_sink(output: str, known: Checkpoint, newest: int) -> Finding:
    """Return a finding about the batches that Spark's file sink would skip. newest: newest batch in
    the output; -1 if there is none.
    """
    if newest > known.planned:
        return _skipping(f"output {output}", known, newest)
    if newest < known.committed:
        has = f"has batches up to {newest}" if newest >= 0 else "has no batch"
        text = (
            f"output {output} {has}, the checkpoint has committed {known.committed}: the rows"
            " between are not in it"
        )
        return Finding(None, text, "Did you replace the output? Else it is another query's")
    return _fitting(f"output {output}", known, newest)


def of_delta(
    output: str, known: Checkpoint, versions: Versions, app: str | None
) -> Iterator[Finding]:
    """Yield findings about the batches of this query, or of the application `app`, that Delta would
    skip.
    """
    who, wanted = (f"txnAppId {_cut(app)}", app) if app else ("this query's id", known.query)
    subject = f"Delta table {output}"
    newest = versions.newest.get(wanted, -1)
    if newest > known.planned:
        yield _skipping(f"{subject}, for {who},", known, newest)
    elif newest >= 0:
        yield _fitting(f"{subject}, for {who},", known, newest)
    elif not versions.is_whole:
        text = f"{subject}: only a part of its log was read, and it names no batch of {who}"
        yield Finding(None, text, "Older commits are in the table's checkpoints, which Spark reads")
    elif wanted:
        yield Finding(True, f"{subject} has no batch of {who}: none is skipped")
    if not app and newest < 0:
        yield from _of_others(subject, known, versions)


def _of_others(subject: str, known: Checkpoint, versions: Versions) -> Iterator[Finding]:
    ahead = [(newest, name) for name, newest in versions.newest.items() if newest > known.planned]
    if not ahead:
        return
    ahead = sorted(ahead, reverse=True)[:_APPS_SHOWN]
    names = ", ".join(f"{_cut(name)} up to {newest}" for newest, name in ahead)
    text = f"{subject} has batches that the checkpoint does not have: of {names}"
    advice = "If foreachBatch writes with one of these as txnAppId, name it with --txn-app-id"
    yield Finding(None, text, advice)


def of_none(output: str, known: Checkpoint, why: str) -> Finding:
    """Return the finding for an output that does not record its batches."""
    newest = f"the newest batch of the checkpoint is {known.planned}"
    text = f"output {output} {why}; {newest if known.planned >= 0 else 'the checkpoint is new'}"
    return Finding(None, text, "Is it this query's output? If so, its sink skips no batch")


def _skipping(subject: str, known: Checkpoint, newest: int) -> Finding:
    only = f"the checkpoint only up to {known.planned}"
    has = f"{subject} has batches up to {newest}, "
    has += only if known.planned >= 0 else "the checkpoint is new"
    lost = f"{known.planned + 1} to {newest} are skipped: rows are lost, and their messages deleted"
    advice = (
        "Before the next start name a new output (in foreachBatch a new txnAppId), or restore the"
        " checkpoint of this output"
    )
    return Finding(False, f"{has}. Batches {lost}", advice)


def _fitting(subject: str, known: Checkpoint, newest: int) -> Finding:
    text = f"{subject} has batches up to {newest}, the checkpoint up to {known.planned}"
    return Finding(True, f"{text}: no new batch is skipped")


def _cut(name: str) -> str:
    return f"'{name[:100]}'"


# ── reading, within bounds ────────────────────────────────────────────────────────────────────────


def _folder(role: str, given: str) -> Path:
    """Return a folder of this machine. Raises _NotRead for a folder elsewhere."""
    text = given.removeprefix("file://").removeprefix("file:")
    if text == given and _REMOTE.match(given):
        advice = (
            "Copy the folders offsets, commits and the file metadata of the checkpoint, and"
            f" {_FILES} or {_DELTA} of the output, to this machine, and name the copies"
        )
        raise _NotRead(f"{role} {given} is not on this machine: it was not looked at", advice)
    return Path(text)


def read_checkpoint(folder: Path) -> Checkpoint:
    """Read a checkpoint's folder. A missing or empty folder counts as a new checkpoint.

    Raises _NotRead if the folder is not a checkpoint, and OSError.
    """
    offsets, metadata = folder / "offsets", folder / "metadata"
    if any(map(os.path.lexists, (offsets, metadata))):
        return Checkpoint(_newest(offsets), _newest(folder / "commits"), _query(metadata))
    if next(_names(folder), None) is None:
        return Checkpoint()
    raise _NotRead(
        f"checkpoint {folder} is no checkpoint of Spark: it has no folder offsets",
        "Name the folder of the option checkpointLocation",
    )


def _query(metadata: Path) -> str:
    """Return the query's id, or "" if the file is missing or has no id. Raises OSError."""
    with contextlib.suppress(FileNotFoundError):
        return query_in(read_start(str(metadata), METADATA_AT_MOST))
    return ""


def query_in(metadata: bytes) -> str:
    """Return the query's id from the content of a checkpoint's file `metadata`, or "" if there is
    no id.
    """
    with contextlib.suppress(ValueError, RecursionError):
        said: Any = json.loads(metadata)
        if isinstance(said, dict) and isinstance(said.get("id"), str):
            return str(said["id"])
    return ""


def batches_in(names: Iterable[str]) -> list[int]:
    """Return the numbers of the batches in one of Spark's logs, ascending. names: file names in the
    log."""
    found = {int(match[1]) for name in names if (match := _OF_BATCH.fullmatch(name))}
    return sorted(number for number in found if number <= _NUMBER_AT_MOST)


def _newest(folder: Path) -> int:
    """Return the largest batch number in one of Spark's logs, or -1 if there is none."""
    return max(batches_in(_names(folder)), default=-1)


def _names(folder: Path) -> Iterator[str]:
    """Yield the names in a folder, or no names if the folder is missing. Raises _NotRead if there
    are too many names, and OSError.
    """
    with contextlib.suppress(FileNotFoundError):
        for count, name in enumerate(names_in(str(folder))):
            if count >= NAMES_AT_MOST:
                text = f"{folder} has more than {NAMES_AT_MOST:,} names: it was not looked at"
                raise _NotRead(text, "Is it the folder that you mean?")
            yield name


def read_versions(log: Path, wanted: str) -> Versions:
    """Read the log of a table, newest commits first, until the application `wanted` is found.
    Raises OSError.
    """
    numbers = [int(match[1]) for name in _names(log) if (match := _OF_DELTA.fullmatch(name))]
    found = Versions(is_whole=not numbers or min(numbers) == 0)
    left = DELTA_BYTES_AT_MOST
    for number in sorted(numbers, reverse=True):
        data = read_start(str(log / f"{number:020d}.json"), _COMMIT_AT_MOST)
        left -= len(data)
        for app, version in map(_txn, data.splitlines()):
            if app == wanted or (app is not None and len(found.newest) < APPS_AT_MOST):
                found.newest.setdefault(app, version)
        if wanted in found.newest:
            break
        if len(data) == _COMMIT_AT_MOST or left <= 0:
            found.is_whole = False
        if left <= 0:
            break
    return found


def _txn(line: bytes) -> tuple[str | None, int]:
    """Return the application and version of an action `txn`, or (None, 0) for another action."""
    with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
        if b'"txn"' in line and len(line) <= _ACTION_AT_MOST:
            action: Any = json.loads(line)
            app, version = action["txn"]["appId"], action["txn"]["version"]
            if type(app) is str and type(version) is int and 0 <= version <= _NUMBER_AT_MOST:
                return app, version
    return None, 0
