"""Measures, and writes results/: results.json, results.md and throughput.png.

    python benchmarks/run.py [--rounds 3] [SECTION …]        (`make bench` sets everything up)

Sections not named keep their results of an earlier run; each says when it was measured. Linux only:
processes are kept on two cores, the first two that this one may use.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import shlex
import sys
import time
from pathlib import Path
from typing import Any

import executors_picture
import harness
import packed_picture
import plot
import report
from lab import Lab
from sections import SECTIONS

RESULTS = Path(__file__).parent / "results"
PACKAGES = (
    *("spark-azqueue", "azure-storage-queue", "pycurl", "pyspark", "pyarrow"),
    *("aiohttp", "urllib3", "uvloop"),
)


def versions() -> dict[str, str]:
    """Of what took part."""
    return {name: importlib.metadata.version(name) for name in PACKAGES}


def main() -> None:
    """Run the sections that were asked for, all by default."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument(
        "--messages", type=int, default=200_000, help="of the long run of section log"
    )
    arguments.add_argument("sections", nargs="*", metavar="SECTION", help=", ".join(SECTIONS))
    given = arguments.parse_args()
    unknown = set(given.sections) - set(SECTIONS)
    if unknown:
        arguments.error(f"unknown {sorted(unknown)}; there are: {', '.join(SECTIONS)}")
    if not hasattr(os, "sched_setaffinity"):
        arguments.error("this needs Linux: processes are bound to cores")
    RESULTS.mkdir(exist_ok=True)
    kept = RESULTS / "results.json"
    results: dict[str, Any] = json.loads(kept.read_text()) if kept.exists() else {}
    what = {"machine": harness.machine(), "versions": versions()}
    command = f"make bench ROUNDS={given.rounds}"
    if "log" in given.sections:
        command += f" MESSAGES={given.messages}"
    if given.sections:
        command += f' SECTIONS="{shlex.join(given.sections)}"'
    with open(RESULTS / "run.log", "w") as log:
        lab = Lab(given.rounds, harness.two_cores(), log, given.messages)
        for name in given.sections or SECTIONS:
            print(name, file=sys.stderr, flush=True)
            about = {"date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "command": command}
            results[name] = what | about | SECTIONS[name](lab)
            kept.write_text(json.dumps(results, indent=1) + "\n")
    (RESULTS / "results.md").write_text(report.report(results))
    plot.draw(results, RESULTS / "throughput.png")
    if "executors" in results:
        executors_picture.draw(results["executors"], RESULTS / "executors.png")
    if "packed" in results:
        packed_picture.draw(results["packed"], RESULTS / "packed.png")


if __name__ == "__main__":
    main()
