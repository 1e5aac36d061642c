"""What processes cost: CPU and memory of this one and all below it, by what they are for.

Roles: `source` (the process of the source beside the driver), `jvm`, `workers` (Spark's Python
processes on the executors, or a pool's), `driver` (this process, which starts and watches).
"""

from __future__ import annotations

import time
from typing import Any

import psutil
from harness import Server


def role_of(process: psutil.Process) -> str:
    """What a process below a contender is for."""
    words = " ".join(process.cmdline())
    if "python_streaming_source_runner" in words:
        return "source"
    if any(each in words for each in ("pyspark.daemon", "pyspark.worker", "multiprocessing")):
        return "workers"
    return "jvm" if "java" in process.name() else "driver"


def cpu_by_role(root: int | None = None) -> dict[str, float]:
    """CPU seconds used so far by this process and all below it, by role."""
    top = psutil.Process(root)
    used: dict[str, float] = {}
    for process in [top, *top.children(recursive=True)]:
        try:
            role = "driver" if process == top else role_of(process)
            times = process.cpu_times()
        except psutil.Error:
            continue
        # Workers that ended meanwhile are in the account of the one that started them.
        ended = times.children_user + times.children_system
        used[role] = used.get(role, 0.0) + times.user + times.system + ended
    return used


def memory_by_role(root: int | None = None) -> dict[str, float]:
    """MB held by this process and all below it, by role; what several share counts once."""
    top = psutil.Process(root)
    held: dict[str, float] = {}
    for process in [top, *top.children(recursive=True)]:
        try:
            role = "driver" if process == top else role_of(process)
            held[role] = held.get(role, 0.0) + process.memory_full_info().pss / 2**20
        except psutil.Error:
            continue
    return held


def spent(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    """CPU seconds between two accounts."""
    return {role: after[role] - before.get(role, 0.0) for role in after}


class Cost:
    """What this process, those below it and the server spend, from now until `so_far`."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._peak: dict[str, float] = {}
        self._cpu = cpu_by_role()
        self._stats = server.stats()
        self._started = time.monotonic()
        self._look_again_at = self._started + 0.5

    def note_memory(self) -> None:
        """Call often: the peak is the largest of what was seen, once a second."""
        if time.monotonic() < self._look_again_at:
            return
        self._look_again_at = time.monotonic() + 1
        for role, held in memory_by_role().items():
            self._peak[role] = max(self._peak.get(role, 0.0), held)

    def so_far(self) -> dict[str, Any]:
        """Seconds, CPU seconds by role, requests, peak MB by role."""
        seconds = time.monotonic() - self._started
        cpu = spent(self._cpu, cpu_by_role())
        cpu.pop("driver", None)  # this process: it watches, and works for nobody
        stats = self._server.stats()
        cpu["server"] = stats["cpu_s"] - self._stats["cpu_s"]
        requests = stats["requests"] - self._stats["requests"]
        self.note_memory()
        return {"seconds": seconds, "cpu": cpu, "memory_mb": self._peak, "requests": requests}
