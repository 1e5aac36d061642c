"""Finds out whether Spark may start another Python for data sources than the Python that runs this
code."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping

VARIABLES = ("PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON")
"""Environment variables that name the Python that Spark starts, in the order in which Spark reads
them (`PythonUtils.defaultPythonExec`).
"""

UNNAMED = "python3"
"""Program on the PATH that Spark starts if no variable is set."""


def is_this_python(path: str) -> bool:
    """Return True if a path is the Python that runs this code. Compares file names only.

    The path's folder must also be the same: links are not followed, because a link in a virtual
    environment leads out of it.
    """
    mine, other = sys.executable, os.path.abspath(path)
    same_folder = os.path.dirname(other) == os.path.dirname(mine)
    return other == mine or (same_folder and os.path.realpath(other) == os.path.realpath(mine))


def is_in_doubt(environment: Mapping[str, str], modules: Mapping[str, object]) -> bool:
    """Return True if this is a driver, and Spark starts the `python3` on the PATH, which is a
    different Python.

    Returns False in processes that Spark started, if Spark runs on another machine, and if a
    variable names the Python.
    """
    main = getattr(modules.get("__main__"), "__spec__", None)
    if "pyspark" not in modules or getattr(main, "name", "").startswith("pyspark."):
        return False
    if any(environment.get(name) for name in (*VARIABLES, "SPARK_REMOTE")) or not sys.executable:
        return False
    found = shutil.which(UNNAMED, path=environment.get("PATH"))
    return found is None or not is_this_python(found)
