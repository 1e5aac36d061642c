"""Asks Hadoop's classes in the driver about paths, because errors of Spark's readers do not say
enough about a path."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException, PySparkException

from spark_azqueue.errors import InvalidOption
from spark_azqueue.errors.raised import without_sql_state
from spark_azqueue.options.log import LogPlace, log_place
from spark_azqueue.service.redaction import shown

from .decide import Look
from .rules import path_on

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DEEPEST = 50
_MISSING = frozenset({"java.io.FileNotFoundException", "java.nio.file.NoSuchFileException"})
_NETWORK = re.compile(
    r"java\.net\.(?!URISyntax).*|javax\.net\..*"
    r"|[\w.$]*(?:AbfsRest|Azure|Amazon|Sdk)\w*Exception"
)
_OF_A_FILE = re.compile(r"\[(?:FAILED_READ_FILE|MALFORMED_|CANNOT_|PATH_NOT_FOUND)")


def is_sparks(error: Exception) -> bool:
    """Return True if Spark raised the error. In this case, a file may be the cause."""
    return type(error).__module__.partition(".")[0] in ("pyspark", "py4j")


def classes(error: Exception) -> list[str]:
    """Return the Java classes of a Spark error and of its causes, outermost first; [] for another
    error.
    """
    return [str(each.getClass().getName()) for each in _chain(error)]


def condition(error: Exception) -> str | None:
    """Return the id of Spark's error condition, such as PATH_NOT_FOUND; None if the error has no
    condition.
    """
    return error.getCondition() if isinstance(error, PySparkException) else None


def is_missing(error: Exception) -> bool:
    """Return True if this error may mean that a file is missing.

    Spark raises the same error for a file that cannot be opened.
    """
    return condition(error) == "PATH_NOT_FOUND" or not _MISSING.isdisjoint(classes(error))


def is_denied(error: Exception) -> bool:
    """Return True if the error means that the job lacks permission for a path, which may exist."""
    return not is_missing(error) and not _NO_RIGHT.isdisjoint(classes(error))


def is_of_a_name(error: Exception) -> bool:
    """Return True if the error means that Hadoop cannot use a name. For example, some file systems
    refuse a colon.
    """
    return "java.net.URISyntaxException" in classes(error)


def is_of_no_file(error: Exception) -> bool:
    """Return True if the error means that the driver refused a format, schema or option before a
    file was read.
    """
    return isinstance(error, AnalysisException) and not is_missing(error)


def is_of_network(error: Exception) -> bool:
    """Return True if the cause of the error is the connection to a storage, or an answer of the
    storage.
    """
    return any(map(_NETWORK.fullmatch, classes(error))) and not is_missing(error)


def said(error: Exception) -> str:
    """Return the messages of Spark's error and of its first cause, in one line, for people."""
    texts = [str(each.getMessage() or "") for each in _chain(error)] or [str(error)]
    first = next((text for text in texts if _OF_A_FILE.match(text)), texts[0])
    told = _line(first, 300)
    return f"{told} Cause: {_line(texts[-1], 200)}" if texts[-1] != first else told


def _line(text: str, most: int) -> str:
    return shown(without_sql_state(text[:100_000].strip().partition("\n")[0]), most)


def _chain(error: Exception) -> list[Any]:
    found = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    chain: list[Any] = []
    while found is not None and len(chain) < _DEEPEST:
        chain.append(found)
        found = found.getCause()
    return chain


_AT_ONCE = 16

_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG})
"""Operating system errors that mean that nothing exists at a path."""

_DENIED = frozenset({errno.EACCES, errno.EPERM, errno.ELOOP})
"""Operating system errors that last until permissions or the path change. Other errors may be
temporary."""

_NO_RIGHT = frozenset(
    {"org.apache.hadoop.security.AccessControlException", "java.nio.file.AccessDeniedException"}
)

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")


def is_on_disk(spark: SparkSession, path: str) -> bool:
    """Return True if Spark reads this path from a disk of the driver's machine."""
    if found := _SCHEME.match(path):
        return found[1].lower() == "file"
    default = file_systems(spark).FileSystem.getDefaultUri(configuration(spark))
    return bool(default.getScheme() == "file")


def place_of_log(spark: SparkSession, log: str | None, checkpoint: str) -> LogPlace:
    """Return the folder of a file log. The default is a folder in the checkpoint, if the checkpoint
    is on a disk.

    Raises ValueError, and InvalidOption for a folder that a policy does not allow.
    """
    if log is not None:
        try:
            return log_place(log)
        except InvalidOption:
            raise
        except ValueError as error:
            raise ValueError(f"log={log!r} is not allowed; expected {error}") from None
    folder = checkpoint.removeprefix("file://").removeprefix("file:").rstrip("/")
    if not folder.startswith("/") or not is_on_disk(spark, checkpoint):
        raise ValueError(
            f"the checkpoint {checkpoint!r} is no absolute path on a disk of the driver (a path"
            " without 'file:' is one of Spark's default file system), so say where the log of the"
            " files is to be: log='blob:<container>/<folder>'"
        )
    place = log_place(f"file:{folder}/files")
    os.makedirs(folder, exist_ok=True)
    return place


def qualified(spark: SparkSession, path: str) -> str:
    """Return the path with a scheme and host. A missing scheme and host are taken from Spark's
    default file system.
    """
    if _SCHEME.match(path):
        return path
    default = str(file_systems(spark).FileSystem.getDefaultUri(configuration(spark)).toString())
    return default.rstrip("/") + path


def has_batches(spark: SparkSession, checkpoint: str) -> bool:
    """Return True if a checkpoint has the offsets of a batch.

    Raises py4j's error if the checkpoint is unreadable.
    """
    path = file_systems(spark).Path(checkpoint.rstrip("/") + "/offsets")
    system = path.getFileSystem(configuration(spark))
    if not system.exists(path):
        return False
    return any(status.getPath().getName().isdecimal() for status in system.listStatus(path))


def is_there(spark: SparkSession, root: str) -> bool:
    """Return True if a container exists. Does not list folders below the container's root.

    An empty container without a host counts as missing, because the folder of an unmounted
    container is empty. Raises py4j's error if it is unknown whether the container exists.
    """
    path = file_systems(spark).Path(root)
    system = path.getFileSystem(configuration(spark))
    if not system.exists(path):
        return False
    return bool(system.getUri().getAuthority() or system.listStatusIterator(path).hasNext())


def looks(spark: SparkSession, paths: Sequence[str]) -> list[Look]:
    """Return what exists at each of these paths, all on one file system. Opens no file.

    For a path on a disk, the operating system is asked, because Java reports every problem as a
    missing file.
    """
    if not paths:
        return []
    look = _look_on_disk if is_on_disk(spark, paths[0]) else _look_by_hadoop(spark, paths[0])
    with ThreadPoolExecutor(min(_AT_ONCE, len(paths))) as pool:
        return list(pool.map(look, paths))


def _look_on_disk(path: str) -> Look:
    try:
        found = os.stat(path_on(path))
    except OSError as error:
        denied = Look.DENIED if error.errno in _DENIED else Look.UNKNOWN
        return Look.GONE if error.errno in _ABSENT else denied
    return _look(stat.S_ISREG(found.st_mode), found.st_size)


def _look_by_hadoop(spark: SparkSession, path: str) -> Callable[[str], Look]:
    classes = file_systems(spark)
    try:
        system = classes.Path(path).getFileSystem(configuration(spark))
    except Exception as error:
        if not is_sparks(error):
            raise
        return lambda path: Look.UNKNOWN

    def look(path: str) -> Look:
        try:
            found = system.getFileStatus(classes.Path(path))
            return _look(found.isFile(), found.getLen())
        except Exception as error:
            if not is_sparks(error):
                raise
            if is_of_a_name(error):
                return Look.NO_NAME
            denied = Look.DENIED if is_denied(error) else Look.UNKNOWN
            return Look.GONE if is_missing(error) else denied

    return look


def _look(is_file: bool, size: int) -> Look:
    return Look.NO_FILE if not is_file else Look.FILE if size else Look.EMPTY


def file_systems(spark: SparkSession) -> Any:
    """Return Hadoop's file system classes in the driver. Raises RuntimeError without a driver."""
    gateway = spark.sparkContext._gateway
    if gateway is None:
        raise RuntimeError("this Spark session has no gateway to its driver")
    return gateway.jvm.org.apache.hadoop.fs


def configuration(spark: SparkSession) -> Any:
    """Return Hadoop's settings combined with the session's settings, such as account keys."""
    return spark._jsparkSession.sessionState().newHadoopConf()
