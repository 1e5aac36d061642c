"""Checks the installation: Python, Spark, Java, libraries, and whether Spark finds this package.

The checks start no program except `java -version` and the Python of Spark's workers.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.metadata
import importlib.util
import json
import logging
import os
import pkgutil
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from spark_azqueue.errors import InvalidOption
from spark_azqueue.errors.interpreter import UNNAMED, VARIABLES, is_this_python
from spark_azqueue.service.policy import MODULE, VARIABLE, policies
from spark_azqueue.service.redaction import shown
from spark_azqueue.version import __version__

from .finding import Finding

OLDEST_JAVA = 17
_PACKAGE = "spark-azqueue"
_AT_MOST_S = 30

log = logging.getLogger(__name__)


def surroundings() -> Iterator[Finding]:
    """Yield the findings of all checks that need no queue. Never raises."""
    yield Finding(True, f"{_PACKAGE} {__version__}")
    yield Finding(True, f"Python {platform.python_version()} ({sys.executable})")
    platforms = list(hosted())
    yield from platforms
    yield spark()
    if _has_workers():
        found = workers()
        noted = platforms and not found.good
        yield dataclasses.replace(found, good=None, advice=_CHOSEN) if noted else found
    yield java()
    yield libraries()
    yield extras()
    yield discovery()
    yield from policy()


def hosted() -> Iterator[Finding]:
    """Yield a finding with the name of the platform and its docs page, if the platform is known."""
    if runtime := os.environ.get("DATABRICKS_RUNTIME_VERSION"):
        text = f"Databricks Runtime {shown(runtime, 40)}"
        yield Finding(None, text, _ON_A_PLATFORM.format(page="docs/databricks.md"))
    if _is_there("notebookutils"):
        text = "Microsoft Fabric: this process has notebookutils, which credential=fabric asks"
        yield Finding(None, text, _ON_A_PLATFORM.format(page="docs/fabric.md"))


_ON_A_PLATFORM = (
    "the source runs in another process, which may see other modules and variables than this one;"
    " put logs into blob:<container>/<folder>; run `python -m spark_azqueue certify` first: {page}"
)

_CHOSEN = (
    "the platform chooses the Python of the workers, and may do so elsewhere: a peek, such as"
    ' spark.read.format("azqueue"), shows whether Spark finds the format there'
)


def _is_there(module: str) -> bool:
    """Return True if this Python has a module. Does not import the module."""
    try:
        return importlib.util.find_spec(module) is not None
    except ValueError:  # the module is already imported, but its origin is unknown
        return True


def policy() -> Iterator[Finding]:
    """Yield findings about the administrator's policies.

    These policies apply to this process; processes that Spark starts may have other environment
    variables.
    """
    try:
        found = policies(os.environ)
    except InvalidOption as error:
        yield Finding(False, str(error), "correct the policy: docs/permissions.md, Policy")
        return
    for each in found:
        yield Finding(True, each.in_words())
    if not found:
        yield Finding(None, f"no policy: neither {VARIABLE} nor an installed module {MODULE}")


def spark() -> Finding:
    """Check the version of the Spark that this Python imports."""
    for package in ("pyspark", "pyspark-client"):
        version = _version(package)
        if version:
            break
    else:
        version, package = _imported_version("pyspark"), "pyspark"
    if not version:
        advice = "pip install 'pyspark[sql]>=4.0', or run this with the Python that Spark runs"
        return Finding(False, "Spark: this Python has no pyspark", advice)
    line = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    text = f"Spark {version} ({package})"
    if line < (4, 0):
        return Finding(False, text, "Spark 4.0 or newer is needed for Python data sources")
    if line < (4, 2):
        advice = "before 4.2 an availableNow run is one batch of maxMessagesPerTrigger messages"
        return Finding(None, text, advice)
    return Finding(True, text)


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
found = {"prefix": sys.prefix, "python": platform.python_version()}
print(json.dumps({**found, "ours": ours, "missing": missing}))
"""


def warn_of_another_python() -> None:
    """Log a warning if the Python that Spark starts does not have the format "azqueue".

    Called on a driver if `interpreter.is_in_doubt` returns True. Logs nothing if a platform chooses
    the Python.
    """
    if _has_workers() and not any(hosted()) and (found := workers()).good is False:
        log.warning("%s; %s", found.text, found.advice)


def _has_workers() -> bool:
    """Return True if Spark starts Python workers on this machine, not on the machine of a Connect
    server.
    """
    return bool(_version("pyspark")) or not _version("pyspark-client")


def workers() -> Finding:
    """Check the Python of Spark's workers. Spark looks for the format "azqueue" in this Python."""
    variable = next((name for name in VARIABLES if os.environ.get(name)), VARIABLES[-1])
    named = os.environ.get(variable)
    what = f"the workers' Python: {named or UNNAMED}"
    what += f" ({variable})" if named else f" ({variable} is not set)"
    advice = (
        f"before the session: os.environ['{variable}'] = sys.executable, or in the shell: export"
        f" {variable}={sys.executable}"
    )
    found = shutil.which(named or UNNAMED)
    if found is None:
        return Finding(False, f"{what} does not exist here", advice)
    if is_this_python(found):
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
        return Finding(False, text, f"install {_PACKAGE} there, or {advice}")
    if seen.get("ours") not in (None, __version__):  # None if the package was copied there
        text = f"{what} has spark-azqueue {seen['ours']}, and this one {__version__}"
        return Finding(False, text, f"install the same version there, or {advice}")
    return Finding(True, what)


def _look_into(python: str) -> dict[str, Any] | None:
    """Run this Python. Return its report about itself; None if it cannot be run."""
    try:
        said = subprocess.run(  # noqa: S603 (the Python that Spark itself would start)
            [python, "-c", _LOOK], capture_output=True, text=True, timeout=_AT_MOST_S, check=True
        ).stdout
        seen = json.loads(said)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return seen if isinstance(seen, dict) else None


def java() -> Finding:
    """Check the Java that a local Spark would start: the Java in JAVA_HOME or, if it is not set,
    the first Java on the path.
    """
    advice = f"get Java {OLDEST_JAVA} or newer (https://adoptium.net), or set JAVA_HOME"
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=os.path.join(home, "bin") if home else None)
    if not found:
        where = f"in JAVA_HOME ({home})" if home else "on the path"
        return Finding(False, f"Java: none {where}", advice)
    try:
        said = subprocess.run(  # noqa: S603 (the user's own java)
            [found, "-version"], capture_output=True, text=True, timeout=_AT_MOST_S
        ).stderr
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding(False, f"Java: {found} does not run ({type(error).__name__})", advice)
    version = re.search(r'version "((\d+)(?:[^\d"][^"]*)?)"', said)
    if not version:
        return Finding(False, f"Java: could not determine the version of {found}", advice)
    return Finding(int(version[2]) >= OLDEST_JAVA, f"Java {version[1]} ({found})", advice)


def libraries() -> Finding:
    """Check the packages that this package's metadata requires."""
    required = _required()
    if required is None:
        advice = "it was copied rather than installed: pip install it, so that Spark finds it"
        return Finding(None, f"{_PACKAGE} is not an installed package", advice)
    names = [_name_in(text) for text in required if "extra ==" not in text]
    versions = {name: _version(name) for name in names}
    text = ", ".join(f"{name} {version or 'MISSING'}" for name, version in versions.items())
    if missing := [name for name, version in versions.items() if not version]:
        return Finding(False, text, f"pip install {' '.join(missing)}")
    return Finding(True, text)


_EXTRAS = {
    "prometheus": "spark_azqueue.metrics.prometheus",
    "opentelemetry": "spark_azqueue.metrics.opentelemetry",
}
"""The extras that users can install, each with the module that needs it."""


def extras() -> Finding:
    """List the installed extras. A missing extra affects only the module that needs it."""
    required = _required() or []
    found: list[str] = []
    missing: dict[str, str] = {}
    for extra in _EXTRAS:
        named = [text for text in required if re.search(rf"extra == ['\"]{extra}['\"]", text)]
        versions = {name: _version(name) for name in map(_name_in, named)}
        if versions and all(versions.values()):
            packages = ", ".join(f"{name} {version}" for name, version in versions.items())
            found.append(f"{extra} ({packages})")
        else:
            missing[extra] = " ".join(map(_name_in, named)) or f"what the extra {extra} names"
    text = f"extras: {', '.join(found) or 'none'}"
    if not missing:
        return Finding(True, text)
    needs = "\n".join(
        f"{_EXTRAS[extra]}: pip install {packages}, on the driver and on the executors"
        for extra, packages in missing.items()
    )
    return Finding(None, f"{text}; not installed: {', '.join(missing)}", needs)


def _required() -> list[str] | None:
    """Return the requirements in the package's metadata, or None if there is no metadata."""
    try:
        return importlib.metadata.requires(_PACKAGE) or []
    except importlib.metadata.PackageNotFoundError:
        return None


def _name_in(requirement: str) -> str:
    """Return the package's name in a requirement such as "certifi>=2024; extra == 'prometheus'"."""
    return re.split(r"[^A-Za-z0-9_.-]", requirement)[0]


def discovery() -> Finding:
    """Check whether Spark finds `format("azqueue")` when it searches for modules named
    `pyspark_*`."""
    text = 'format("azqueue")'
    for module in pkgutil.iter_modules():
        if not module.name.startswith("pyspark_"):
            continue
        try:
            importlib.import_module(module.name)
        except Exception as error:  # noqa: BLE001 (another package's module)
            return Finding(
                False,
                f"{text} is not found: the module {module.name} raises {type(error).__name__}"
                " when it is imported, and Spark then gives up its whole search",
                f"fix or uninstall {module.name}; or call"
                " spark.dataSource.register(spark_azqueue.AzQueueDataSource)",
            )
    ours = sys.modules.get("pyspark_azqueue")
    if ours is None:
        advice = "the module pyspark_azqueue is missing from the path: install the package again"
        return Finding(False, f"{text} is not found", advice)
    if not hasattr(ours, "DefaultSource"):
        advice = "install what is missing above, with the Python that Spark runs"
        return Finding(False, f"{text} is not found: it needs the packages missing above", advice)
    return Finding(True, f"{text} is found by Spark")


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _imported_version(module: str) -> str | None:
    """Return the version of a module that is on the path, but was not installed by pip (SPARK_HOME,
    Databricks).
    """
    try:
        return str(importlib.import_module(module).__version__)
    except (ImportError, AttributeError):
        return None
