"""Rules of an IngestJob: which arguments are refused, and where checkpoint, log and record are.

The module reads and writes nothing.

A model in the property tests has the same rules. For each rule, it shows what fails without the
rule.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, NoReturn
from urllib.parse import urlsplit

from spark_azqueue.commands.doctor.output_checks import Checkpoint
from spark_azqueue.errors import CheckpointMismatch, InvalidOption, InvalidSchema
from spark_azqueue.errors.conditions import Condition
from spark_azqueue.options.log import log_place
from spark_azqueue.service.account import Account
from spark_azqueue.service.redaction import shown

KEPT = ("message_id", "message_row", "queue", "insertion_time")
"""Columns of the table that come before the columns of the schema."""

BEHIND = ("error", "body")
"""Columns of the table that come after the columns of the schema."""

RECORD = "ingest.json"
"""Name of the file in a job's folder that identifies the job."""

RECORD_AT_MOST = 64 * 2**10
"""Maximum size, in bytes, of the record and of an output's note."""

NOTE = "_azqueue_ingest"
"""Name of a file in an output of files: the note, which names the folder of the job that writes
there."""

PROPERTY = "azqueue.ingest.folder"
"""Property of a Delta table that has the same content as the note in an output of files."""

FORMATS = ("parquet", "delta")

FILL = 4_096
"""A batch begins when this many messages wait.

With fewer messages, a batch begins when the first message has waited for the time `every`.
"""

_MOUNTS = ("/Volumes/", "/dbfs/", "/Workspace/")
_ABFS = re.compile(r"(?P<container>[^@/]+)@(?P<account>[^./]+)\.dfs\.(?P<suffix>[^/:]+)")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")

_mismatch = partial(CheckpointMismatch, condition=Condition.INGEST_MISMATCH)

Columns = Sequence[tuple[str, str]]
"""For each column, its name and Spark's short name of its type."""


# ── where the parts are ───────────────────────────────────────────────────────────────────────────


def folder_of(given: str) -> str:
    """Return the job's folder in a form that Spark and Hadoop accept.

    Raises InvalidOption if the text cannot be a folder.
    """
    if not isinstance(given, str) or not given.strip():
        raise InvalidOption(f"IngestJob(folder={given!r}): name a folder, as a text")
    folder = given.strip().rstrip("/")
    if "${" in folder:  # Spark's SQL replaces it, so a table would name another folder
        raise InvalidOption(f"IngestJob(folder={given!r}): a folder cannot have '${{' in its path")
    scheme = _SCHEME.match(folder)
    if scheme is None or scheme[0].lower() == "file:":
        path = folder[len(scheme[0]) :] if scheme else folder
        path = os.path.abspath("/" + path.lstrip("/") if scheme or path[:1] == "/" else path)
        if f"{path}/".startswith(_MOUNTS):
            raise InvalidOption(
                f"IngestJob(folder={shown(repr(given))}): mounts of object stores cannot hold the"
                " log. Name the storage itself: abfss://<container>@<account>.dfs.core.windows.net/…"
            )
        return f"file:{path}"
    if scheme[0].lower() == "abfss:":
        place = _ABFS.fullmatch(urlsplit(folder).netloc)
        if place and "fabric" not in place["suffix"] and place["account"] != "onelake":
            return folder
    raise InvalidOption(
        f"IngestJob(folder={shown(repr(given))}): expected a path of a disk or NFS, or"
        " abfss://<container>@<account>.dfs.core.windows.net/<folder>. OneLake and other stores are"
        " untried, and refused"
    )


def log_options(folder: str, queues: Account, given: Mapping[str, str]) -> dict[str, str]:
    """Return the options that put the write-ahead log into the folder. folder: result of
    `folder_of`.

    queues: account of the queues. given: the user's options, with names in lower case. Raises
    InvalidOption.
    """
    if "writeaheadlog" in given:
        return {}
    parts = urlsplit(folder)
    place = _ABFS.fullmatch(parts.netloc)
    text, found = f"{folder}/log", {}
    if place:
        path = parts.path.strip("/")
        text = f"blob:{place['container']}/{path}{'/' if path else ''}log"
        if place["account"] != queues.name and not (
            given.keys() & {"blobaccounturl", "secret.blobconnectionstring"}
        ):
            if not queues.identity:
                raise InvalidOption(
                    f"the folder is in the account '{place['account']}', and the credential of the"
                    f" queue is for '{queues.name}' alone: set"
                    " 'secret.blobConnectionString' in source, take an Entra identity, or a folder"
                    f" in '{queues.name}'"
                )
            found["blobAccountUrl"] = f"https://{place['account']}.blob.{place['suffix']}"
    try:
        log_place(text)
    except InvalidOption:
        raise
    except ValueError as error:
        raise InvalidOption(
            f"IngestJob: the log would be {shown(text)}, which is not allowed; expected {error}"
        ) from None
    return {"writeAheadLog": text} | found


def is_path(into: str) -> bool:
    """Return True if the output is a path, False if it is the name of a table."""
    return "/" in into or bool(_SCHEME.match(into))


def check_catalog(into: str, kind: str, current: str) -> None:
    """Raise InvalidOption for a table that another process would not find.

    kind: value of `spark.sql.catalogImplementation`. current: name of the session's catalog.
    """
    catalog = current if into.count(".") < 2 else into.split(".")[0]
    if kind == "in-memory" and catalog == "spark_catalog":
        raise InvalidOption(
            f"IngestJob(into={into!r}): this session has its catalog in memory, so the table would"
            f" be unknown to the next process. Name a path, such as into='./{into}', or a session"
            " whose catalog lasts (enableHiveSupport(), Unity Catalog, a catalog of your own)"
        )


# ── what a start refuses ──────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Record:
    """Identity of the job that a folder belongs to.

    The record is a file in the folder, beside the checkpoint. It is written once, before the first
    batch.
    """

    account: str
    queues: tuple[str, ...]
    into: str
    format: str

    def to_bytes(self) -> bytes:
        """Return the file's content."""
        return json.dumps({"version": 1} | asdict(self), indent=1).encode() + b"\n"

    @classmethod
    def read(cls, data: bytes, where: str) -> Record:
        """Parse a record. Raises CheckpointMismatch for a record that this release cannot read."""
        try:
            found: Any = json.loads(data)
            texts = {name: str(found[name]) for name in ("account", "into", "format")}
            if found["version"] == 1:
                return cls(queues=tuple(map(str, found["queues"])), **texts)
        except (ValueError, KeyError, TypeError, RecursionError):
            pass
        raise _mismatch(
            f"{where} is not as this release writes it. If a start was killed before its first"
            " batch, or no other job uses this folder, delete that file; else restore it, or"
            " upgrade"
        )

    def check(self, folder: str, now: Record) -> None:
        """Raise CheckpointMismatch unless a job may resume in this folder. now: record of the
        job."""
        for what, before, given in (
            ("account", self.account, now.account),
            ("format", self.format, now.format),
            ("output", self.into, now.into),
        ):
            if before != given:
                raise _mismatch(
                    f"the folder {folder} belongs to a job of the {what} '{shown(before)}', and"
                    f" this one names '{shown(given)}': checkpoint, log and output belong together."
                    " Name what the folder belongs to, or take a new folder"
                )
        if missing := [name for name in self.queues if name not in now.queues]:
            raise _mismatch(
                f"the folder {folder} belongs to a job of the queue '{missing[0]}', which this"
                " one does not name: add it to 'queue', or take a new folder"
            )


def note_of(folder: str) -> bytes:
    """Return the content of an output's note. folder: folder of the job that writes into it."""
    return json.dumps({"version": 1, "folder": folder}, indent=1).encode() + b"\n"


def owner_in(note: bytes, where: str) -> str:
    """Return the folder that a note names; "" for an empty note, which a killed job left.

    Raises CheckpointMismatch for a note that this release cannot read.
    """
    if not note:
        return ""
    try:
        found: Any = json.loads(note)
        if found["version"] == 1 and isinstance(found["folder"], str):
            return found["folder"]
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    raise _mismatch(
        f"{where} is not as this release writes it, so the job that writes here is not known. If"
        " it is this one, and no other, delete that file; else take a new output, or upgrade"
    )


def check_owner(into: str, owner: str, folder: str, remedy: str) -> None:
    """Raise CheckpointMismatch if the output belongs to the job of another folder.

    owner: folder that the output names; "" if it names none. remedy: how the user can remove the
    name from the output.
    """
    if owner and owner != folder:
        raise _mismatch(
            f"the output {into} belongs to the job in {shown(owner)}, and this one is in {folder}:"
            " of two jobs with one output, Spark skips rows, and their messages are deleted. Start"
            " the job in its folder; or take a new output. If the folder was moved here, and no"
            f" job runs there, {remedy}"
        )


def refuse_new_folder(into: str, folder: str, remedy: str) -> NoReturn:
    """Raise CheckpointMismatch, because the output names this folder, and the folder is new."""
    raise _mismatch(
        f"the output {into} belongs to the job in {folder}, and this folder is new: rows would be"
        " lost, or written twice. Is its volume mounted? Put back the folder; or begin anew with a"
        f" new folder and a new output. If the output has no rows yet, {remedy}"
    )


def check_batches(into: str, folder: str, known: Checkpoint, newest: int) -> None:
    """Raise CheckpointMismatch if the batches in the output do not fit the checkpoint.

    newest: the newest batch of this job in the output; -1 if there is none.
    """
    if known.planned >= 0 and not known.query:
        raise _mismatch(
            f"the checkpoint in {folder} lacks its file 'metadata', so Spark would take it for"
            " another query's: put it back, or begin anew with a new folder and a new output"
        )
    if newest > known.planned:
        has = f"ends at batch {known.planned}" if known.planned >= 0 else "is new"
        raise _mismatch(
            f"the output {into} has batches up to {newest}, and the checkpoint in {folder} {has}:"
            f" rows of batches {known.planned + 1} to {newest} would be lost, or written twice. Put"
            f" back the newest state of the folder; or, if only its checkpoint is"
            " older, roll the output back, too (docs/exactly-once.md); or begin anew with a new"
            " folder and a new output"
        )
    if newest < known.committed:
        has = f"has batches up to {newest}" if newest >= 0 else "has none of its batches"
        raise _mismatch(
            f"the checkpoint in {folder} has committed batch {known.committed}, and the output"
            f" {into} {has}: rows are missing there. Put back the output; or roll the checkpoint"
            " back, too (docs/exactly-once.md); or begin anew with a new folder and a new output"
        )


def check_names(columns: Columns) -> None:
    """Raise InvalidSchema if two columns of the table have the same name."""
    seen = dict.fromkeys((*KEPT, *BEHIND), "the table has a column of its own with this name")
    seen["_corrupt_record"] = "the source uses this name"
    for name, _ in columns:
        if why := seen.get(name.lower()):
            raise InvalidSchema(
                f"IngestJob: the schema names the column '{shown(name)}', and {why} (capitals do"
                " not count): rename it",
            )
        seen[name.lower()] = "the schema has it twice"


def check_columns(into: str, has: Columns, given: Columns) -> None:
    """Raise InvalidSchema unless the job writes every column of the table, with the same type."""
    now = {name.lower(): (name, kind) for name, kind in given}
    for name, kind in has:
        spelled, found = now.get(name.lower(), (name, None))
        if found is None:
            raise InvalidSchema(
                f"the table {into} has the column '{shown(name)}' ({kind}), and the job does not:"
                " rows would lack it in silence. Keep it in the schema (it is NULL where a body has"
                " none), or take a new folder and a new output",
            )
        if found != kind:
            raise InvalidSchema(
                f"the table {into} has the column '{shown(name)}' as {kind}, and the job as"
                f" {found}: readers could not read both. Add a column of another name, or take a"
                " new folder and a new output",
            )
        if spelled != name:
            raise InvalidSchema(
                f"the table {into} has the column '{shown(name)}', and the job writes"
                f" '{shown(spelled)}': Parquet would have both. Write it as the table does"
            )
