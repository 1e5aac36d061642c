"""Spark's readers: the rows of a list of files, and which of them cannot be read, and why."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from pyspark.errors import AnalysisException

from spark_azqueue.explanation import without_sql_state
from spark_azqueue.service.redaction import shown

from .decide import GONE, Aside
from .hadoop import is_there
from .memory import File
from .rules import Root, spark_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.types import StructType

T = TypeVar("T")

NO_HADOOP_NAME = "Hadoop's paths cannot have the name of the file"

_NEVER_SILENTLY = {"ignoreMissingFiles": "false", "ignoreCorruptFiles": "false"}
"""The session's settings of these names would have files left out without a word."""

_CORRUPT = "_corrupt_record"

_LOOKS = 2
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
    ) -> None:
        """options: of Spark's reader. See `read_new_files` for their defaults.

        is_there: whether Spark finds a container at this path.
        """
        self._roots = roots
        self._format = file_format
        self._schema = schema
        given = {name.lower() for name in options}
        told = "columnnameofcorruptrecord" in given or _CORRUPT in str(schema or "")
        mode = {} if told or "mode" in given else {"mode": "FAILFAST"}
        self._options = {**mode, **options, **_NEVER_SILENTLY}
        self._is_there = is_there

    def check(self, spark: SparkSession) -> None:
        """Read no file. Raises Spark's error if format, schema or options are wrong.

        Raises ValueError if a schema is needed and missing.
        """
        error = failure(lambda: _through(self._reader(spark).load([])))
        if error is None or "path" in str(error).partition("\n")[0].lower():
            return  # some formats read nothing without a path
        if self._schema is None and "UNABLE_TO_INFER_SCHEMA" in str(error):
            raise ValueError(
                f"schema is missing: of files of the format {self._format!r} Spark would make"
                " another schema for each batch. Give one, such as the schema of"
                f" spark.read.format({self._format!r}).load(<a good file>)"
            ) from None
        raise error

    def frame(self, spark: SparkSession, files: Sequence[File]) -> DataFrame:
        """The rows of these files. Raises Spark's error if one is gone."""
        return self._reader(spark).load(self._paths(files))

    def _reader(self, spark: SparkSession) -> DataFrameReader:
        reader = spark.read.format(self._format).options(**self._options)
        return reader if self._schema is None else reader.schema(self._schema)

    def unreadable(self, spark: SparkSession, files: Sequence[File]) -> list[Aside]:
        """Which of these cannot be read, by reading them. Empty if all can.

        Raises Spark's error if it is the storage that cannot be read, or if it is of no file.
        """
        bad = failing(files, lambda some: self._failure(spark, some))
        found = [(file, self._why(spark, file)) for file, _ in bad]
        return [Aside(file, why) for file, why in found if why]

    def _failure(self, spark: SparkSession, files: Sequence[File]) -> Exception | None:
        error = failure(lambda: _through(self.frame(spark, files)))
        if error is not None and (is_of_no_file(error) or is_of_network(error)):
            raise error
        return error

    def _why(self, spark: SparkSession, file: File) -> str | None:
        """Why a file cannot be read; None if it can now. Raises if that is not the file's fault.

        A storage may fail and recover at any time, so one look says little.
        """
        error: Exception | None = None
        for _ in range(_LOOKS):
            if trouble := self._trouble(spark, file):
                return self._why_without_bytes(spark, file, trouble)
            error = self._failure(spark, [file])
            if error is None:
                return None
        return f"the file cannot be read as {self._format}: {said(error)}" if error else None

    def _why_without_bytes(self, spark: SparkSession, file: File, trouble: Exception) -> str | None:
        if "URISyntaxException" in str(trouble):  # a colon, in some file systems
            return NO_HADOOP_NAME
        if not is_missing(trouble):
            raise trouble
        # Before and after another look: the container may go and come back.
        self._check_root(spark, file.place, trouble)
        if trouble_now := self._trouble(spark, file):
            if not is_missing(trouble_now):
                raise trouble_now
            self._check_root(spark, file.place, trouble_now)
            return GONE
        return None

    def _trouble(self, spark: SparkSession, file: File) -> Exception | None:
        """Spark's error when it reads the bytes of a file."""
        whole = spark.read.format("binaryFile").options(**_NEVER_SILENTLY)
        return failure(lambda: _through(whole.load(self._paths([file])).select("content")))

    def _check_root(self, spark: SparkSession, place: str, trouble: Exception) -> None:
        """Raise FileNotFoundError if the container itself is not there."""
        root = self._roots[place]
        if not self._is_there(spark, root.spark):
            raise FileNotFoundError(
                f"the container {place} is not there, or nothing is mounted at {root.spark}: no"
                " file of it counts as gone. If it is to be empty, put a file into it. Spark says:"
                f" {said(trouble)}"
            ) from trouble

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


def is_of_no_file(error: Exception) -> bool:
    """Whether Spark's driver refused a format, a schema or an option, before it read a file."""
    return isinstance(error, AnalysisException) and not is_missing(error)


def is_of_network(error: Exception) -> bool:
    """Whether a cause of it is the way to a storage, or the answer of one."""
    return _NETWORK.search(str(error)[:100_000]) is not None and not is_missing(error)


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

_NETWORK = re.compile(
    r"^Caused by: (?:java\.net\.(?!URISyntax)|javax\.net\."
    r"|[\w.$]*(?:AbfsRest|Azure|Amazon|Sdk)\w*Exception)",
    re.MULTILINE,
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
