"""Checks the Python of Spark's workers, in which Spark also looks for the format "azqueue"."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from typing import Any

from spark_azqueue.service.redaction import shown
from spark_azqueue.version import __version__

from .finding import Finding

VARIABLE = "PYSPARK_PYTHON"
_AT_MOST_S = 30

_LOOK = """
import importlib.metadata, importlib.util, json, platform, sys
def there(name):
    try:
        return importlib.util.find_spec(name) is not None
    except ImportError:
        return False
try:
    ours = importlib.metadata.version("spark-azqueue")
except importlib.metadata.PackageNotFoundError:
    ours = None
names = ["pyspark_azqueue", "pyarrow", "pycurl", "tenacity", "azure.core"]
missing = [name for name in names if not there(name)]
told = {"prefix": sys.prefix, "python": platform.python_version()}
print(json.dumps({**told, "ours": ours, "missing": missing}))
"""


def workers(local: bool = True) -> Finding | None:
    """Say whether that Python is of the same version as this one, and has the package.

    It is the one that PYSPARK_PYTHON names, else the `python3` on the path. local: False for a
    client of Spark Connect, whose workers are elsewhere. None if there is nothing to check.
    """
    if not local:
        return None
    named = os.environ.get(VARIABLE)
    what = f"the workers' Python: {named or 'python3'}"
    what += f" ({VARIABLE})" if named else f" ({VARIABLE} is not set)"
    advice = (
        f"before the session: os.environ['{VARIABLE}'] = sys.executable, or in the shell: export"
        f" {VARIABLE}={sys.executable}"
    )
    found = shutil.which(named or "python3")
    if found is None:
        return Finding(False, f"{what} does not exist here", advice)
    if found == sys.executable:
        return Finding(True, "the workers' Python: this one")
    seen = _look_into(found)
    if seen is None:
        return Finding(False, f"{what} does not run", advice)
    if seen.get("prefix") == sys.prefix:
        return Finding(True, "the workers' Python: this one")
    theirs, here = str(seen.get("python")), platform.python_version()
    if theirs.split(".")[:2] != here.split(".")[:2]:
        text = f"{what} is {theirs}, and this one {here}: Spark refuses another minor version"
        return Finding(False, text, advice)
    if missing := seen.get("missing"):
        text = f'{what} has no {shown(str(missing[0]), 40)}: Spark finds no format "azqueue" there'
        return Finding(False, text, f"pip install spark-azqueue there, or {advice}")
    if seen.get("ours") not in (None, __version__):  # None: it was copied there
        text = f"{what} has spark-azqueue {seen['ours']}, and this one {__version__}"
        return Finding(False, text, f"install the same version there, or {advice}")
    return Finding(True, what)


def _look_into(python: str) -> dict[str, Any] | None:
    """What this Python says of itself, None if it does not run."""
    try:
        said = subprocess.run(  # noqa: S603 (the Python that Spark itself would start)
            [python, "-c", _LOOK], capture_output=True, text=True, timeout=_AT_MOST_S, check=True
        ).stdout
        seen = json.loads(said)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return seen if isinstance(seen, dict) else None
