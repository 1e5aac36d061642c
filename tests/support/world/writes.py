"""What the machines of transactions share: one log, one account, and what disturbs them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar

import pytest
from log_stores import MemoryLogStore

from spark_azqueue.service.names import TRANSACTIONS

from .disturbances import Disturbed
from .others import Others
from .transactions import HiddenQueues, lost, of_service, small, with_ids


class Writes(Disturbed):
    """Each attempt to write is a process of its own."""

    queues: ClassVar[Sequence[str]]

    def __init__(self, before_show: Callable[[str], None] = lambda row: None) -> None:
        """before_show: called with each row that is shown."""
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        small(self.patch)
        self.new_id = with_ids(self.patch)
        self.service = HiddenQueues(before_show=before_show)
        of_service(self.service, self.patch)
        self.others = Others(self.service)
        self.log = MemoryLogStore(kind=TRANSACTIONS)
        self.told: set[int] = set()  # of a loss, or discarded
        self.is_damaged = False
        self.forgiven: set[int] = set()
        """Batches whose own objects were lost: of these nothing is promised."""

    def teardown(self) -> None:
        self.patch.undo()

    def names(self) -> Sequence[str]:
        return self.queues

    def stores(self) -> Sequence[MemoryLogStore]:
        return [self.log]

    def another_sends(self, queue: str) -> None:
        if queue in self.service.account.names():
            self.others.send(queue, "of another program")

    def loses(self, who: int, what: int) -> None:
        if self.log.objects:
            with lost(self.log, who, what) as numbers:
                self.forgiven |= numbers
                self.is_damaged = True
                self.writes_without(what)
            self.is_damaged = False

    @abstractmethod
    def writes_without(self, what: int) -> None:
        """Write something while an object of the log is lost. what: any number."""
