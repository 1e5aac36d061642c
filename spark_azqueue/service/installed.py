"""Which modules are installed here, and which ones a query may have brought along.

Spark puts the files of `ADD FILE`, of `addArtifact` and of `--py-files` before the installed
packages on the path of its Python processes, and these look into the working folder as well.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import site
import sys
import sysconfig
from collections.abc import Iterator
from importlib.machinery import PathFinder
from typing import Any


def trusted_path() -> list[str]:
    """`sys.path` without the working folder and the files of Spark."""
    installed = _installed_folders()
    return [entry for entry in sys.path if entry and is_trusted(entry, installed)]


def untrusted_file_of(module: str) -> str | None:
    """Import a module's parents, and return its file if that must not be run; else None.

    module: "package.module". A parent is imported only if its own file may be run. Raises what
    the import of a parent raises.
    """
    installed = _installed_folders()
    parts = module.split(".")
    for count in range(1, len(parts) + 1):
        name = ".".join(parts[:count])
        if name in sys.modules and getattr(sys.modules[name], "__spec__", None) is None:
            continue  # it runs already, and nothing says from where
        spec = importlib.util.find_spec(name)
        if spec is None:
            return None  # there is no such module: the import says so
        if count == 1 and PathFinder.find_spec(parts[0]) is None:
            return None  # an editable install by an import hook, which no file brings along
        if spec.has_location and spec.origin and not is_trusted(spec.origin, installed):
            return spec.origin
    return None


def is_trusted(path: str, installed: list[str] | None = None) -> bool:
    """True unless it is a file of Spark or of the working folder, or reached through one of these.

    installed: what `_installed_folders` returns. A folder above the working folder does not make
    it an installed one.
    """
    if _is_in(path, _spark_files()):
        return False
    try:
        here = os.path.realpath(os.getcwd())
    except OSError:  # it was deleted, so nothing is in it
        return True
    if not _is_in(path, [here]):
        return True
    folders = _installed_folders() if installed is None else installed
    folders = [folder for folder in folders if _is_below(folder, here)]
    written = os.path.abspath(path)
    return _is_in(path, folders) or any(_is_below(written, folder) for folder in folders)


def _is_in(path: str, folders: list[str]) -> bool:
    """True if a path, as it is written, leads into one of these folders, or through it.

    So a link in a folder is in it, wherever it points to.
    """
    written = path if os.path.isabs(path) else os.path.join(os.getcwd(), path)
    while True:
        real = os.path.realpath(written)
        if any(_is_below(real, folder) for folder in folders):
            return True
        above = os.path.dirname(written)
        if above == written:
            return False
        written = above


def _installed_folders() -> list[str]:
    """Folders of packages, and what PYTHONPATH and `.pth` files name: an operator set those."""
    folders = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    folders |= {*site.getsitepackages(), site.getusersitepackages()}
    named = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    linked = [entry for folder in folders for entry in _linked(folder)]
    found = (*folders, *named, *linked)
    return [
        each for folder in found for each in (os.path.realpath(folder), os.path.abspath(folder))
    ]


def _linked(folder: str) -> Iterator[str]:
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".pth"))
    except OSError:
        return
    for name in names:
        try:
            with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as lines:
                for line in lines:
                    entry = line.strip()
                    if entry and not entry.startswith(("#", "import ", "import\t")):
                        yield os.path.join(folder, entry)
        except OSError:
            continue


def _spark_files() -> list[str]:
    """The folder into which this process's Spark puts files of queries, if there is one."""
    module = sys.modules.get("pyspark.core.files") or sys.modules.get("pyspark.files")
    files: Any = getattr(module, "SparkFiles", None)
    root = getattr(files, "_root_directory", None)
    if not root and getattr(files, "_sc", None) is not None:  # the process of the driver itself
        with contextlib.suppress(Exception):  # it has ended, and its files are deleted
            root = files.getRootDirectory()
    return [os.path.realpath(root)] if isinstance(root, str) and root else []


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)
