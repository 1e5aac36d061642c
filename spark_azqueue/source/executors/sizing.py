"""How large the next plan is: what earlier ones have taught about slots and queues.

Used by one thread; nothing is kept over a restart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from spark_azqueue.options.log import ExecutorsConfig
from spark_azqueue.options.source_config import SourceConfig
from spark_azqueue.service.messages import QueueRef

from ..batches.size import TARGET_ALONE_S, BatchSize
from .closing import Closed
from .plan import Learned, Slot
from .planning import Width, slots_of
from .segment import Looked


class Sizing:
    """Learns from plans whose tasks leased."""

    def __init__(
        self, config: SourceConfig, executors: ExecutorsConfig, clock: Callable[[], float]
    ) -> None:
        """clock: monotonic seconds."""
        self._config = config
        self._most_bytes = executors.max_bytes
        self._clock = clock
        self._width = Width(executors.slots)
        self._size = BatchSize(config.max_messages, config.min_messages, TARGET_ALONE_S)
        self._learned: dict[str, Learned] = {}
        self._began = 0.0

    @property
    def width(self) -> int:
        """The most slots of the next plan."""
        return self._width.slots

    def begins(self) -> None:
        """A batch is given to Spark now."""
        self._began = self._clock()

    def heard(self, closed: Closed, looked: Mapping[str, Looked], *, ran_here: bool) -> None:
        """A plan has ended. looked: what its tasks saw, by queue. ran_here: it began when it was
        given to Spark by this process."""
        self._learned |= {name: each.limits for name, each in looked.items() if each.limits}
        fullest = max(
            (
                each.messages / slot.messages
                for each, slot in zip(closed.slots, closed.plan.slots, strict=True)
                if each is not None
            ),
            default=0.0,
        )
        if ran_here:
            self._size.batch_began(int(fullest * self._size.most), self._began, self._size.most)
            self._size.batch_ended(self._clock())
        slots = self._width.slots
        self._width.heard(closed.settled)
        if self._width.slots != slots:
            self._size.forget()

    def slots(self, queues: Sequence[QueueRef], most: int) -> tuple[Slot, ...]:
        """The slots for these queues (at least one). most: messages in all."""
        of_slot = self._size.most
        if self._config.messages_per_partition:
            of_slot = min(of_slot, self._config.messages_per_partition)
        return slots_of(
            queues,
            self._width.slots,
            most=most,
            most_of_slot=of_slot,
            most_bytes=self._most_bytes,
            bytes_of_slot=self._config.max_bytes,
            learned=self._learned,
        )

    def limits(self, queues: Sequence[QueueRef]) -> dict[str, Learned]:
        """What was learned of these queues, by name."""
        return {
            each.name: self._learned[each.name] for each in queues if each.name in self._learned
        }
