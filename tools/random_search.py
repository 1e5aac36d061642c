"""Try examples that nobody tried before, for a time, and say how to repeat what they find.

    python tools/random_search.py --seconds 240

Each file of tests/unit and tests/property that uses Hypothesis runs with a seed of its own, in
random order, again and again. After `--seconds` no file is started any more. (Everywhere else
Hypothesis takes the same examples each time, so that a failure means a change.)

Exit status: 0 if nothing was found, else 1.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
FOLDERS = ("tests/unit", "tests/property")
VARIABLES = {"AZQUEUE_SEARCH": "1", "AZQUEUE_EXAMPLES": "20"}
MOST_S = 300.0
"""A file ends in a minute, unless it makes what it has found shorter, which may take long."""
NO_TESTS_CHOSEN = 5
"""pytest's status for a file in which every test is marked `long`."""


def files(root: Path = REPOSITORY) -> list[str]:
    """The files of tests that take examples from Hypothesis."""
    found = [path for folder in FOLDERS for path in sorted((root / folder).rglob("test_*.py"))]
    words = ("from hypothesis", "run_machine")
    return [
        str(path.relative_to(root))
        for path in found
        if any(word in path.read_text(encoding="utf-8") for word in words)
    ]


def rounds(names: list[str], chance: random.Random) -> Iterator[tuple[str, int]]:
    """File after file, each with a seed, for ever."""
    while True:
        chance.shuffle(names)
        for name in names:
            yield name, chance.randrange(10**9)


def words_of(name: str, seed: int) -> list[str]:
    """The words after `python` that try a file with a seed."""
    return ["-m", "pytest", "-q", "-p", "no:cacheprovider", f"--hypothesis-seed={seed}", name]


def search(
    names: list[str],
    seconds: float,
    chance: random.Random,
    run: Callable[[str, int], int],
    clock: Callable[[], float] = time.monotonic,
) -> tuple[int, list[tuple[str, int]]]:
    """Run files until the time is over; return how many ran, and those that failed."""
    end, count, failed = clock() + seconds, 0, []
    for name, seed in rounds(names, chance):
        if clock() >= end:
            break
        count += 1
        if run(name, seed):
            failed.append((name, seed))
    return count, failed


def run_file(name: str, seed: int, most_s: float = MOST_S) -> int:
    """Run a file; show what it printed if it failed, or was ended after `most_s` seconds."""
    try:
        done = subprocess.run(
            [sys.executable, *words_of(name, seed)],
            cwd=REPOSITORY,
            env={**os.environ, **VARIABLES},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=most_s,
        )
    except subprocess.TimeoutExpired:
        print(f"{name} did not end within {most_s:g} s", flush=True)
        return 1
    if done.returncode in (0, NO_TESTS_CHOSEN):
        return 0
    print(done.stdout, flush=True)
    return done.returncode


def main() -> int:
    """Search as the command line says; return the exit status."""
    parser = argparse.ArgumentParser(description="Try random examples for a time.")
    parser.add_argument("--seconds", type=float, default=240.0)
    parser.add_argument("--only-report", action="store_true", help="end with 0 all the same")
    given = parser.parse_args()
    count, failed = search(files(), given.seconds, random.Random(), run_file)
    print(f"{count} files tried, each with a seed of its own; {len(failed)} failed")
    variables = " ".join(f"{name}={text}" for name, text in VARIABLES.items())
    for name, seed in failed:
        print(f"Repeat it: {variables} .venv/bin/python {' '.join(words_of(name, seed))}")
    return 1 if failed and not given.only_report else 0


if __name__ == "__main__":
    sys.exit(main())
