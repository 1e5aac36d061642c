"""What processes cost: CPU and memory of this one and all below it, by what they are for.

Roles: `source` (the process of the source beside the driver), `jvm` (Spark's, or its driver's),
`executors` (those JVMs of a cluster), `workers` (Spark's Python processes on the executors, or a
pool's), `driver` (this process, which starts and watches).
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
    if "CoarseGrainedExecutorBackend" in words:
        return "executors"
    return "jvm" if "java" in process.name() else "driver"


def cpu_by_process() -> dict[tuple[int, float], tuple[str, float]]:
    """Role, and CPU seconds used so far, of this process and all below it."""
    top = psutil.Process()
    used = {}
    for process in [top, *top.children(recursive=True)]:
        try:
            role = "driver" if process == top else role_of(process)
            times = process.cpu_times()
            used[process.pid, process.create_time()] = role, times.user + times.system
        except psutil.Error:
            continue
    return used


def memory_by_role() -> dict[str, float]:
    """MB held by this process and all below it, by role; what several share counts once."""
    top = psutil.Process()
    held: dict[str, float] = {}
    for process in [top, *top.children(recursive=True)]:
        try:
            role = "driver" if process == top else role_of(process)
            held[role] = held.get(role, 0.0) + process.memory_full_info().pss / 2**20
        except psutil.Error:
            continue
    return held


def kill_source() -> None:
    """SIGKILL the source's process below this one."""
    for process in psutil.Process().children(recursive=True):
        try:
            if role_of(process) == "source":
                process.kill()
        except psutil.Error:
            continue


class Cost:
    """What this process, those below it and the server spend, from now until `so_far`."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._peak: dict[str, float] = {}
        self.samples: list[dict[str, float]] = []
        """MB by role, once a second."""
        self._before = cpu_by_process()
        self._used = dict(self._before)  # those that ended meanwhile: as they were last seen
        self._stats = server.stats()
        self._started = time.monotonic()
        self._look_again_at = self._started + 0.5

    def note(self) -> None:
        """Call often: looks once a second, and the peak is the largest of what was seen."""
        if time.monotonic() < self._look_again_at:
            return
        self._look_again_at = time.monotonic() + 1
        self._used |= cpu_by_process()
        self.samples.append(memory_by_role())
        for role, held in self.samples[-1].items():
            self._peak[role] = max(self._peak.get(role, 0.0), held)

    def so_far(self) -> dict[str, Any]:
        """Seconds, CPU seconds by role, requests, how many got 503, peak MB by role."""
        seconds = time.monotonic() - self._started
        self._used |= cpu_by_process()
        cpu: dict[str, float] = {}
        for process, (role, used) in self._used.items():
            since = self._before[process][1] if process in self._before else 0.0
            cpu[role] = cpu.get(role, 0.0) + used - since
        cpu.pop("driver", None)  # this process: it watches, and works for nobody
        stats = self._server.stats()
        cpu["server"] = stats["cpu_s"] - self._stats["cpu_s"]
        requests = stats["requests"] - self._stats["requests"]
        busy = stats["busy"] - self._stats["busy"]
        self.note()
        return {
            "seconds": seconds,
            "cpu": cpu,
            "memory_mb": self._peak,
            "requests": requests,
            "busy": busy,
        }
