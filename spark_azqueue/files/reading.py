"""Reads the files of a list with Spark's readers, and finds the unreadable files, with reasons."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from typing import TYPE_CHECKING, TypeVar

from spark_azqueue.service.redaction import shown

from .decide import NO_HADOOP_NAME, Look, Looks, Quarantined, changed
from .hadoop import (
    condition,
    is_denied,
    is_of_a_name,
    is_of_network,
    is_of_no_file,
    is_on_disk,
    is_sparks,
    is_there,
    looks,
    said,
)
from .memory import File
from .rules import Root, folder_of, may_be_a_mount, path_below, spark_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.types import StructType

T = TypeVar("T")

_NEVER_SILENTLY = {"ignoreMissingFiles": "false", "ignoreCorruptFiles": "false"}
"""Reader options that override settings of the session with which Spark would silently leave out
files."""

_OF_A_LOOK = {**_NEVER_SILENTLY, "recursiveFileLookup": "true"}
"""Reader options for a check of paths. With them, no columns are made from names of subfolders,
which may contradict each other.
"""

_AT_ONCE = 16

_CORRUPT = "_corrupt_record"

_STEP = 50
"""Minimum number of unreadable files that are reported in one step."""

_READS = 2
"""Number of attempts. A file counts as broken if, in each attempt, its bytes are readable but its
format is not.
"""


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
        """options: options of Spark's reader. See `read_new_files` for the defaults.

        is_there: returns True if Spark finds a container at a path. looks: returns what exists at
        each path.
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
        """Check format, schema and options without reading a file.

        Raises Spark's error if one is wrong.

        Raises ValueError if the format needs a schema and no schema is given.
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
        """Return the rows of these files, or no rows. Raises Spark's error if a file is missing."""
        reader = self._reader(spark)
        if files:
            return reader.load(self._paths(files))
        try:
            return reader.load([])
        except Exception as error:
            if not is_sparks(error):
                raise
            if self._empty is None:  # some formats need a path
                self._empty = tempfile.TemporaryDirectory()
            return reader.load(f"file:{self._empty.name}")

    def _reader(self, spark: SparkSession) -> DataFrameReader:
        reader = spark.read.format(self._format).options(**self._options)
        return reader if self._schema is None else reader.schema(self._schema)

    def look(self, spark: SparkSession, files: Sequence[File], *, or_denied: bool = False) -> Looks:
        """Return what exists at the path of each file now. Opens no file.

        A file counts as missing only if a second check does not find it either, and if its
        container exists before and after this check. or_denied: True to return DENIED for a path if
        the job lacks permission for this path, but not for the whole container. Raises
        FileNotFoundError if the container is missing. Raises OSError if it is unknown what is at a
        path, and Spark's error if it is unknown whether a container exists. A later call may
        succeed.
        """
        found = self._look(spark, files)
        for again in (True, False):
            lost = [f for f in files if found[f.place, f.path] in (Look.GONE, Look.NO_NAME)]
            for file in {file.place: file for file in lost}.values():
                self._check_root(spark, file, found)
            if again:
                found |= self._look(spark, lost)
        for file in (f for f in files if found[f.place, f.path] is Look.DENIED):
            if not (or_denied and self._is_elsewhere(spark, file, found)):
                raise _unknown(file, "the job may not look at it")
        return found

    def _look(self, spark: SparkSession, files: Sequence[File]) -> dict[tuple[str, str], Look]:
        found: dict[tuple[str, str], Look] = {}
        for place in {file.place for file in files}:
            here, root = [file for file in files if file.place == place], self._roots[place]
            seen = self._looks(spark, [root.spark + file.path for file in here])
            looks = dict(zip((file.path for file in here), seen, strict=True))
            unknown = [f for f in here if looks[f.path] in (Look.UNKNOWN, Look.DENIED)]
            if unknown:
                looks |= self._look_by_spark(spark, root, unknown, looks)
            found |= {(place, path): look for path, look in looks.items()}
        return found

    def _is_elsewhere(self, spark: SparkSession, file: File, found: Looks) -> bool:
        """Return True if the job has permission for other paths of the container, so that only a
        folder is denied.
        """
        seen = (Look.FILE, Look.EMPTY, Look.NO_FILE)
        if any(place == file.place and look in seen for (place, _), look in found.items()):
            return True
        folder = self._roots[file.place].spark + folder_of(file.path)
        return "/" in file.path and [*self._looks(spark, [folder])] == [Look.NO_FILE]

    def _look_by_spark(
        self, spark: SparkSession, root: Root, files: Sequence[File], before: Mapping[str, Look]
    ) -> dict[str, Look]:
        """Check paths with Spark's reader, which may have credentials that Hadoop in this process
        lacks.

        If the check of all files together fails, each file is checked alone. before: results of
        Hadoop. Raises OSError if Spark's reader cannot find out either what is at a path.
        """
        whole = spark.read.format("binaryFile").options(**_OF_A_LOOK)
        on_disk = is_on_disk(spark, root.spark)

        def lost(file: File) -> Look | None:
            error = failure(lambda: whole.load(self._paths([file])))
            if error is None:
                return None
            if is_of_a_name(error):
                return Look.NO_NAME
            if condition(error) == "PATH_NOT_FOUND" and not on_disk:
                return Look.GONE
            # For a path on a disk, Java reports a denied path as missing.
            if is_denied(error) or (on_disk and before[file.path] is Look.DENIED):
                return Look.DENIED
            raise _unknown(file, said(error)) from error

        found: dict[str, Look] = {}
        if failure(lambda: whole.load(self._paths(files))):
            with ThreadPoolExecutor(min(_AT_ONCE, len(files))) as pool:
                pairs = zip(files, pool.map(lost, files), strict=True)
                found = {file.path: look for file, look in pairs if look}
        there = [file for file in files if file.path not in found]
        return found | self._look_at_rows(whole, root, there) if there else found

    def _look_at_rows(
        self, whole: DataFrameReader, root: Root, files: Sequence[File]
    ) -> dict[str, Look]:
        """Return what exists at these paths, which all exist.

        Spark returns no row for an empty file or folder.
        """
        asked = {file.path for file in files}
        found, strange = dict.fromkeys(asked, Look.EMPTY), ""
        try:
            for row in whole.load(self._paths(files)).select("path", "length").toLocalIterator():
                path = path_below(root, row["path"]) or ""
                look = Look.FILE if row["length"] else Look.EMPTY
                at = asked.intersection(accumulate(path.split("/"), "{}/{}".format))
                found |= {each: look if each == path else Look.NO_FILE for each in at}
                strange = strange if at else row["path"]
        except Exception as error:
            if not is_sparks(error):
                raise
            raise _unknown(files[0], said(error)) from error
        if strange:
            raise _unknown(files[0], f"Spark finds {shown(strange)} there")
        return found

    def unreadable(self, spark: SparkSession, files: Sequence[File]) -> Iterator[list[Quarantined]]:
        """Yield the unreadable files: the files that changed or, if no file changed, the files that
        Spark cannot read.

        Yields several files at a time, and nothing if all files are readable. Raises Spark's error
        if the storage is unreadable, or if the cause is not a file.
        """
        if found := changed(files, self.look(spark, files)):
            yield found
            return
        # at most 1,000 objects may record the unreadable files of a list
        step, bad = max(_STEP, len(files) // 500), []
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
        """Return the reason why a file is unreadable; None if the file is readable now.

        Raises Spark's error if the file is not the cause.

        One failed read proves nothing, because a storage may fail and recover at any time.
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
        """Return the error that Spark raises when it reads the bytes of a file."""
        whole = spark.read.format("binaryFile").options(**_NEVER_SILENTLY)
        return failure(lambda: _through(whole.load(self._paths([file])).select("content")))

    def _check_root(self, spark: SparkSession, file: File, looks: Looks) -> None:
        """Raise FileNotFoundError if the container itself is missing."""
        root = self._roots[file.place]
        try:
            there = self._is_there(spark, root.spark)
        except Exception as error:
            if not is_sparks(error):
                raise
            there = self._is_there_by_spark(spark, root, looks)
        if not there:
            raise FileNotFoundError(
                f"the container {file.place} is not there, or nothing is mounted at {root.spark}:"
                f" no file of it counts as gone, such as {shown(file.path)}. If it is to be empty,"
                " put a file into it"
            )

    def _is_there_by_spark(self, spark: SparkSession, root: Root, looks: Looks) -> bool:
        """Return True if Spark's reader finds another path of the container, or can list the
        container.
        """
        other = (
            path
            for (place, path), look in looks.items()
            if place == root.name and look in (Look.FILE, Look.EMPTY, Look.NO_FILE)
        )
        seen, whole = next(other, ""), spark.read.format("binaryFile").options(**_OF_A_LOOK)
        try:
            found = whole.load([spark_path(root, seen)]).select("path").first()
        except Exception as error:
            if condition(error) != "PATH_NOT_FOUND":
                raise
            return False
        return found is not None or bool(seen) or not may_be_a_mount(root)

    def _paths(self, files: Sequence[File]) -> list[str]:
        return [spark_path(self._roots[file.place], file.path) for file in files]


def _unknown(file: File, why: str) -> OSError:
    return OSError(
        f"it is not known what is at {shown(file.path)} in the container {file.place}, so no"
        " file of this batch counts as read, empty or gone. Start the query again when the storage"
        f" can be read. The cause: {why}"
    )


def failing(items: Sequence[T], fails: Callable[[Sequence[T]], Exception | None]) -> Iterator[T]:
    """Test all items together, then halves of failing lists. Yield the items that fail."""
    if not items or fails(items) is None:
        return
    if len(items) == 1:
        yield items[0]
        return
    half = len(items) // 2
    yield from failing(items[:half], fails)
    yield from failing(items[half:], fails)


def failure(act: Callable[[], object]) -> Exception | None:
    """Call `act`. Return the error if Spark raised it; None if the call succeeds. Other errors are
    raised."""
    try:
        act()
    except Exception as error:
        if not is_sparks(error):
            raise
        return error
    return None


def _through(frame: DataFrame) -> None:
    """Read all rows and columns, and discard them."""
    frame.write.format("noop").mode("overwrite").save()
