"""Reads and writes the folder and the output of an IngestJob, with the driver's Hadoop and
Spark."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from pyspark.errors import AnalysisException

from spark_azqueue.commands.doctor.output_checks import (
    METADATA_AT_MOST,
    Checkpoint,
    batches_in,
    query_in,
)
from spark_azqueue.errors import InvalidOption
from spark_azqueue.files.hadoop import configuration, file_systems, is_missing, is_sparks

from .ingest_rules import (
    NOTE,
    PROPERTY,
    RECORD_AT_MOST,
    Columns,
    check_owner,
    is_path,
    note_of,
    owner_in,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TAIL = 256 * 2**10
"""Number of bytes that are read at the end of each list in which Spark's file sink names its
files."""

_LISTS_AT_MOST = 20
"""Maximum number of these lists that are searched for a file."""

_COMMITS = (100, 100_000)
"""Numbers of commits of a Delta table to read. The second number is used if the newest 100 commits
show no batch of the job."""

_FILES, _DELTA = "_spark_metadata", "_delta_log"

_DETAILS = "# Detailed Table Information"
"""Row of DESCRIBE TABLE EXTENDED before the properties of the table."""

_HALF_S = 2.0
"""Seconds after which the writer of an empty note counts as killed."""


class Folders:
    """Folders in any file system that the driver's Hadoop supports. Methods raise errors of
    Py4J."""

    def __init__(self, spark: SparkSession) -> None:
        self._classes = file_systems(spark)
        self._configuration = configuration(spark)

    def _at(self, path: str) -> tuple[Any, Any]:
        place = self._classes.Path(path)
        return place.getFileSystem(self._configuration), place

    def qualified(self, path: str) -> str:
        """Return the absolute path with its scheme, so that different texts for one folder become
        equal."""
        system, place = self._at(path)
        return str(system.makeQualified(place).toString())

    def names(self, path: str) -> list[str] | None:
        """Return the names in a folder; None if the folder does not exist."""
        system, place = self._at(path)
        try:
            return [str(each.getPath().getName()) for each in system.listStatus(place)]
        except Exception as error:
            if is_sparks(error) and is_missing(error):
                return None
            raise

    def read(self, path: str, most: int, *, end: bool = False) -> bytes | None:
        """Return at most the first `most` bytes of a file; None if the file does not exist. end:
        return the last bytes in place of the first bytes."""
        system, place = self._at(path)
        try:
            opened = system.open(place)
        except Exception as error:
            if is_sparks(error) and is_missing(error):
                return None
            raise
        try:
            if end:
                opened.seek(max(0, system.getFileStatus(place).getLen() - most))
            return bytes(opened.readNBytes(most))
        finally:
            opened.close()

    def write(self, path: str, data: bytes, *, over: bool) -> None:
        """Write a file. over: True to overwrite an existing file."""
        system, place = self._at(path)
        opened = system.create(place, over)
        try:
            opened.write(bytearray(data))
        finally:
            opened.close()


def read_checkpoint(folders: Folders, path: str) -> Checkpoint:
    """Return the id of a checkpoint's query, and the numbers of its newest planned and newest
    committed batches.

    A missing checkpoint counts as new.
    """
    planned = batches_in(folders.names(f"{path}/offsets") or ())
    committed = batches_in(folders.names(f"{path}/commits") or ())
    query = query_in(folders.read(f"{path}/metadata", METADATA_AT_MOST) or b"")
    return Checkpoint(max(planned, default=-1), max(committed, default=-1), query)


@dataclass(frozen=True)
class Output:
    """State of a job's output.

    newest: newest batch of this job in the output; -1 if there is none, None if unknown. columns:
    columns of the table; empty if the table is new, or if no file shows the columns. remedy: action
    that removes the name of this job's folder from the output; "" if the output does not name it.
    """

    newest: int | None = -1
    columns: Columns = ()
    remedy: str = ""


@dataclass(frozen=True)
class Place:
    """Where a job writes its rows. folder: the job's folder."""

    spark: SparkSession
    folders: Folders
    into: str
    format: str
    folder: str

    def look(self, query: str) -> Output:
        """Read the state of the output. query: id of the job's query; "" for a new checkpoint.

        Raises InvalidOption if the job cannot write to this output, and CheckpointMismatch if the
        output belongs to another job.
        """
        if self.format == "delta":
            return _delta(self, query)
        path = self.into if is_path(self.into) else _location(self.spark, self.into)
        if path is None:
            return Output()
        remedy = _note_of_files(self, path)
        return replace(_files(self.spark, self.folders, path), remedy=remedy)

    def claim(self, table: DataFrame) -> None:
        """Write the name of the job's folder into the output, so that any other job is refused.

        table: rows of the job; a new table gets their columns. Raises CheckpointMismatch if another
        job claimed the output at the same time.
        """
        if self.format == "delta":
            _claim_delta(self, table)
            return
        if not is_path(self.into) and not self.spark.catalog.tableExists(self.into):
            self.spark.catalog.createTable(self.into, source=self.format, schema=table.schema)
        path = self.into if is_path(self.into) else str(_location(self.spark, self.into))
        note = f"{path}/{NOTE}"
        if is_half := self.folders.read(note, RECORD_AT_MOST) == b"":
            time.sleep(_HALF_S)
            is_half = self.folders.read(note, RECORD_AT_MOST) == b""  # its writer was killed
        try:
            self.folders.write(note, note_of(self.folder), over=is_half)
        except Exception:
            if not _note_of_files(self, path):
                raise
        _note_of_files(self, path)


def _note_of_files(place: Place, path: str) -> str:
    """Return what removes the output's note; "" if there is no note. Raises CheckpointMismatch if
    the note names another folder."""
    note = f"{path}/{NOTE}"
    owner = owner_in(place.folders.read(note, RECORD_AT_MOST) or b"", note)
    remedy = f"delete {note}"
    check_owner(place.into, owner, place.folder, remedy)
    return remedy if owner else ""


def _files(spark: SparkSession, folders: Folders, path: str) -> Output:
    """Return the state of an output of files, read from the lists in which Spark's file sink names
    its files."""
    names = folders.names(path)
    if not names:
        return Output()
    if _DELTA in names:
        raise InvalidOption(f"the output {path} is a Delta table: set format='delta'")
    if _FILES not in names:
        if others := [name for name in names if name[:1] not in "_."]:
            raise InvalidOption(
                f"the output {path} has files that no query of this kind wrote, such as"
                f" '{others[0]}': readers would not see them any more. Name a new folder in into"
            )
        return Output()
    lists = folders.names(f"{path}/{_FILES}") or []
    numbers = batches_in(lists)
    newest = max(numbers, default=-1)
    for number in reversed(numbers[-_LISTS_AT_MOST:]):
        name = f"{number}.compact" if f"{number}.compact" in lists else str(number)
        data = folders.read(f"{path}/{_FILES}/{name}", _TAIL, end=True) or b""
        for file in _files_in(data):
            try:
                fields = spark.read.parquet(file).schema.fields
            except AnalysisException:  # the file was removed in the meantime
                continue
            return Output(newest, [(each.name, each.dataType.simpleString()) for each in fields])
    return Output(newest)


def _files_in(data: bytes) -> Iterator[str]:
    """Yield the last files of a list, newest first."""
    for line in data.splitlines()[: -_LISTS_AT_MOST - 1 : -1]:
        try:
            found = json.loads(line)
            if found["action"] == "add":
                yield unquote(str(found["path"]))
        except (ValueError, KeyError, TypeError):
            continue


def _name(place: Place) -> str:
    """Return a Delta table's name in SQL. In SQL, the path of a table must be absolute."""
    if not is_path(place.into):
        return place.into
    return "delta.`" + place.folders.qualified(place.into).replace("`", "``") + "`"


def _has_delta(place: Place) -> bool:
    """Return True if the path has a Delta table. Raises InvalidOption if it has other files."""
    names = place.folders.names(place.into) or []
    if _DELTA in names:
        log = place.folders.names(f"{place.into}/{_DELTA}") or []
        return any(name.endswith((".json", ".parquet")) for name in log)
    if others := [name for name in names if name[:1] not in "_." or name == _FILES]:
        raise InvalidOption(
            f"the output {place.into} has files, such as '{others[0]}', and is no Delta table: name"
            " a new folder in into"
        )
    return False


def _note_of_delta(place: Place) -> str:
    """Return what removes the table's property; "" if the property is missing. Raises
    CheckpointMismatch if the property names another folder."""
    table = _name(place)
    (row,) = place.spark.sql(f"DESCRIBE DETAIL {table}").select("properties").collect()
    owner = str((row.properties or {}).get(PROPERTY, ""))
    remedy = f"run ALTER TABLE {table} UNSET TBLPROPERTIES ('{PROPERTY}')"
    check_owner(place.into, owner, place.folder, remedy)
    return remedy if owner else ""


def _claim_delta(place: Place, table: DataFrame) -> None:
    """Create the table if it is new, and set its property."""
    spark, into = place.spark, place.into
    if not is_path(into):
        if not spark.catalog.tableExists(into):
            spark.catalog.createTable(into, source="delta", schema=table.schema)
    elif not _has_delta(place):
        empty = spark.createDataFrame([], table.schema)
        empty.write.format("delta").mode("append").save(into)
    folder = place.folder.replace("\\", "\\\\").replace("'", "\\'")
    if not _note_of_delta(place):  # another job may have been faster
        spark.sql(f"ALTER TABLE {_name(place)} SET TBLPROPERTIES ('{PROPERTY}' = '{folder}')")
        _note_of_delta(place)


def _delta(place: Place, query: str) -> Output:
    """Return the state of a Delta table, read from its history. Each commit names the query and the
    batch."""
    spark, into, table = place.spark, place.into, _name(place)
    if is_path(into):
        if not _has_delta(place):
            return Output()
        fields = spark.read.format("delta").load(into).schema.fields
    else:
        if not spark.catalog.tableExists(into):
            return Output()
        fields = spark.table(into).schema.fields
    columns = [(each.name, each.dataType.simpleString()) for each in fields]
    remedy = _note_of_delta(place)
    if not query:
        return Output(-1, columns, remedy)
    for most in _COMMITS:
        commits = spark.sql(f"DESCRIBE HISTORY {table} LIMIT {most}")
        rows = commits.select("version", "operationParameters").collect()
        batches = [
            int(row.operationParameters["epochId"])
            for row in rows
            if (row.operationParameters or {}).get("queryId") == query
        ]
        if batches:
            return Output(max(batches), columns, remedy)
        if len(rows) < most:
            break
    is_whole = bool(rows) and rows[-1].version == 0
    return Output(-1 if is_whole else None, columns, remedy)


def _location(spark: SparkSession, table: str) -> str | None:
    """Return the folder that has a table's files; None if the table does not exist."""
    if not spark.catalog.tableExists(table):
        return None
    rows = spark.sql(f"DESCRIBE TABLE EXTENDED {table}").collect()
    names = [row.col_name for row in rows]  # the columns, which may have any name, come first
    begin = names.index(_DETAILS) if _DETAILS in names else 0
    found = [row.data_type for row in rows[begin:] if row.col_name == "Location"]
    if found:
        return str(found[0])
    raise InvalidOption(
        f"where the table {table} has its files cannot be told, nor which batches it has: name the"
        " folder in into"
    )
