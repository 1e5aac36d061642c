"""The offset of a stream that reads a log: a position between its batches. Pure.

    {"version": 4, "log": "3f2a…", "first": 18, "batch": 42}

`batch` is the newest batch of the log that was given out, `first` the one with which the
micro-batch that ends there began. So a micro-batch is repeated as it was, also the first one of a
checkpoint.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spark_azqueue.conditions import Condition
from spark_azqueue.errors import CheckpointMismatch

from ..offsets import HISTORY_VERSION, OffsetJson

_LOG = re.compile(r"[0-9a-f]{32}")
_MOST = 10**12


@dataclass(frozen=True, slots=True)
class HistoryOffset:
    """A position: batches from `first` to `batch` of this log are one micro-batch.

    log: "" for the start, before anything was read.
    """

    log: str = ""
    first: int = 1
    batch: int = 0

    def to_json(self) -> OffsetJson:
        """The value for Spark: plain values, always in the same key order."""
        return {
            "version": HISTORY_VERSION,
            "log": self.log,
            "first": self.first,
            "batch": self.batch,
        }

    @classmethod
    def from_json(cls, offset: Mapping[str, Any]) -> HistoryOffset:
        """Read it back. Raises CheckpointMismatch."""
        found = offset if isinstance(offset, Mapping) else {}
        log, first, batch = (found.get(name) for name in ("log", "first", "batch"))
        if (
            found.get("version") == HISTORY_VERSION
            and isinstance(log, str)
            and (_LOG.fullmatch(log) or not log)
            and type(first) is int
            and type(batch) is int
            and 1 <= first <= batch + 1 <= _MOST
        ):
            return cls(log, first, batch)
        raise CheckpointMismatch(
            "the checkpoint is not one of a stream that reads a write-ahead log (readLog), or it is"
            " damaged: restore it, or start with a new checkpointLocation",
            condition=Condition.LOG_CHECKPOINT_MISMATCH,
        )
