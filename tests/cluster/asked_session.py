"""The session of the scripts that run on the cluster."""

from __future__ import annotations

import json
import os

from pyspark.sql import SparkSession


def session() -> SparkSession:
    """Return a session on the master in MASTER, with Spark's settings in CONF (JSON)."""
    builder = SparkSession.builder.master(os.environ["MASTER"])
    for name, value in json.loads(os.environ["CONF"]).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
