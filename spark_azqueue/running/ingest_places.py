"""Reads of an IngestJob's folder and output, through the driver's Hadoop and Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
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

from .ingest_rules import Columns, is_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TAIL = 256 * 2**10
"""Bytes that are read at the end of one of the sink's lists."""

_LISTS_AT_MOST = 20
"""Most lists of the sink that are searched for a file."""

_COMMITS = (100, 100_000)
"""Commits of a Delta table that are read: first, and if these show no batch of the job."""

_FILES, _DELTA = "_spark_metadata", "_delta_log"


class Folders:
    """Folders of any file system of the driver's Hadoop. Its methods raise errors of Py4J."""

    def __init__(self, spark: SparkSession) -> None:
        self._classes = file_systems(spark)
        self._configuration = configuration(spark)

    def _at(self, path: str) -> tuple[Any, Any]:
        place = self._classes.Path(path)
        return place.getFileSystem(self._configuration), place

    def qualified(self, path: str) -> str:
        """Return a path with its scheme, absolute, so that two names of one folder are equal."""
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
        """Return the first bytes of a file, or the last ones; None if the file does not exist."""
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
        """Write a file. over: overwrite an existing file."""
        system, place = self._at(path)
        opened = system.create(place, over)
        try:
            opened.write(bytearray(data))
        finally:
            opened.close()


def read_checkpoint(folders: Folders, path: str) -> Checkpoint:
    """Return the newest batches of a checkpoint, and its query's id.

    A missing one counts as new.
    """
    planned = batches_in(folders.names(f"{path}/offsets") or ())
    committed = batches_in(folders.names(f"{path}/commits") or ())
    query = query_in(folders.read(f"{path}/metadata", METADATA_AT_MOST) or b"")
    return Checkpoint(max(planned, default=-1), max(committed, default=-1), query)


@dataclass(frozen=True)
class Output:
    """State of the output. newest: of this job's batches, -1 for none; None if unknown.

    columns: of the table; empty if it is new, or if no file shows them.
    """

    newest: int | None = -1
    columns: Columns = ()


def look(spark: SparkSession, folders: Folders, into: str, format: str, query: str) -> Output:
    """Read the state of a job's output. query: its id. Raises InvalidOption if it cannot be one."""
    if format == "delta":
        return _delta(spark, folders, into, query)
    path = into if is_path(into) else _location(spark, into)
    return Output() if path is None else _files(spark, folders, path)


def _files(spark: SparkSession, folders: Folders, path: str) -> Output:
    """Return the state of a file sink's output, from the sink's lists of its files."""
    names = folders.names(path)
    if not names:
        return Output()
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
            except AnalysisException:  # the file was removed meanwhile
                continue
            return Output(newest, [(each.name, each.dataType.simpleString()) for each in fields])
    return Output(newest)


def _files_in(data: bytes) -> Iterator[str]:
    """Yield a few files at the end of a list, the newest first."""
    for line in data.splitlines()[: -_LISTS_AT_MOST - 1 : -1]:
        try:
            found = json.loads(line)
            if found["action"] == "add":
                yield unquote(str(found["path"]))
        except (ValueError, KeyError, TypeError):
            continue


def _delta(spark: SparkSession, folders: Folders, into: str, query: str) -> Output:
    """Return the state of a Delta table, from its history: each commit has query and batch."""
    if is_path(into):
        if not folders.names(f"{into}/{_DELTA}"):
            return Output()
        table = f"delta.`{into}`"
        fields = spark.read.format("delta").load(into).schema.fields
    else:
        if not spark.catalog.tableExists(into):
            return Output()
        table, fields = into, spark.table(into).schema.fields
    columns = [(each.name, each.dataType.simpleString()) for each in fields]
    if not query:
        return Output(-1, columns)
    for most in _COMMITS:
        commits = spark.sql(f"DESCRIBE HISTORY {table} LIMIT {most}")
        rows = commits.select("version", "operationParameters").collect()
        batches = [
            int(row.operationParameters["epochId"])
            for row in rows
            if (row.operationParameters or {}).get("queryId") == query
        ]
        if batches:
            return Output(max(batches), columns)
        if len(rows) < most:
            break
    is_whole = bool(rows) and rows[-1].version == 0
    return Output(-1 if is_whole else None, columns)


def _location(spark: SparkSession, table: str) -> str | None:
    """Return the folder of a table's files; None if the table does not exist."""
    if not spark.catalog.tableExists(table):
        return None
    rows = spark.sql(f"DESCRIBE TABLE EXTENDED {table}").collect()
    found = [row.data_type for row in rows if row.col_name == "Location"]
    if found:
        return str(found[0])
    raise InvalidOption(
        f"where the table {table} has its files cannot be told, nor which batches it has: name the"
        " folder in into"
    )
