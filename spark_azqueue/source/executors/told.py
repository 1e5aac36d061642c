"""What a task is told in its partition: its slot, the plan, and the settings that queues decide.

Only the source's process asks the queues for settings, and a task has the options as they were
written. So whatever that process finds out, and a task needs, is here or in the plan.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from spark_azqueue.options.source_config import SourceConfig

from ..preflight import decided_by_queues, with_decided
from .plan import Plan


@dataclass(frozen=True)
class Told:
    """A slot of a plan. config: the options of the query, as the source's process has them."""

    plan: Plan
    slot: int
    config: SourceConfig

    @classmethod
    def by(cls, plan: Plan, slot: int, config: SourceConfig) -> Told:
        """What the source's process tells: not what waits for later plans."""
        return cls(replace(plan, waiting=()), slot, config)

    def to_bytes(self) -> bytes:
        """What travels to the task: no secret, since its options travel beside it."""
        told = {
            "slot": self.slot,
            "plan": self.plan.to_json(),
            "settings": decided_by_queues(self.config),
        }
        return json.dumps(told, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, data: bytes, config: SourceConfig) -> Told:
        """Read it in the task. config: its options, as they were written."""
        told = json.loads(data)
        plan = Plan.from_json(told["plan"], account=config.account.name)
        return cls(plan, told["slot"], with_decided(config, told["settings"]))
