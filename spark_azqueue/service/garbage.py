"""What Spark's Python processes spend on collecting garbage."""

from __future__ import annotations

import gc


def leave_out_what_is_loaded() -> None:
    """Once in a process: leave out of garbage collections what it has loaded so far.

    Spark's worker collects garbage after each task. With Spark's and Arrow's modules loaded, that
    took 30 ms, most of what a small task costs. Objects made from now on are collected as before.
    """
    if not gc.get_freeze_count():
        gc.freeze()


def collect_seldom() -> None:
    """For the source's own process: look for garbage after 20,000 new objects, and not after 700.

    A batch is some 100,000 objects, without cycles, that live for seconds. Looking at them again
    and again took a tenth of the process's time.
    """
    leave_out_what_is_loaded()
    gc.set_threshold(20_000, 20, 20)
