"""The course of a run: feeds the queue, starts the program, and ends it at random moments."""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from audit import Life
from decoding import sent_as
from fates import LAST, Fate, fates
from processes import COMMIT, FROZEN, KILLS, STOP, TWIN, Processes
from targets import Target
from work import Work

_TICK_S = 0.05
_COUNT_EVERY_S = 0.5
_START_AT_MOST_S = 180.0
_DRAIN_AT_MOST_S = 300.0
"""How long the queue may stay at one count before the run is given up."""
_WORKERS_MISSED_S = 4.0
_OWN_ENDS_AT_MOST = 3
_SPARKS_OWN = (
    "Python worker failed to connect back",
    "java.lang.IllegalStateException: Illegal size",
)
"""Why Spark ends a query by itself. It gives a process that it starts ten seconds: on an overloaded
machine that is too short. And two queries that plan at once may change what it serializes."""
_ENDED_BY_SPARK = "ended by Spark"
_ENDED_BY_SPARK_AT_MOST = 20
_PUT_AT_ONCE = 250
_FEED_FOR_S = 8.0
_TWINS_AT_MOST_S = 45.0
_TWINS_PUT = 2
"""So many messages each `_COUNT_EVERY_S`: a query sees that there is another when it writes."""
_FENCED = (
    "another process writes the write-ahead log",
    "AZQUEUE_TRANSACTION_CONFLICT",
    "CONCURRENT_STREAM_LOG_UPDATE",
)
"""What tells a query that it runs twice; the last is Spark's."""


class Campaign:
    """All lives, one after the other, until everything is sent and drained."""

    def __init__(self, given: argparse.Namespace, target: Target, work: Work, folder: Path) -> None:
        self._given = given
        self._target = target
        self._work = work
        self._folder = folder
        self._random = random.Random(given.seed)
        self._fates = fates(
            self._random, slow=target.keeps_log, twins=work.is_exact, commits=given.chain
        )
        self._processes: Processes | None = None
        self._twin: Processes | None = None
        self._texts = self._write()
        self._up_s = self._under_way_s = 0.0
        self._began = time.monotonic()
        self._had = 0
        self._counted_at = 0.0
        self._count = 0
        self.sent: dict[str, str] = {}
        self.lives: list[Life] = []
        self.kills: Counter[str] = Counter()
        self.slow_lives = 0
        self.early_ends = 0
        self.fenced = 0
        self.ended_by_spark = 0
        self.source_outlived_java_s = 0.0
        self.left = 0

    def run(self) -> list[str]:
        """Do it all; return what went wrong on the way, other than with messages."""
        problems: list[str] = []
        own_ends = 0
        while own_ends < _OWN_ENDS_AT_MOST:
            last = sum(self.kills.values()) >= self._given.kills
            fate = LAST if last else next(self._fates)
            ended, outlived = self._live(fate, last)
            if outlived:
                shown = "; ".join(line[:120] for line in outlived)
                problems.append(f"life {len(self.lives)}: had to be killed afterwards: {shown}")
            if ended in KILLS:
                self.kills[ended] += 1
                self.early_ends += fate.early
            elif ended == _ENDED_BY_SPARK:
                self.ended_by_spark += 1
                own_ends += self.ended_by_spark > _ENDED_BY_SPARK_AT_MOST
            elif ended != STOP:
                own_ends += 1
                problems.append(f"life {len(self.lives)} {ended}; see its driver.log")
            elif last:
                break
        self.left = self._work.left()
        return problems

    def close(self) -> None:
        """Leave no process behind."""
        for processes in (self._processes, self._twin):
            if processes:
                processes.kill()

    def _live(self, fate: Fate, last: bool) -> tuple[str, list[str]]:
        """Run the program once; return how it ended and what outlived it."""
        number = len(self.lives) + 1
        first = self._target.position()
        began = time.monotonic()
        self.slow_lives += fate.slow
        self._had = self._work.finished()
        self._processes = self._start(number, fate, "")
        ended = self._watch(self._processes, number, fate, last)
        if ended not in (*KILLS, STOP):
            time.sleep(1)  # a moment for its last words
            self._processes.end("everything")
        elif ended in ("workers", COMMIT) and not self._processes.over_within(_WORKERS_MISSED_S):
            self._processes.end("everything")  # they were idle: Spark has started others
        if ended not in (*KILLS, STOP) and any(map(self._processes.said, _SPARKS_OWN)):
            ended = _ENDED_BY_SPARK
        source_s, gone_s, outlived = self._processes.wait_until_gone()
        self._processes = None
        if ended == "java":
            self.source_outlived_java_s = max(self.source_outlived_java_s, source_s)
        committed, logged = self._work.batches()
        position = self._target.position()
        self.lives.append(Life(number, ended, committed, logged, first, position))
        finished = self._work.finished() - self._had
        print(
            f"{time.monotonic() - self._began:6.0f} s  life {number:3}  {ended:10}"
            f" {'early ' if fate.early else '      '}{'slow ' if fate.slow else '     '}"
            f" up {self._up_s:4.1f} s, under way {self._under_way_s:4.1f} s,"
            f" over {time.monotonic() - began - gone_s:5.1f} s, gone {gone_s:4.1f} s later"
            f"  {finished:3} batches"
            f" (committed {committed}, logged {logged})  sent {len(self.sent)},"
            f" in queue {self._target.count()}",
            flush=True,
        )
        return ended, outlived

    def _watch(self, processes: Processes, number: int, fate: Fate, last: bool) -> str:
        """Feed and wait until it is time to end this life; return how it ended."""
        began = time.monotonic()
        due: float | None = None
        frozen = False
        self._up_s = self._under_way_s = 0.0
        moved = (began, -1)
        while True:
            time.sleep(_TICK_S)
            now = time.monotonic()
            self._feed(now - began - self._under_way_s if self._under_way_s else 0.0, last)
            if processes.status is not None:
                return f"ended by itself with status {processes.status}"
            if not self._up_s and processes.starting:
                self._up_s = now - began
            if due is None and self._reached(number, early=fate.early or last):
                due = now + fate.after_s
                self._under_way_s = now - began
            if due is None:
                if now - began > _START_AT_MOST_S:
                    return f"was not under way within {_START_AT_MOST_S:g} s"
            elif last:
                if self._is_drained():
                    processes.end(STOP)
                    return STOP
                if self._work.left() != moved[1]:
                    moved = (now, self._work.left())
                if now - moved[0] > _DRAIN_AT_MOST_S:
                    return f"did not drain the queues: {moved[1]} messages stay"
            elif now >= due and fate.kind == FROZEN and not frozen:
                frozen = True
                processes.freeze()
                time.sleep(2 * self._work.visibility_s(slow=fate.slow))
                processes.thaw()
                due = time.monotonic() + self._random.uniform(0, 2 * _FEED_FOR_S)
            elif now >= due and fate.kind == TWIN:
                self._run_twice(processes, number, fate)
                return TWIN
            elif now >= due and processes.end(fate.kind):
                return fate.kind

    def _run_twice(self, processes: Processes, number: int, fate: Fate) -> None:
        """Start the query a second time; when one of them has stopped, or in vain, kill both."""
        self._twin = twin = self._start(number, fate, "-twin")
        up, until = False, time.monotonic() + _START_AT_MOST_S
        while processes.status is None and twin.status is None and time.monotonic() < until:
            time.sleep(_COUNT_EVERY_S)
            if twin.starting and not up:
                up, until = True, time.monotonic() + _TWINS_AT_MOST_S
            if up:
                self._put(min(_TWINS_PUT, self._given.messages - len(self.sent)))
        time.sleep(self._random.uniform(0, 4))
        for each in (processes, twin):
            self.fenced += any(map(each.said, _FENCED))
            each.end("everything")
        twin.wait_until_gone()
        self._twin = None

    def _is_drained(self) -> bool:
        """True if everything was sent and is gone, and the work is done."""
        if len(self.sent) < self._given.messages or self._counted():
            return False
        return self._work.is_done(len(self.sent))

    def _reached(self, number: int, *, early: bool) -> bool:
        return self._up_s > 0 if early else self._work.is_under_way(number, self._had)

    def _start(self, number: int, fate: Fate, which: str) -> Processes:
        return Processes(
            self._folder / f"life-{number:04}{which}",
            self._work.script,
            self._work.settings(number, slow=fate.slow),
            self._work.environment,
        )

    def _feed(self, under_way_s: float, last: bool) -> None:
        """Put messages: a moderate backlog, and a share of all for each kill still to come.

        Half of a share comes at once and the rest by and by, so that a kill finds work under way.
        """
        given = self._given
        part = min(1.0, 0.5 + 0.5 * under_way_s / _FEED_FOR_S)
        share = 1.0 if last else (sum(self.kills.values()) + part) / (given.kills + 1)
        room = min(int(given.messages * share) - len(self.sent), _PUT_AT_ONCE)
        if room <= 0 or given.backlog - self._counted() < room:
            return
        self._put(room)

    def _put(self, count: int) -> None:
        texts = [next(self._texts) for _ in range(count)]
        self.sent.update(zip(self._target.put(texts), texts))  # noqa: B905 (an id for each text)
        self._count += count

    def _counted(self) -> int:
        """How many messages are in the queue, as of lately."""
        now = time.monotonic()
        if now - self._counted_at > _COUNT_EVERY_S:
            self._counted_at, self._count = now, self._target.count()
        return self._count

    def _write(self) -> Iterator[str]:
        """Bodies, no two alike, with all that XML and UTF-8 make difficult."""
        source = random.Random(f"{self._given.seed}/bodies")
        number = 0
        while True:
            number += 1
            text = f'{number}: <&> "é" 漢 😀 {"+/= " * source.randrange(1, 60)}'.rstrip()
            yield sent_as(text, number) if self._given.change_decoding else text
