"""Prints the structure of the package: rooms, floors, arrows and lines, as the imports are.

    python tools/structure.py [PACKAGE …]      (`make structure`)

A room is a module or a package directly below the one that is named. An arrow leads from a room to
one that it imports from. The floor of a room is one above the highest that it imports from. To
compare with an older commit: `git worktree add ../older COMMIT`, and `--root ../older`. Behind the
table stand the counts that a larger change is judged by.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp

DEFAULT = ("spark_azqueue", "spark_azqueue.source", "spark_azqueue.source.log")


def main() -> int:
    """Print a table. Returns 1 if rooms import each other in a circle."""
    given = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    given.add_argument("--root", type=Path, default=Path(__file__).parents[1])
    given.add_argument("packages", nargs="*", default=DEFAULT, metavar="PACKAGE")
    asked = given.parse_args()
    sys.path.insert(0, str(asked.root))
    os.chdir(asked.root)
    graph = grimp.build_graph("spark_azqueue", cache_dir=None)
    circles = 0
    print("| package | rooms | floors | arrows | circles | files | lines | mean | above 300 |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    for package in asked.packages:
        arrows = arrows_of(graph, package)
        floors = floors_of(arrows)
        circles += floors is None
        sizes = sizes_of(asked.root / package.replace(".", "/"))
        print(
            f"| {package} | {len(arrows)} | {floors or '-'} | {sum(map(len, arrows.values()))}"
            f" | {'yes' if floors is None else 0} | {len(sizes)} | {sum(sizes):,}"
            f" | {sum(sizes) // len(sizes)} | {sum(size > 300 for size in sizes)} |"
        )
    print("\n| countable | now |\n|---|---:|")
    for what, count in counts_of(graph, asked.root):
        print(f"| {what} | {count:,} |")
    return 1 if circles else 0


CORE = ("datasource", "options", "service", "journal", "source", "sink", "errors")
COMPANIONS = ("rows", "files", "running", "commands", "testing")


def counts_of(graph: grimp.ImportGraph, root: Path) -> Iterator[tuple[str, int]]:
    """What a larger change is to make smaller."""
    listed = ["git", "ls-files"]
    tracked = subprocess.run(listed, cwd=root, capture_output=True, text=True, check=True).stdout
    paths = [path.split("/") for path in tracked.splitlines()]
    package = root / "spark_azqueue"
    within = [path[1:] for path in paths if path[0] == "spark_azqueue"]
    yield "files and folders of the package", len({path[0] for path in within})
    yield "the same at the top, without hidden ones", len({p[0] for p in paths if p[0][0] != "."})
    yield (
        "public classes in source/ and journal/",
        _found(r"^class [A-Z]", package / "source", package / "journal"),
    )
    yield "files that resolve a bare call", _files(r"import .*\bBareCalls\b", package)
    yield "reaches through a part of the driver", _found(r"engine\.\w+\.\w+", package)
    yield "options", _found(r"^### `", root / "docs" / "options.md")
    yield "files of the package that name the command redrive", _files(r'"redrive"', package)
    arrows = arrows_of(graph, "spark_azqueue")
    core = [f"spark_azqueue.{room}" for room in CORE]
    yield (
        "arrows from the core into a companion",
        sum(
            f"spark_azqueue.{room}" in arrows.get(each, ()) for each in core for room in COMPANIONS
        ),
    )
    yield "lines of the package", _found(r"^", package)
    yield "lines of the tests", _found(r"^", root / "tests")


def _texts(*places: Path) -> Iterator[str]:
    for place in places:
        for path in [place] if place.is_file() else sorted(place.rglob("*.py")):
            yield path.read_text(encoding="utf-8")


def _found(pattern: str, *places: Path) -> int:
    return sum(len(re.findall(pattern, text, re.MULTILINE)) for text in _texts(*places))


def _files(pattern: str, *places: Path) -> int:
    return sum(bool(re.search(pattern, text)) for text in _texts(*places))


def arrows_of(graph: grimp.ImportGraph, package: str) -> dict[str, set[str]]:
    """From each room to those that it imports from."""
    arrows: dict[str, set[str]] = {room: set() for room in graph.find_children(package)}
    for room in arrows:
        within = {room, *graph.find_descendants(room)}
        imported = set().union(*(graph.find_modules_directly_imported_by(each) for each in within))
        arrows[room] = {
            other
            for other in arrows
            if other != room and any(f"{each}.".startswith(f"{other}.") for each in imported)
        }
    return arrows


def floors_of(arrows: dict[str, set[str]]) -> int | None:
    """How many floors there are; None if there is a circle."""
    floor: dict[str, int] = {}
    try:
        for room in TopologicalSorter(arrows).static_order():
            floor[room] = 1 + max((floor[other] for other in arrows[room]), default=0)
    except CycleError:
        return None
    return max(floor.values(), default=0)


def sizes_of(folder: Path) -> list[int]:
    """The lines of each file that has more than a docstring's line."""
    counts = [len(path.read_text().splitlines()) for path in folder.rglob("*.py")]
    return [count for count in counts if count > 1]


if __name__ == "__main__":
    sys.exit(main())
