"""What Hadoop's classes in the driver say of a place, which no reader of Spark's says."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from spark_azqueue.errors import InvalidOption
from spark_azqueue.options.log import LogPlace, log_place

from .causes import is_missing, is_of_a_name, is_sparks
from .decide import Look
from .rules import path_on

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_AT_ONCE = 16

_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG})
"""Errors that say that nothing has this path; all others say nothing of it."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")


def is_on_disk(spark: SparkSession, path: str) -> bool:
    """Whether Spark takes this path for one on a disk of the driver's machine."""
    if found := _SCHEME.match(path):
        return found[1].lower() == "file"
    default = _hadoop(spark).FileSystem.getDefaultUri(_configuration(spark))
    return bool(default.getScheme() == "file")


def place_of_log(spark: SparkSession, log: str | None, checkpoint: str) -> LogPlace:
    """Where a file log is: as the user says, or beside the checkpoint if that is on a disk.

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
    """A path with the scheme and host of Spark's default file system, if it has none."""
    if _SCHEME.match(path):
        return path
    default = str(_hadoop(spark).FileSystem.getDefaultUri(_configuration(spark)).toString())
    return default.rstrip("/") + path


def has_batches(spark: SparkSession, checkpoint: str) -> bool:
    """Whether a checkpoint has offsets of a batch. Raises py4j's error if it cannot be read."""
    path = _hadoop(spark).Path(checkpoint.rstrip("/") + "/offsets")
    system = path.getFileSystem(_configuration(spark))
    if not system.exists(path):
        return False
    return any(status.getPath().getName().isdecimal() for status in system.listStatus(path))


def is_there(spark: SparkSession, root: str) -> bool:
    """Whether a container is there. Lists no folder below it.

    An empty one without a host is not: where nothing is mounted, there is an empty folder. Raises
    py4j's error if that cannot be found out.
    """
    path = _hadoop(spark).Path(root)
    system = path.getFileSystem(_configuration(spark))
    if not system.exists(path):
        return False
    return bool(system.getUri().getAuthority() or system.listStatusIterator(path).hasNext())


def looks(spark: SparkSession, paths: Sequence[str]) -> list[Look]:
    """What is at each of these paths, all on one file system. Opens no file.

    On a disk the operating system is asked: Java takes every trouble for a file that is not there.
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
        return Look.GONE if error.errno in _ABSENT else Look.UNKNOWN
    return _look(stat.S_ISREG(found.st_mode), found.st_size)


def _look_by_hadoop(spark: SparkSession, path: str) -> Callable[[str], Look]:
    classes = _hadoop(spark)
    try:
        system = classes.Path(path).getFileSystem(_configuration(spark))
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
            return Look.GONE if is_missing(error) else Look.UNKNOWN

    return look


def _look(is_file: bool, size: int) -> Look:
    return Look.NO_FILE if not is_file else Look.FILE if size else Look.EMPTY


def _hadoop(spark: SparkSession) -> Any:
    gateway = spark.sparkContext._gateway
    if gateway is None:
        raise RuntimeError("this Spark session has no gateway to its driver")
    return gateway.jvm.org.apache.hadoop.fs


def _configuration(spark: SparkSession) -> Any:
    """With the settings of the session, such as the keys of accounts."""
    return spark._jsparkSession.sessionState().newHadoopConf()
