"""The Python that Spark starts for data sources, and whether it may differ from this Python."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping

VARIABLES = ("PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON")
"""Variables that name this Python, in this order (Spark's `PythonUtils.defaultPythonExec`)."""

UNNAMED = "python3"
"""The program that Spark starts from the path if no variable is set."""


def is_this_python(path: str) -> bool:
    """Return whether a path is the Python that runs this code, judging by file names.

    A link in a virtual environment leads out of the environment, so the folder has to be the same,
    too.
    """
    mine, other = sys.executable, os.path.abspath(path)
    same_folder = os.path.dirname(other) == os.path.dirname(mine)
    return other == mine or (same_folder and os.path.realpath(other) == os.path.realpath(mine))


def is_in_doubt(environment: Mapping[str, str], modules: Mapping[str, object]) -> bool:
    """Return whether this is a driver whose Spark starts another Python, the `python3` on the path.

    False in processes that Spark started, with a Spark elsewhere, and if a variable names the
    Python.
    """
    main = getattr(modules.get("__main__"), "__spec__", None)
    if "pyspark" not in modules or getattr(main, "name", "").startswith("pyspark."):
        return False
    if any(environment.get(name) for name in (*VARIABLES, "SPARK_REMOTE")) or not sys.executable:
        return False
    found = shutil.which(UNNAMED, path=environment.get("PATH"))
    return found is None or not is_this_python(found)
