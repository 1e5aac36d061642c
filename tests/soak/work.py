"""What Spark does in a run: reads queues into a folder, or is a chain of queues into a table."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import pyarrow.parquet as pq
from audit import batches, rows_in
from decoding import ways_of
from table import committed
from targets import MIDDLE, Fake, Middle, Target

_HERE = Path(__file__).parent

_EMPTY_BYTES = 64
"""No batch with rows is that small in the sink; a replayed one, which has none, is smaller."""
_SLOW_VISIBILITY_S = 6
_TASKS_VISIBILITY_S = 30
"""The shortest with leaseOn=executors."""
_SLOW_PAUSE_S = 4.0
_PAUSE_S = 0.4
_SLOW_BATCH = 300


class Work(Protocol):
    """A Spark program, where it keeps its state, and how far it is."""

    script: Path
    is_exact: bool
    """No message may come twice."""
    environment: Mapping[str, str]
    """More variables for its processes."""

    def settings(self, number: int, *, slow: bool) -> dict[str, Any]:
        """For the script, in its life of this number. slow: slow batches under short leases."""

    def visibility_s(self, *, slow: bool) -> int:
        """For how long its leases are."""

    def finished(self) -> int:
        """Grows with each batch that it finishes."""

    def is_under_way(self, number: int, had: int) -> bool:
        """True if this life has finished a batch with rows. had: `finished` before it."""

    def batches(self) -> tuple[int, int]:
        """The newest batch that Spark has committed, and the newest it has logged (-1: none)."""

    def is_done(self, sent: int) -> bool:
        """True if so many messages are in the output, and nothing is under way.

        Called if the first queues are empty.
        """

    def left(self) -> int:
        """How many messages are left in queues, in which none should be."""


class _Reader:
    """The part that both share: a query that reads the queues of a target."""

    environment: Mapping[str, str] = {}

    def __init__(self, given: argparse.Namespace, target: Target, folder: Path) -> None:
        self._given = given
        self._target = target
        self._folder = folder
        per_life = given.messages // (given.kills + 1)
        self._batch = max(1, min(1_500, given.backlog // 3, per_life // 2))

    @property
    def options(self) -> dict[str, str]:
        """The reader's options that are the same in each of its lives."""
        return {
            "secret.connectionString": self._target.connection_string,
            "queue": ",".join(self._target.queues),
            **self._log_options("log"),
        }

    def visibility_s(self, *, slow: bool) -> int:
        """For how long its leases are."""
        if self._given.lease_on == "executors":
            return max(_TASKS_VISIBILITY_S, int(self._given.visibility))
        return _SLOW_VISIBILITY_S if slow else int(self._given.visibility)

    def _sizes(self, *, slow: bool) -> dict[str, str]:
        return {
            "visibilityTimeout": str(self.visibility_s(slow=slow)),
            "maxMessagesPerTrigger": str(_SLOW_BATCH if slow else self._batch),
        }

    def _decoding(self, life: int) -> dict[str, str]:
        return ways_of(self._given.seed, life) if self._given.change_decoding else {}

    def _with_texts(self, life: int) -> dict[str, str]:
        """The same, and a column always has the texts of what does not decode."""
        ways = self._decoding(life)
        return ways and ways | {"onUndecodable": "permissive"}

    def _place(self, name: str) -> str:
        return f"file:{self._folder}/{name}" if self._given.log == "file" else f"blob:soak/{name}"

    def _log_options(self, name: str) -> dict[str, str]:
        if self._given.log is None:
            return {}
        mode = {"deleteAfter": self._given.delete_after} if self._given.delete_after else {}
        if self._given.lease_on:
            mode["leaseOn"] = self._given.lease_on
        kept = "10"
        mode["maxDequeueCount"] = str(self._given.max_dequeue_count or "none")
        if self._given.max_dequeue_count:
            kept = "100000"  # at the end, verdicts tell which rows may have come again
        return {"writeAheadLog": self._place(name), "writeAheadLogRetention": kept, **mode}


class Hop(_Reader):
    """job.py: queues into a folder of files."""

    script = _HERE / "job.py"

    def __init__(self, given: argparse.Namespace, target: Target, folder: Path) -> None:
        super().__init__(given, target, folder)
        self.is_exact = given.log is not None
        self._checkpoint = folder / "checkpoint"
        self.sink = folder / "sink"
        self.sink.mkdir()

    def settings(self, number: int, *, slow: bool) -> dict[str, Any]:
        """For the script."""
        return {
            "life": number,
            "sink": str(self.sink),
            "exact": self.is_exact,
            "checkpoint": str(self._checkpoint),
            "pause_s": _SLOW_PAUSE_S if slow else _PAUSE_S,
            "options": self.options | self._sizes(slow=slow) | self._decoding(number),
        }

    def finished(self) -> int:
        """Grows with each batch that it finishes."""
        return len(list(self.sink.glob("*.json")))

    def is_under_way(self, number: int, had: int) -> bool:
        """True if this life has finished a batch with rows."""
        if self.is_exact:
            return self.finished() > had
        return any(f.stat().st_size > _EMPTY_BYTES for f in self.sink.glob(f"{number:04}-*.json"))

    def batches(self) -> tuple[int, int]:
        """The newest batch that Spark has committed, and the newest it has logged."""
        return batches(self._checkpoint)

    def is_done(self, sent: int) -> bool:
        """True if everything is in the output, and Spark has committed it."""
        committed, logged = self.batches()
        return not self.is_exact or (committed == logged and rows_in(self.sink) >= sent)

    def left(self) -> int:
        """How many messages are left in queues."""
        return self._target.count()


class Chain(_Reader):
    """chain_job.py: queues, Spark, a queue, Spark, a table. The sink in the middle has a log."""

    script = _HERE / "chain_job.py"
    is_exact = True

    def __init__(self, given: argparse.Namespace, target: Fake, folder: Path) -> None:
        super().__init__(given, target, folder)
        self._fake = target
        self._checkpoints = [folder / "checkpoint-1", folder / "checkpoint-2"]
        self.table = folder / "table"
        self.told = folder / "told"
        """What the sink said of each batch, a JSON object in each line."""
        paths = [str(_HERE / "telling"), os.environ.get("PYTHONPATH", "")]
        self.environment = {
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "SOAK_TOLD": str(self.told),
        }

    def settings(self, number: int, *, slow: bool) -> dict[str, Any]:
        """For the script."""
        account = {"secret.connectionString": self._target.connection_string}
        sizes = self._sizes(slow=slow)
        middle = account | {"queue": MIDDLE}
        return {
            "life": number,
            "checkpoints": [str(folder) for folder in self._checkpoints],
            "table": str(self.table),
            "pause_s": _SLOW_PAUSE_S if slow else _PAUSE_S,
            "first": self.options | sizes | self._decoding(number),
            "sink": middle | {"transactionLog": self._place("transactions")},
            "second": middle | self._log_options("log-2") | sizes | self._with_texts(-number),
        }

    def finished(self) -> int:
        """Grows with each batch that it finishes."""
        return sum(batches(folder)[0] for folder in self._checkpoints)

    def is_under_way(self, number: int, had: int) -> bool:
        """True if this life has finished a batch with rows."""
        return self.finished() > had

    def batches(self) -> tuple[int, int]:
        """Of both hops, added up."""
        both = [batches(folder) for folder in self._checkpoints]
        return sum(committed for committed, _ in both), sum(logged for _, logged in both)

    def is_done(self, sent: int) -> bool:
        """True if everything is in the output, and Spark has committed it."""
        committed, logged = self.batches()
        return committed == logged and not self.left() and self._rows() >= sent

    def left(self) -> int:
        """How many messages are left in queues."""
        return self._target.count() + self.middle().left

    def middle(self) -> Middle:
        """What is in the queue in the middle."""
        return self._fake.middle()

    def _rows(self) -> int:
        return sum(pq.read_metadata(path).num_rows for path in committed(self.table))
