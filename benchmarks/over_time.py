"""One small, fixed measurement of a commit, kept beside those of the commits before it.

    python benchmarks/over_time.py measure COMMIT [PACKAGE]     (or: make bench-commit)
    python benchmarks/over_time.py draw

`measure` adds a line to results/over_time.json, or replaces the commit's; `draw` makes over_time.md
and over_time.png of them. PACKAGE: a folder with the `spark_azqueue` of that commit, if it is not
this one. Consumers take turns against one server, 10 ms away, for three rounds: ours, async code
with Azure's SDK by hand, and bare requests. Machines differ and are shared, so what counts is ours
against the SDK in the same minute.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from figures import by, cpu_ms, median_of, rate, table

HERE = Path(__file__).resolve().parent
KEPT = HERE / "results" / "over_time.json"
WORK = {
    "ours": {"messages": 60_000, "warm": 30_000, "held": 50_000},
    "sdk-async": {"messages": 4000},
    "raw": {"messages": 20_000},
}
"""What each consumes in a round. Never change it: a curve needs the same work at each point."""
ROUNDS = 3
AT_S = 0.01

Point = dict[str, Any]


def measure(commit: str) -> Point:
    """Measure the package that this process imports. Takes two minutes."""
    import harness
    from lab import Lab

    import spark_azqueue

    print(f"measuring {spark_azqueue.__path__[0]}", file=sys.stderr, flush=True)
    load = os.getloadavg()[0]
    with open(os.devnull, "w") as log:
        lab = Lab(ROUNDS, harness.two_cores(), log)
        with lab.contenders("consume.py", *WORK) as (server, made):
            rounds = lab.turns(server, made, lambda name, _: WORK[name], (AT_S,))
    figures = {
        name: {
            "cpu_ms": round(median_of(saw, cpu_ms), 4),
            "per_second": round(median_of(saw, rate)),
        }
        for (name,), saw in by(rounds, "name").items()
    }
    said = ("git", "show", "--no-patch", "--format=%cI", commit)
    date = subprocess.run(said, cwd=HERE, capture_output=True, text=True, check=True).stdout.strip()
    measured = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    return {
        "commit": commit,
        "date": date,
        "measured": measured,
        "machine": harness.machine()["CPU"],
        "load": round(load, 1),
        "figures": figures,
    }


def added(points: list[Point], point: Point) -> list[Point]:
    """The points with this one, in the order of their commits' dates; a commit is there once."""
    others = [each for each in points if each["commit"] != point["commit"]]
    return sorted([*others, point], key=lambda each: each["date"])


def ratio(point: Point) -> float:
    """The CPU of the SDK by hand for a message, as a multiple of ours with all of Spark."""
    figures = point["figures"]
    return float(figures["sdk-async"]["cpu_ms"]) / float(figures["ours"]["cpu_ms"])


PAGE = """# Benchmarks over time

For anyone who asks whether a change made it slower: the same small measurement, by commit.

{picture}

Three rounds of 60,000 messages of 1 KB at 10 ms, on two cores, beside async code with Azure's SDK
by hand and bare requests. CPU is that of all processes but the server, Spark's included. Machines
differ; the ratio is what holds, unless the load before the measurement was above the number of
cores: then others worked on them, too. `make bench-commit` adds the commit that is checked
out; the work of a round never changes.

The points here are a start: commits of several days, measured afterwards on one machine
(`over_time.json` says when). The curve of a project that goes on is in the branch `bench-history`:
the workflow [Benchmark](../../.github/workflows/bench.yml) measures each commit on `main` and adds
it there.

{table}
"""
PICTURE = "![CPU per message and its ratio, by commit](over_time.png)"
NO_POINTS = "No commit has been measured yet on a machine that did nothing else."


def page(points: list[Point]) -> str:
    """What over_time.md holds."""
    if not points:
        return PAGE.format(picture=NO_POINTS, table="").rstrip() + "\n"
    rows = []
    for point in reversed(points):
        ours, hand = point["figures"]["ours"], point["figures"]["sdk-async"]
        cells = (point["date"][:10], f"{ours['cpu_ms']:.3f}", f"{hand['cpu_ms']:.3f}")
        speed = (f"{ours['per_second']:,}", f"{hand['per_second']:,}")
        rows.append(
            (
                f"`{point['commit'][:10]}`",
                *cells,
                f"{ratio(point):.1f}",
                *speed,
                f"{point['load']:.1f}",
            )
        )
    head = (
        "commit",
        "date",
        "CPU ms/message",
        "by hand",
        "times less",
        "messages/s",
        "by hand",
        "load",
    )
    return PAGE.format(picture=PICTURE, table=table(head, rows))


def draw(points: list[Point], to: Path) -> None:
    """The curves: CPU per message of ours, and the ratio to the SDK's, by commit."""
    import plot
    from matplotlib import pyplot

    places = range(len(points))
    figure, (cpu, times) = pyplot.subplots(1, 2, figsize=(11, 3.4), layout="constrained")
    ours = [point["figures"]["ours"]["cpu_ms"] for point in points]
    cpu.plot(places, ours, "o-", color=plot.OURS)
    cpu.set_title("CPU ms per message, Spark included", loc="left", fontsize=10, color=plot.INK)
    times.plot(places, [ratio(point) for point in points], "o-", color=plot.OURS)
    told = "CPU by hand with Azure's SDK, as a multiple of it"
    times.set_title(told, loc="left", fontsize=10, color=plot.INK)
    for axis in (cpu, times):
        axis.set_ylim(0, 1.1 * axis.get_ylim()[1])
        names = [f"{point['commit'][:7]}\n{point['date'][:10]}" for point in points]
        step = max(1, len(points) // 5)
        axis.set_xticks(places[::step], names[::step], fontsize=8)
        axis.grid(axis="y", color="#eceff3")
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(to, dpi=130)
    pyplot.close(figure)


def main(words: list[str]) -> int:
    """Returns the exit status."""
    points = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else []
    if words[:1] == ["measure"] and len(words) in (2, 3):
        if len(words) == 3:
            # First on the path of this process, and of those that it starts.
            environment = os.environ | {"PYTHONPATH": str(Path(words[2]).resolve())}
            command = [sys.executable, __file__, "measure", words[1]]
            return subprocess.run(command, env=environment, check=False).returncode
        points = added(points, measure(words[1]))
        KEPT.write_text(json.dumps(points, indent=1) + "\n", encoding="utf-8")
    elif words != ["draw"]:
        print(__doc__, file=sys.stderr)
        return 2
    KEPT.with_suffix(".md").write_text(page(points), encoding="utf-8")
    if points:
        draw(points, KEPT.with_suffix(".png"))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
