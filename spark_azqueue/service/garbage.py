"""What Spark's Python workers spend on collecting garbage."""

from __future__ import annotations

import gc


def leave_out_what_is_loaded() -> None:
    """Once in a process: leave out of garbage collections what it has loaded so far.

    Spark's worker collects garbage after each task. With Spark's and Arrow's modules loaded, that
    took 30 ms, most of what a small task costs. Objects made from now on are collected as before.
    """
    if not gc.get_freeze_count():
        gc.freeze()
