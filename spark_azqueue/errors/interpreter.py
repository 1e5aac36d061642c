"""Finds out whether the Python that Spark starts for data sources may differ from this Python."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping

VARIABLES = ("PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON")
"""Environment variables with the Python that Spark starts, in the order in which Spark reads them
(`PythonUtils.defaultPythonExec`).
"""

UNNAMED = "python3"
"""Name of the program that Spark starts from the PATH if no variable is set."""


def is_this_python(path: str) -> bool:
    """Return True if a path is the Python that runs this code. Compares file names only.

    The folder also has to be the same, because a link in a virtual environment leads out of the
    environment.
    """
    mine, other = sys.executable, os.path.abspath(path)
    same_folder = os.path.dirname(other) == os.path.dirname(mine)
    return other == mine or (same_folder and os.path.realpath(other) == os.path.realpath(mine))


def is_in_doubt(environment: Mapping[str, str], modules: Mapping[str, object]) -> bool:
    """Return True if this is a driver whose Spark starts a different Python, the `python3` on the
    PATH.

    False in processes that Spark started, if Spark runs on another machine, and if a variable names
    the Python.
    """
    main = getattr(modules.get("__main__"), "__spec__", None)
    if "pyspark" not in modules or getattr(main, "name", "").startswith("pyspark."):
        return False
    if any(environment.get(name) for name in (*VARIABLES, "SPARK_REMOTE")) or not sys.executable:
        return False
    found = shutil.which(UNNAMED, path=environment.get("PATH"))
    return found is None or not is_this_python(found)
