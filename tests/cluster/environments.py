"""A Python with Spark and what the package requires: with the package as a wheel, or without it."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

from standalone import clean_environment


def make_environment(folder: Path, with_spark: Path, wheel: Path | None) -> Path:
    """Make an environment with all that `with_spark` has but the package; return its Python.

    wheel: the package, which pip installs there.
    """
    venv.create(folder, with_pip=False, symlinks=True)
    packages = _packages(folder)
    for found in _packages(with_spark.parents[1]).iterdir():
        if "azqueue" not in found.name and not (packages / found.name).exists():
            (packages / found.name).symlink_to(found)
    python = folder / "bin" / "python"
    if wheel:
        quiet = ("--quiet", "--disable-pip-version-check")
        pip = [sys.executable, "-m", "pip", "--python", str(python), "install", *quiet]
        done = subprocess.run(
            [*pip, "--no-deps", str(wheel)],
            env=clean_environment(),
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    return python


def _packages(environment: Path) -> Path:
    (found,) = environment.glob(f"lib/python{sys.version_info[0]}.*/site-packages")
    return found
