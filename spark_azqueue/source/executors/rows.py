"""Record batches of one slot, for Spark's tasks on the executors. `slot.py` does the work.

A worker process keeps connections and learned limits of queues from task to task, to save time.
"""

from __future__ import annotations

import json
import pickle
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import pyarrow as pa

from spark_azqueue.journal.codec import digest_of
from spark_azqueue.journal.store import log_store
from spark_azqueue.options.log import LogConfig
from spark_azqueue.options.source_config import SourceConfig
from spark_azqueue.service.names import EXECUTORS
from spark_azqueue.service.queues.client import QueueClient

from ..columns import Columns
from ..large_bodies import carried, resolved
from ..logged.undecodable import LoggedRows
from ..partitions import MOST_PARTITION_BYTES, MOST_ROWS, cut
from ..preflight import decided_by_queues, with_decided
from ..rows import record_batch
from ..suspects import Evidence
from .folder import PlanFolder
from .plan import Plan
from .slot import SlotTask


@dataclass(frozen=True)
class SlotAssignment:
    """One slot of a plan, for a task.

    config: options of the query, including secrets.
    """

    plan: Plan
    slot: int
    config: SourceConfig

    @classmethod
    def by(cls, plan: Plan, slot: int, config: SourceConfig) -> SlotAssignment:
        """Create the assignment of a slot, without the parts of the plan that tasks do not need."""
        return cls(
            replace(plan, waiting=(), histories=(), evidence=Evidence(), status=""), slot, config
        )

    def to_bytes(self) -> bytes:
        """Encode the assignment for the task.

        The bytes contain no secrets, because Spark passes the options to the task separately.
        """
        fields = {
            "slot": self.slot,
            "plan": self.plan.to_json(),
            "settings": decided_by_queues(self.config),
        }
        return json.dumps(fields, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, data: bytes, config: SourceConfig) -> SlotAssignment:
        """Decode an assignment in the task.

        config: options of the query.
        """
        fields = json.loads(data)
        plan = Plan.from_json(fields["plan"], account=config.account.name)
        return cls(plan, fields["slot"], with_decided(config, fields["settings"]))


_KEPT = 4
"""Maximum number of queries whose connections one worker keeps."""


class _Kept(NamedTuple):
    client: QueueClient
    folder: PlanFolder


_kept: OrderedDict[str, _Kept] = OrderedDict()


def rows_of_task(
    task: bytes, config: SourceConfig, requested: Columns, *, is_repeated: bool
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a slot, the same in every call. task: see `SlotAssignment`.

    is_repeated: Spark says that this is not the first attempt. Raises UndecodableBody, LostBlob,
    and the errors of `SlotTask`.
    """
    assignment = SlotAssignment.from_bytes(task, config)
    config, plan = assignment.config, assignment.plan
    settings = config.write_ahead_log
    assert settings is not None
    kept = _connections(config, settings)
    slot = SlotTask(
        config,
        plan,
        assignment.slot,
        kept.folder,
        kept.client,
        is_repeated=is_repeated,
        lose=not settings.fail_on_data_loss,
    )
    columns = carried(requested, config)
    yield from resolved(batches_of(slot.rows(), columns), requested, config)


def batches_of(logged: LoggedRows, columns: Columns) -> Iterator[pa.RecordBatch]:
    """Yield these rows in record batches of bounded size. Raises UndecodableBody."""
    for part in cut(logged.rows(), MOST_ROWS, MOST_PARTITION_BYTES):
        yield record_batch(part, columns)


def _connections(config: SourceConfig, settings: LogConfig) -> _Kept:
    """Return connections to the storage account and the folder.

    Reuses the connections of an earlier task in the same process.
    """
    key = digest_of(pickle.dumps((config.account, settings.place, settings.account)))
    found = _kept.get(key)
    if found is None:
        found = _Kept(
            QueueClient(config.account),
            PlanFolder(log_store(settings.place, settings.account, EXECUTORS), config.account.name),
        )
        _kept[key] = found
        while len(_kept) > _KEPT:
            _, oldest = _kept.popitem(last=False)
            oldest.client.close()
            oldest.folder.close()
    _kept.move_to_end(key)
    return found
