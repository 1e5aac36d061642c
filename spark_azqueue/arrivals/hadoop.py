"""What Hadoop's classes in the driver say of a place, which no reader of Spark's says."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")


def is_on_disk(spark: SparkSession, path: str) -> bool:
    """Whether Spark takes this path for one on a disk of the driver's machine."""
    if found := _SCHEME.match(path):
        return found[1].lower() == "file"
    default = _hadoop(spark).FileSystem.getDefaultUri(_configuration(spark))
    return bool(default.getScheme() == "file")


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


def _hadoop(spark: SparkSession) -> Any:
    gateway = spark.sparkContext._gateway
    if gateway is None:
        raise RuntimeError("this Spark session has no gateway to its driver")
    return gateway.jvm.org.apache.hadoop.fs


def _configuration(spark: SparkSession) -> Any:
    """With the settings of the session, such as the keys of accounts."""
    return spark._jsparkSession.sessionState().newHadoopConf()
