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
import platform
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import harness
import plot
import report
from lab import Lab
from sections import SECTIONS

RESULTS = Path(__file__).parent / "results"
PACKAGES = (
    *("spark-azqueue", "azure-storage-queue", "pycurl", "pyspark", "pyarrow"),
    *("aiohttp", "urllib3", "uvloop"),
)


def machine() -> dict[str, str]:
    """The machine, without its name."""
    cpu = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False)
    version = re.search(r'version "(.*?)"', java.stderr)
    return {
        "CPU": f"{cpu[1] if cpu else platform.machine()}, {os.cpu_count()} cores, 2 of them used",
        "memory": f"{memory:.0f} GiB",
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "Python": platform.python_version(),
        "Java": version[1] if version else "unknown",
    }


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
    what = {"machine": machine(), "versions": versions()}
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


if __name__ == "__main__":
    main()
