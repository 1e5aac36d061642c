"""A queue, a sink that fails, and the real `Suspects`: who is moved, and after how many restarts.

One failure ends a run; what was leased returns to the queue. Nothing else is simulated.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from refs import ORDERS

from spark_azqueue.errors import TooManyPoison
from spark_azqueue.service.messages import Message, MessageKey
from spark_azqueue.source.batches.poison import Suspects
from spark_azqueue.source.findings import Findings
from spark_azqueue.source.suspects import IsolationRule

PAGE = 32


@dataclass
class Convicting:
    """A run of a query until its queue is empty, or for `most_batches`.

    fails: whether a batch of these messages, the so-manyth, fails. isolate_after: failures of the
    same batch (with a log), or of batches with the same messages.
    """

    messages: int
    in_a_batch: int
    fails: Callable[[list[int], int], bool]
    rule: IsolationRule
    has_log: bool = True
    most_batches: int = 20_000
    seed: int = 0
    restarts: int = 0
    batches: int = 0
    moved: list[int] = field(default_factory=list)
    committed: set[int] = field(default_factory=set)
    braked: bool = False
    waits: int = 0
    """Failures since the last commit or advance, over all: restarts that wait longer."""

    def run(self) -> Convicting:
        chance = random.Random(self.seed)
        queue = [Message(ORDERS, str(n), "", 0, 0, 1) for n in range(self.messages)]
        findings, number, has_committed = Findings(), 0, True
        while queue and self.batches < self.most_batches:
            # A new process: what outlives the one before are the findings.
            suspects = Suspects(self.rule)
            suspects.restore(Findings.from_json(findings.to_json(), ORDERS.account))
            try:
                waiting: list[Message] = []
                failed: list[Message] = []
                tries = 0
                while not failed and (queue or waiting) and self.batches < self.most_batches:
                    self._dequeue(suspects, queue, waiting)
                    if not waiting:
                        break
                    batch = suspects.choose(waiting, self.in_a_batch)
                    number += 1
                    chosen = {each.message_id for each in batch}
                    waiting = [each for each in waiting if each.message_id not in chosen]
                    tries = self._tries(suspects, batch)
                    if self._try_out(batch, tries):
                        failed = batch
                    else:
                        has_committed = True
                        suspects.batch_committed(number, [each.key for each in batch], tries - 1)
                if failed:
                    self.waits += not has_committed
                    has_committed = False
                    suspects.batch_failed(number, [each.key for each in failed], times=tries)
                    if len(failed) == 1 and suspects.is_poison(failed[0].key):
                        self._move(suspects, failed.pop().key)
                    back = failed + waiting
                    queue = back + queue if chance.random() < 0.5 else queue + back
            except TooManyPoison:
                self.braked = True
                return self
            findings = suspects.findings
        return self

    def _tries(self, suspects: Suspects, batch: list[Message]) -> int:
        """How often the same batch is tried: with a log, until it is given up."""
        is_first = self.has_log and not suspects.among(batch)
        return self.rule.isolate_after if is_first else 1

    def _try_out(self, batch: list[Message], tries: int) -> bool:
        """True if each of these tries fails."""
        ids = [int(each.message_id) for each in batch]
        for _ in range(tries):
            self.batches += 1
            if not self.fails(ids, self.batches):
                self.committed.update(ids)
                return False
            self.restarts += 1
        return True

    def _dequeue(self, suspects: Suspects, queue: list[Message], waiting: list[Message]) -> None:
        while True:
            while queue and suspects.room(waiting, self.in_a_batch) > 0:
                waiting += queue[:PAGE]
                del queue[:PAGE]
            poison = [each for each in waiting if suspects.is_poison(each.key)]
            if not poison:
                return
            for each in poison:
                self._move(suspects, each.key)
                waiting.remove(each)

    def _move(self, suspects: Suspects, key: MessageKey) -> None:
        suspects.moved(key)
        self.moved.append(int(key.message_id))
