"""What the users of a simulated query do to it, and to its queues and checkpoints."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from executors_setting import CHOICES, COMES_AND_GOES, RETENTION
from executors_spark import Checkpoint, Driver

from spark_azqueue.options.choices import OnUndecodable
from spark_azqueue.service.encoding import Encoding

if TYPE_CHECKING:
    from world.others import Others
    from world.service import Service
    from world.turns import Actor


class User:
    """A part of `World`, which has the rest."""

    if TYPE_CHECKING:
        service: Service
        others: Others
        config: Any
        may_decode: bool
        was_permissive: bool
        checkpoints: list[Checkpoint]
        stood: dict[str, list[Any]]
        taken: set[str]
        high: int
        _to_check: bool

        def alive(self, at: Checkpoint | None = None) -> list[Driver]: ...

        def kill(self, actor: Actor) -> None: ...

        def check(self) -> None: ...

    def queue_goes(self) -> None:
        """With its messages. The next message that is put there makes it again."""
        self.others.remove(COMES_AND_GOES)

    def choose(self, choice: str) -> None:
        """Drivers that start from now on decode so."""
        self.config = CHOICES[choice]
        self.was_permissive |= self.config.on_undecodable is OnUndecodable.PERMISSIVE
        self.may_decode |= self.was_permissive or self.config.encoding is not Encoding.BASE64

    def roll_back(self, batches: int, *, with_output: bool, keeps_offset: bool) -> None:
        """The user stops the query, and takes newest offsets and commits away. Main query alone."""
        at = self.checkpoints[0]
        left = max(at.commits - batches, self.high - RETENTION, 1)
        if left > at.commits:
            return
        for driver in self.alive(at):
            self.kill(driver.actor)
        at.commits = left
        has_copy = len(self.checkpoints) > 1  # it goes on, and may clean what this one had
        if has_copy:
            self.taken |= self._rolled_back(at, left, with_output=with_output)
        del at.offsets[left + (keeps_offset and len(at.offsets) > left) :]
        if with_output:
            for batch in [each for each in at.output if each >= left]:
                rows = at.output.pop(batch).values()
                self.taken.update(itertools.chain.from_iterable(rows) if has_copy else ())
        self._to_check = True
        self.check()

    def _rolled_back(self, at: Checkpoint, left: int, *, with_output: bool) -> set[str]:
        """What stood in the batches that are rolled back; if their output stays: and was not read
        by them."""
        plans = [(batch, at.plan(batch).id) for batch in range(left, len(at.offsets))]
        slots = {plan: at.output.get(batch) for batch, plan in plans if at.batch_of(plan) == batch}
        return {
            message_id
            for message_id, places in self.stood.items()
            for place in places
            if (read := slots.get(place.plan)) is not None
            and (with_output or place.slot not in read)
        }

    def copy(self) -> None:
        """The checkpoint is copied, for a second query with an output of its own."""
        main = self.checkpoints[0]
        if len(self.checkpoints) == 1:
            copied = Checkpoint("copy", main.commits, list(main.offsets), main.commits)
            self.checkpoints.append(copied)
