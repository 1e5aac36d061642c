"""Which Python Spark starts for data sources, and whether it may be another one than this."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping

VARIABLES = ("PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON")
"""What names it, in this order (Spark's `PythonUtils.defaultPythonExec`)."""

UNNAMED = "python3"
"""What Spark takes from the path if no variable names one."""


def is_this_python(path: str) -> bool:
    """Whether a path is that of the Python that runs this, as far as the names of files say.

    A link in a virtual environment leads out of it: so the folder counts, too.
    """
    mine, other = sys.executable, os.path.abspath(path)
    same_folder = os.path.dirname(other) == os.path.dirname(mine)
    return other == mine or (same_folder and os.path.realpath(other) == os.path.realpath(mine))


def is_in_doubt(environment: Mapping[str, str], modules: Mapping[str, object]) -> bool:
    """Whether this is a driver whose Spark takes the `python3` of the path, and that is another.

    False in the processes that Spark starts, with a Spark elsewhere, and if a variable names one.
    """
    main = getattr(modules.get("__main__"), "__spec__", None)
    if "pyspark" not in modules or getattr(main, "name", "").startswith("pyspark."):
        return False
    if any(environment.get(name) for name in (*VARIABLES, "SPARK_REMOTE")) or not sys.executable:
        return False
    found = shutil.which(UNNAMED, path=environment.get("PATH"))
    return found is None or not is_this_python(found)
