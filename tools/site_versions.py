"""Put a built site beside those of other versions: one folder each, and what leads to the newest.

    python tools/site_versions.py site versions 0.2.0

`versions` then has `0.2.0/`, `latest/` (a copy of the newest release), `versions.json`, which the
site reads to offer the others (the layout is that of mike), and `index.html`, which leads to
`latest/`.
A version that is there already is replaced; `dev` stands for what is not released.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
from pathlib import Path

DEV, LATEST = "dev", "latest"
_RELEASE = re.compile(r"(\d+)\.(\d+)\.(\d+)(?:(a|b|rc)(\d+))?")
_INDEX = f"""<!doctype html>
<meta charset="utf-8">
<title>spark-azqueue</title>
<meta http-equiv="refresh" content="0; url={LATEST}/">
<a href="{LATEST}/">The newest version</a>
"""


def order(version: str) -> tuple[int, int, int, str, int]:
    """What sorts versions from the oldest to the newest; `dev` is the oldest.

    A release sorts behind its candidates. Raises ValueError for anything else.
    """
    if version == DEV:
        return (-1, 0, 0, "", 0)
    found = _RELEASE.fullmatch(version)
    if not found:
        raise ValueError(f"{version!r} is neither a version such as 0.2.0 nor {DEV!r}")
    major, minor, patch, kind, number = found.groups()
    return (int(major), int(minor), int(patch), kind or "z", int(number or 0))


def newest(versions: list[str]) -> str:
    """The newest release; without one the newest candidate, else `dev`."""
    releases = [each for each in versions if order(each)[3] == "z"]
    return max(releases or versions, key=order)


def listed(versions: list[str]) -> list[dict[str, object]]:
    """What versions.json holds, the newest first."""
    latest = newest(versions)
    return [
        {"version": each, "title": each, "aliases": [LATEST] if each == latest else []}
        for each in sorted(versions, key=order, reverse=True)
    ]


def add(site: Path, folder: Path, version: str) -> None:
    """Add the site as this version. Raises ValueError (version), FileNotFoundError (no site)."""
    order(version)
    if not (site / "index.html").is_file():
        raise FileNotFoundError(f"{site} holds no site: run make docs-site")
    _replace(site, folder / version)
    there = [each.name for each in folder.iterdir() if (each / "index.html").is_file()]
    versions = [name for name in there if name != LATEST]
    _replace(folder / newest(versions), folder / LATEST)
    told = json.dumps(listed(versions), indent=1) + "\n"
    (folder / "versions.json").write_text(told, encoding="utf-8")
    (folder / "index.html").write_text(_INDEX, encoding="utf-8")
    (folder / ".nojekyll").touch()


def _replace(source: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)


def main() -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(description="Put a built site beside other versions.")
    parser.add_argument("site", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("version")
    given = parser.parse_args()
    try:
        add(given.site, given.folder, given.version)
    except (ValueError, FileNotFoundError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
