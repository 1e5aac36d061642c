"""Spark's readers: the rows of a list of files, and which of them cannot be read, and why."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from spark_azqueue.explanation import without_sql_state
from spark_azqueue.service.redaction import shown

from .decide import GONE, Aside
from .memory import File
from .rules import Root, spark_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

T = TypeVar("T")

NO_HADOOP_NAME = "Hadoop's paths cannot have the name of the file"

_NEVER_SILENTLY = {"ignoreMissingFiles": "false", "ignoreCorruptFiles": "false"}
"""The session's settings of these names would have files left out without a word."""

_CORRUPT = "_corrupt_record"


class Files:
    """Reads lists of files with one format, schema and set of options."""

    def __init__(
        self,
        roots: Mapping[str, Root],
        file_format: str,
        schema: StructType | str | None,
        options: Mapping[str, str],
    ) -> None:
        """options: of Spark's reader. See `read_new_files` for their defaults."""
        self._roots = roots
        self._format = file_format
        self._schema = schema
        given = {name.lower() for name in options}
        told = "columnnameofcorruptrecord" in given or _CORRUPT in str(schema or "")
        mode = {} if told or "mode" in given else {"mode": "FAILFAST"}
        self._options = {**mode, **options, **_NEVER_SILENTLY}

    def frame(self, spark: SparkSession, files: Sequence[File]) -> DataFrame:
        """The rows of these files. Raises Spark's error if one is gone."""
        reader = spark.read.format(self._format).options(**self._options)
        if self._schema is not None:
            reader = reader.schema(self._schema)
        return reader.load(self._paths(files))

    def unreadable(self, spark: SparkSession, files: Sequence[File]) -> list[Aside]:
        """Which of these cannot be read, by reading them. Empty if all can.

        Raises Spark's error if it is the storage that cannot be read.
        """

        def fails(some: Sequence[File]) -> Exception | None:
            return failure(lambda: _through(self.frame(spark, some)))

        bad = failing(files, fails)
        gone = [file for file, error in bad if is_missing(error)]
        if gone and len(gone) == len(files):
            for place in {file.place for file in gone}:
                self._check_root(spark, place)
        return [Aside(file, self._why(spark, file, error)) for file, error in bad]

    def _why(self, spark: SparkSession, file: File, error: Exception) -> str:
        """Why a file cannot be read. Raises if that is not the file's fault."""
        whole = spark.read.format("binaryFile").options(**_NEVER_SILENTLY)
        trouble = failure(lambda: _through(whole.load(self._paths([file])).select("content")))
        if trouble is None:
            return f"the file cannot be read as {self._format}: {said(error)}"
        if is_missing(trouble):
            return GONE
        if "URISyntaxException" in str(trouble):  # a colon, in some file systems
            return NO_HADOOP_NAME
        raise trouble

    def _check_root(self, spark: SparkSession, place: str) -> None:
        """Raise Spark's error if the container itself is not there. Spark lists it for that."""
        root = spark_path(self._roots[place], "")
        spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(root)

    def _paths(self, files: Sequence[File]) -> list[str]:
        return [spark_path(self._roots[file.place], file.path) for file in files]


def failing(
    items: Sequence[T], fails: Callable[[Sequence[T]], Exception | None]
) -> list[tuple[T, Exception]]:
    """The items that fail, found by trying halves; each with its own error."""
    error = fails(items) if items else None
    if error is None:
        return []
    if len(items) == 1:
        return [(items[0], error)]
    half = len(items) // 2
    return failing(items[:half], fails) + failing(items[half:], fails)


def is_sparks(error: Exception) -> bool:
    """Whether Spark raised it, so that a file may be the cause."""
    return type(error).__module__.partition(".")[0] in ("pyspark", "py4j")


def is_missing(error: Exception) -> bool:
    """Whether Spark says that a file does not exist."""
    text = str(error)[:20_000]
    return any(
        word in text for word in ("PATH_NOT_FOUND", "FILE_NOT_EXIST", "FileNotFoundException")
    )


def said(error: Exception) -> str:
    """What Spark says of the file, and the first cause of it, in a line."""
    text = str(error)[:100_000].strip()
    found = _CONDITION.search(text)
    told = shown(without_sql_state(found[0] if found else text.partition("\n")[0]), 300)
    causes = _CAUSE.findall(text)
    return f"{told} Cause: {shown(without_sql_state(causes[-1]), 200)}" if causes else told


_CONDITION = re.compile(
    r"\[(?:FAILED_READ_FILE|MALFORMED_|CANNOT_|PATH_NOT_FOUND)[A-Z0-9_.]*\][^\n]*"
)

_CAUSE = re.compile(r"^Caused by: (?:[\w.$]+: )?([^\n]+)$", re.MULTILINE)


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
