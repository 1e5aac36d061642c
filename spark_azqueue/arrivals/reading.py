"""Spark's readers: the rows of a list of files, and which of them cannot be read, and why."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from spark_azqueue.service.redaction import shown

from .causes import (
    condition,
    is_of_a_name,
    is_of_network,
    is_of_no_file,
    is_sparks,
    said,
)
from .decide import Look, Looks, Quarantined, changed
from .hadoop import is_there, looks
from .memory import File
from .rules import Root, path_below, spark_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.types import StructType

T = TypeVar("T")

NO_HADOOP_NAME = "Hadoop's paths cannot have the name of the file"

_NEVER_SILENTLY = {"ignoreMissingFiles": "false", "ignoreCorruptFiles": "false"}
"""The session's settings of these names would have files left out without a word."""

_CORRUPT = "_corrupt_record"

_STEP = 50
"""So many files that cannot be read are told at once, at least."""

_READS = 2
"""So often a file's bytes have to be read, and its format not, until it counts as broken."""


class Files:
    """Reads lists of files with one format, schema and set of options."""

    def __init__(
        self,
        roots: Mapping[str, Root],
        file_format: str,
        schema: StructType | str | None,
        options: Mapping[str, str],
        is_there: Callable[[SparkSession, str], bool] = is_there,
        looks: Callable[[SparkSession, Sequence[str]], Sequence[Look]] = looks,
    ) -> None:
        """options: of Spark's reader. See `read_new_files` for their defaults.

        is_there: whether Spark finds a container at this path. looks: what is at each path.
        """
        self._roots = roots
        self._format = file_format
        self._schema = schema
        given = {name.lower() for name in options}
        told = "columnnameofcorruptrecord" in given or _CORRUPT in str(schema or "")
        mode = {} if told or "mode" in given else {"mode": "FAILFAST"}
        self._options = {**mode, **options, **_NEVER_SILENTLY}
        self._is_there = is_there
        self._looks = looks
        self._empty: tempfile.TemporaryDirectory[str] | None = None

    def check(self, spark: SparkSession) -> None:
        """Read no file. Raises Spark's error if format, schema or options are wrong.

        Raises ValueError if a schema is needed and missing.
        """
        error = failure(lambda: _through(self._reader(spark).load([])))
        if error is None or "path" in str(error).partition("\n")[0].lower():
            return  # some formats read nothing without a path
        if self._schema is None and condition(error) == "UNABLE_TO_INFER_SCHEMA":
            raise ValueError(
                f"schema is missing: of files of the format {self._format!r} Spark would make"
                " another schema for each batch. Give one, such as the schema of"
                f" spark.read.format({self._format!r}).load(<a good file>)"
            ) from None
        raise error

    def frame(self, spark: SparkSession, files: Sequence[File]) -> DataFrame:
        """The rows of these files, none if there are none. Raises Spark's error if one is gone."""
        reader = self._reader(spark)
        if files:
            return reader.load(self._paths(files))
        try:
            return reader.load([])
        except Exception as error:
            if not is_sparks(error):
                raise
            if self._empty is None:  # some formats want a path
                self._empty = tempfile.TemporaryDirectory()
            return reader.load(f"file:{self._empty.name}")

    def _reader(self, spark: SparkSession) -> DataFrameReader:
        reader = spark.read.format(self._format).options(**self._options)
        return reader if self._schema is None else reader.schema(self._schema)

    def look(self, spark: SparkSession, files: Sequence[File]) -> Looks:
        """What is at the path of each of these now. Opens none.

        A file is gone only if its container is there, before and after a second look. Raises
        FileNotFoundError if the container is not, and what `is_there` raises.
        """
        found = self._look(spark, files)
        for again in (True, False):
            gone = [file for file in files if found[file.place, file.path] is Look.GONE]
            for file in {file.place: file for file in gone}.values():
                self._check_root(spark, file)
            if again:
                found |= self._look(spark, gone)
        return found

    def _look(self, spark: SparkSession, files: Sequence[File]) -> dict[tuple[str, str], Look]:
        found: dict[tuple[str, str], Look] = {}
        for place in {file.place for file in files}:
            here, root = [file for file in files if file.place == place], self._roots[place]
            seen = self._looks(spark, [root.spark + file.path for file in here])
            looks = dict(zip((file.path for file in here), seen, strict=True))
            if Look.UNKNOWN in seen:
                looks |= self._look_by_spark(spark, root, here)
            found |= {(place, path): look for path, look in looks.items()}
        return found

    def _look_by_spark(
        self, spark: SparkSession, root: Root, files: Sequence[File]
    ) -> dict[str, Look]:
        """The same by Spark's reader, which may have a credential that Hadoop in the driver lacks.

        Empty if it fails, as for a file that is gone.
        """
        whole = spark.read.format("binaryFile").options(**_NEVER_SILENTLY)
        asked, found = {file.path for file in files}, {}
        try:
            for row in whole.load(self._paths(files)).select("path", "length").toLocalIterator():
                path = path_below(root, row["path"]) or ""
                if path in asked:
                    found[path] = Look.FILE if row["length"] else Look.EMPTY
                else:
                    folders = {path[:at] for at, letter in enumerate(path) if letter == "/"}
                    found |= dict.fromkeys(folders & asked, Look.NO_FILE)
        except Exception as error:
            if not is_sparks(error):
                raise
            return {}
        return found

    def unreadable(self, spark: SparkSession, files: Sequence[File]) -> Iterator[list[Quarantined]]:
        """Which of these cannot be read: those that are no files any more, else by reading them.

        Gives them in steps, none if all can be read. Raises Spark's error if it is the storage that
        cannot be read, or if it is of no file.
        """
        if found := changed(files, self.look(spark, files)):
            yield found
            return
        step, bad = max(_STEP, len(files) // 500), []  # a list has at most 1,000 objects with these
        for file in failing(files, lambda some: self._failure(spark, some)):
            if why := self._why(spark, file):
                bad.append(Quarantined(file, why))
            if len(bad) == step:
                yield bad
                bad = []
        if bad:
            yield bad

    def _failure(self, spark: SparkSession, files: Sequence[File]) -> Exception | None:
        error = failure(lambda: _through(self.frame(spark, files)))
        if error is not None and (is_of_no_file(error) or is_of_network(error)):
            raise error
        return error

    def _why(self, spark: SparkSession, file: File) -> str | None:
        """Why a file cannot be read; None if it can now. Raises if that is not the file's fault.

        A storage may fail and recover at any time, so one read says little.
        """
        error: Exception | None = None
        for _ in range(_READS):
            if trouble := self._trouble(spark, file):
                if gone := changed([file], self.look(spark, [file])):
                    return gone[0].reason
                if is_of_a_name(trouble):
                    return NO_HADOOP_NAME
                raise trouble
            error = self._failure(spark, [file])
            if error is None:
                return None
        return f"the file cannot be read as {self._format}: {said(error)}" if error else None

    def _trouble(self, spark: SparkSession, file: File) -> Exception | None:
        """Spark's error when it reads the bytes of a file."""
        whole = spark.read.format("binaryFile").options(**_NEVER_SILENTLY)
        return failure(lambda: _through(whole.load(self._paths([file])).select("content")))

    def _check_root(self, spark: SparkSession, file: File) -> None:
        """Raise FileNotFoundError if the container itself is not there."""
        root = self._roots[file.place]
        if not self._is_there(spark, root.spark):
            raise FileNotFoundError(
                f"the container {file.place} is not there, or nothing is mounted at {root.spark}:"
                f" no file of it counts as gone, such as {shown(file.path)}. If it is to be empty,"
                " put a file into it"
            )

    def _paths(self, files: Sequence[File]) -> list[str]:
        return [spark_path(self._roots[file.place], file.path) for file in files]


def failing(items: Sequence[T], fails: Callable[[Sequence[T]], Exception | None]) -> Iterator[T]:
    """The items that fail, found by trying halves."""
    if not items or fails(items) is None:
        return
    if len(items) == 1:
        yield items[0]
        return
    half = len(items) // 2
    yield from failing(items[:half], fails)
    yield from failing(items[half:], fails)


def failure(act: Callable[[], object]) -> Exception | None:
    """Spark's error of this act; None if it succeeds. Other errors are raised."""
    try:
        act()
    except Exception as error:
        if not is_sparks(error):
            raise
        return error
    return None


def _through(frame: DataFrame) -> None:
    """Read all rows and columns, to nowhere."""
    frame.write.format("noop").mode("overwrite").save()
