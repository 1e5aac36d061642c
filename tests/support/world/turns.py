"""Processes that take turns: one runs at a time, up to its next call to something that others see.

Between two such calls a process changes nothing that another one sees. So it is enough to stop
before each of them: a process that stops there for good was killed after the call before.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

_HANGS_AFTER_S = 120.0

KILL = "kill"


class Killed(BaseException):
    """The process ends here. It does nothing more, whatever its code still tries."""


class Actor:
    """A process with one thread. at: the call that it stops before; "" when it is over."""

    def __init__(self, name: str, work: Callable[[], None]) -> None:
        self.name = name
        self.at = "begin"
        self.fate = ""
        self.is_dead = False
        self.error: BaseException | None = None
        self.go, self.back = threading.Lock(), threading.Lock()
        self._work = work
        self._thread: threading.Thread | None = None
        self.go.acquire()
        self.back.acquire()

    @property
    def is_over(self) -> bool:
        return self.at == ""

    def step(self, fate: str) -> None:
        """Let it run to its next call. fate: what becomes of the call that it stops before."""
        self.fate = fate
        if fate == KILL:
            self.is_dead = True
            if self._thread is None:
                self.at = ""
                return
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
            self._thread.start()
        self.go.release()
        if not self.back.acquire(timeout=_HANGS_AFTER_S):
            raise AssertionError(f"{self.name} hangs after {self.at}")
        if self.is_over:
            self._thread.join(_HANGS_AFTER_S)

    def _run(self) -> None:
        self.go.acquire()
        try:
            self._work()
        except Killed:
            pass
        except BaseException as error:  # noqa: BLE001 (the main thread raises it)
            self.error = error
        self.at = ""
        self.back.release()


class Turns:
    """All processes, and whose turn it is. Calls of the main thread do not stop."""

    def __init__(self) -> None:
        self.alive: list[Actor] = []
        self.now: Actor | None = None
        self.steps = 0

    def spawn(self, name: str, work: Callable[[], None]) -> Actor:
        actor = Actor(name, work)
        self.alive.append(actor)
        return actor

    def step(self, actor: Actor, fate: str = "") -> None:
        """Let this one run to its next call. Raises what it does not catch."""
        before, self.now = self.now, actor
        self.steps += 1
        try:
            actor.step(fate)
        finally:
            self.now = before
            if actor.is_over and actor in self.alive:
                self.alive.remove(actor)
        if actor.error:
            raise actor.error

    def stop_before(self, call: str) -> str:
        """Called by a process: it stops here. Returns what becomes of the call, "": nothing."""
        actor = self.now
        if actor is None:
            return ""
        if actor.is_dead:
            raise Killed
        actor.at = call
        actor.back.release()
        actor.go.acquire()
        if actor.is_dead:
            raise Killed
        fate, actor.fate = actor.fate, ""
        return fate

    def end(self) -> None:
        """Kill all of them."""
        for actor in list(self.alive):
            self.step(actor, KILL)


class Spawning:
    """Workers (`service/workers.py`) that run each call as a process of its own."""

    def __init__(self, spawn: Callable[[Callable[[], None]], Any]) -> None:
        self._spawn = spawn

    def submit(self, call: Callable[..., Any], *arguments: Any) -> Future[Any]:
        future: Future[Any] = Future()

        def work() -> None:
            try:
                future.set_result(call(*arguments))
            except Exception as error:  # noqa: BLE001 (the future has it)
                future.set_exception(error)

        self._spawn(work)
        return future
