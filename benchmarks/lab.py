"""Where a section measures: contenders that take turns, round by round, against one server."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import IO, Any

import harness
from harness import Contender, Server

LATENCIES_S = (0.0, 0.01)
Saw = dict[str, Any]

STEADY: Saw = {"messages": 100_000, "warm": 30_000, "held": 50_000}
"""A long run's share: the queue is kept full, so batches are as large as they get."""


@dataclass(frozen=True)
class Lab:
    """Where to measure, and how often."""

    rounds: int
    cores: list[int]
    log: IO[str]
    messages: int = 200_000
    """How many the long run of section `log` consumes."""

    @contextmanager
    def contenders(
        self, script: str, *names: str, apart: bool = False, tls: bool = False
    ) -> Iterator[tuple[Server, list[Contender]]]:
        """A server and processes that wait for work. `apart`: they have a core each."""
        first, last = (self.cores[0], self.cores[-1]) if apart else (None, None)
        with ExitStack() as stack:
            server = stack.enter_context(harness.server(last, tls))
            made = []
            for name in names:
                made.append(Contender(script, name, server, self.log, first))
                stack.callback(made[-1].end)
            yield server, made

    def turns(
        self,
        server: Server,
        made: list[Contender],
        work: Callable[[str, float], Saw],
        latencies_s: Sequence[float] = LATENCIES_S,
    ) -> list[Saw]:
        """Every contender in every round, at every latency. `work`: what to ask of whom."""
        kept = []
        for latency in latencies_s:
            server.latency(latency)
            for number in range(self.rounds):
                for contender in made:
                    asked = work(contender.name, latency)
                    saw = contender.round(**asked)
                    kept.append({"name": contender.name, "latency_s": latency, **saw})
                    self.tell(f"round {number + 1}", kept[-1])
        return kept

    def tell(self, what: str, saw: Saw) -> None:
        """A line for who watches."""
        speed = f"{saw['messages'] / saw['seconds']:8,.0f}/s" if "seconds" in saw else ""
        name, latency = saw.get("name", ""), saw.get("latency_s", 0.0) * 1000
        print(f"  {what:10} {name:14} {latency:3.0f} ms {speed}", file=sys.stderr, flush=True)
