"""What is installed here: Python, Spark, Java, libraries; and whether Spark finds us.

Nothing is started but `java -version`.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import pkgutil
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator

from spark_azqueue.version import __version__

from .finding import Finding

OLDEST_JAVA = 17
_PACKAGE = "spark-azqueue"
_JAVA_AT_MOST_S = 30


def surroundings() -> Iterator[Finding]:
    """Look at everything that does not need a queue. Raises nothing."""
    yield Finding(True, f"{_PACKAGE} {__version__}")
    yield Finding(True, f"Python {platform.python_version()} ({sys.executable})")
    yield spark()
    yield java()
    yield libraries()
    yield discovery()


def spark() -> Finding:
    """Which Spark this Python has."""
    for package in ("pyspark", "pyspark-client"):
        version = _version(package)
        if version:
            break
    else:
        version, package = _imported_version("pyspark"), "pyspark"
    if not version:
        advice = "pip install 'spark-azqueue[spark]', or run this with the Python that Spark runs"
        return Finding(False, "Spark: this Python has no pyspark", advice)
    line = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    text = f"Spark {version} ({package})"
    if line < (4, 0):
        return Finding(False, text, "Spark 4.0 or newer is needed for Python data sources")
    if line < (4, 2):
        advice = "before 4.2 an availableNow run is one batch of maxMessagesPerTrigger messages"
        return Finding(None, text, advice)
    return Finding(True, text)


def java() -> Finding:
    """Which Java a local Spark would start: that of JAVA_HOME, else the first on the path."""
    advice = f"get Java {OLDEST_JAVA} or newer (https://adoptium.net), or set JAVA_HOME"
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=os.path.join(home, "bin") if home else None)
    if not found:
        where = f"in JAVA_HOME ({home})" if home else "on the path"
        return Finding(False, f"Java: none {where}", advice)
    try:
        said = subprocess.run(  # noqa: S603 (the user's own java)
            [found, "-version"], capture_output=True, text=True, timeout=_JAVA_AT_MOST_S
        ).stderr
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding(False, f"Java: {found} does not run ({type(error).__name__})", advice)
    version = re.search(r'version "((\d+)[^"]*)"', said)
    if not version:
        return Finding(False, f"Java: {found} does not tell its version", advice)
    return Finding(int(version[2]) >= OLDEST_JAVA, f"Java {version[1]} ({found})", advice)


def libraries() -> Finding:
    """The versions of what this package requires, by its own metadata."""
    try:
        required = importlib.metadata.requires(_PACKAGE) or []
    except importlib.metadata.PackageNotFoundError:
        advice = "it was copied rather than installed: pip install it, so that Spark finds it"
        return Finding(None, f"{_PACKAGE} is no installed package", advice)
    names = [re.split(r"[^A-Za-z0-9_.-]", text)[0] for text in required if "extra ==" not in text]
    versions = {name: _version(name) for name in names}
    text = ", ".join(f"{name} {version or 'MISSING'}" for name, version in versions.items())
    if not all(versions.values()):
        return Finding(False, text, f"pip install --upgrade {_PACKAGE}")
    return Finding(True, text)


def discovery() -> Finding:
    """Whether Spark's own search for `pyspark_*` modules finds `format("azqueue")`."""
    text = 'format("azqueue")'
    for module in pkgutil.iter_modules():
        if not module.name.startswith("pyspark_"):
            continue
        try:
            importlib.import_module(module.name)
        except Exception as error:  # noqa: BLE001 (somebody else's module)
            return Finding(
                False,
                f"{text} is not found: the module {module.name} raises {type(error).__name__}"
                " when it is imported, at which Spark gives up its whole search",
                f"mend or uninstall {module.name}; or call"
                " spark.dataSource.register(spark_azqueue.AzQueueDataSource)",
            )
    ours = sys.modules.get("pyspark_azqueue")
    if ours is None:
        advice = "the module pyspark_azqueue is missing from the path: install the package anew"
        return Finding(False, f"{text} is not found", advice)
    if not hasattr(ours, "DefaultSource"):
        return Finding(False, f"{text} is not found: it needs what is missing above")
    return Finding(True, f"{text} is found by Spark")


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _imported_version(module: str) -> str | None:
    """Where Spark is a folder on the path (SPARK_HOME, Databricks), it is no installed package."""
    try:
        return str(importlib.import_module(module).__version__)
    except (ImportError, AttributeError):
        return None
