"""Draws how the limits behave against a model of the service: results/limits.png.

    python benchmarks/limits_picture.py

Simulated (tests/support/throttling.py), not measured: one queue with a cap of 2,000 requests/s. The
latency steps from 10 to 50 ms and back; later a second client takes half of the cap for a while.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib as mpl

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
from throttling import STEP_S, ThrottledAccount

CAP = 2_000
END_S = 60.0
SLOW = (15.0, 25.0)
OTHERS = (35.0, 47.0)


def latency_s(now: float) -> float:
    """10 ms, for a while 50 ms."""
    return 0.05 if SLOW[0] <= now < SLOW[1] else 0.01


def others_per_s(now: float) -> float:
    """What the second client takes."""
    return CAP / 2 if OTHERS[0] <= now < OTHERS[1] else 0.0


def main() -> None:
    """Simulate a minute, and draw it."""
    (course,) = ThrottledAccount(latency_s, cap=CAP, others=others_per_s).run(END_S)
    times = [each.at_s for each in course]
    done = sum(each.done for each in course)
    busy = sum(each.busy for each in course)
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, (rate, size, refused) = plt.subplots(
        3, 1, sharex=True, figsize=(9, 7), height_ratios=(3, 2, 1), layout="constrained"
    )
    rate.plot(times, [each.done / STEP_S for each in course], lw=0.8, label="carried out")
    bound = [each.per_s for each in course]
    rate.plot(times, bound, lw=1.5, label="bound learned from 503")
    rate.plot(times, [CAP - others_per_s(now) for now in times], "k--", lw=1, label="left for us")
    rate.set(ylabel="requests/s", ylim=(0, 1.6 * CAP))
    rate.legend(loc="lower left", ncols=3)
    size.plot(times, [each.at_once for each in course], color="tab:green")
    size.set(ylabel="limit on requests\nunder way", ylim=(0, None))
    refused.bar(times, [each.busy for each in course], width=STEP_S, color="tab:red", align="edge")
    refused.set(ylabel=f"503 in {STEP_S:g} s", xlabel="simulated seconds", xlim=(0, END_S))
    rate.yaxis.set_major_formatter("{x:,.0f}")
    for axes in (rate, size, refused):
        axes.axvspan(*SLOW, color="tab:orange", alpha=0.12)
        axes.axvspan(*OTHERS, color="tab:purple", alpha=0.1)
        axes.grid(alpha=0.3)
    for (begin, _), text in ((SLOW, "50 ms"), (OTHERS, "a second client takes half")):
        rate.text(begin + 0.3, 1.48 * CAP, text)
    figure.suptitle(
        f"Simulated: a queue that allows {CAP:,} requests/s, 10 ms. Of {done + busy:,} requests"
        f" {busy / (done + busy):.2%} got 503."
    )
    figure.savefig(Path(__file__).parent / "results" / "limits.png", dpi=110)


if __name__ == "__main__":
    main()
