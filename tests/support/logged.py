"""A query with a write-ahead log in the simulation: its checkpoint, its processes, and a sink.

The sink skips the batch numbers that it has, as Spark's file sinks and Delta's txnVersion do. Every
batch that is asked for again must give the same rows.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from doubles import AtOnce
from log_stores import MemoryLogStore
from simulation import Spark
from turns import Killed
from world import Simulated

from spark_azqueue.errors import ServiceError
from spark_azqueue.options.choices import OnUndecodable
from spark_azqueue.options.log import LogConfig, LogPlace
from spark_azqueue.service.blobs.store import Removals
from spark_azqueue.source.columns import Columns, source_columns
from spark_azqueue.source.large_bodies import carried
from spark_azqueue.source.log.consumer import LogConsumer
from spark_azqueue.source.log.segment import decode_segment
from spark_azqueue.source.rows import record_batches

Row = tuple[str, str]
"""Message id and body, the same text for either type; of one that does not decode, see NO_BODY."""

NO_BODY = "(not decoded) "
"""With onUndecodable=permissive, before the text in _corrupt_record, if there is that column."""


@dataclass
class Blobs:
    """The blobs of large bodies, by name. A delete of one of `refused` fails."""

    names: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    deleted: list[str] = field(default_factory=list)
    before_delete: Callable[[], None] = lambda: None

    def delete(self, name: str) -> None:
        self.before_delete()
        if name in self.refused:
            raise ServiceError(f"could not delete blob '{name}': HTTP 403", status=403)
        self.names.discard(name)
        self.deleted.append(name)

    def close(self) -> None:
        pass


@dataclass
class Sink:
    """What the query has written, by batch number."""

    batches: dict[int, list[Row]] = field(default_factory=dict)

    def rows(self) -> Counter[Row]:
        return Counter(row for rows in self.batches.values() for row in rows)


@dataclass
class SparkLogs:
    """Spark's offset log and commit log. An offset is written once: `add` fails if it is there."""

    offsets: list[dict[str, Any]] = field(default_factory=list)
    commits: int = 0


def a_row(row: dict[str, Any]) -> Row:
    """A row of the source, or of a log that is read."""
    body, corrupt = row["body"], row.get("_corrupt_record")
    text = NO_BODY + (corrupt or "") if body is None else body
    return row["message_id"], text if isinstance(text, str) else text.decode("latin-1")


def without_texts(rows: Iterable[Row]) -> list[Row]:
    """These rows, without the texts of those that have no body: no column may have had them."""
    return [(key, NO_BODY if body.startswith(NO_BODY) else body) for key, body in rows]


def _as_texts(parts: list[list[Row]]) -> list[list[Row]]:
    """The same for a column of texts, which holds no bytes: with permissive that is a null body."""
    return [[(key, body if body.isascii() else NO_BODY) for key, body in part] for part in parts]


class BatchFailedError(Exception):
    """A row made its batch fail: the query ends, and its process is asked to close."""


class FencedError(Exception):
    """Spark's own: another driver has written this batch's offset."""


@dataclass
class LoggedSpark(Spark):
    """A driver of the query. Several may share checkpoint, sink and store: restarts, zombies."""

    store: MemoryLogStore = field(default_factory=MemoryLogStore)
    checkpoint: SparkLogs = field(default_factory=SparkLogs)
    sink: Sink = field(default_factory=Sink)
    history: dict[int, list[list[Row]]] = field(default_factory=dict)
    """The partitions of each batch as they were first given out."""
    settings: dict[str, Any] = field(default_factory=dict)
    blobs: Blobs | None = None
    """With largeBody=blob, where the bodies are."""
    is_poison: Callable[[str], bool] = lambda _: False
    """Bodies that make their batch fail."""
    as_sent: Callable[[str, str], str] = lambda message_id, body: body
    """The text from which the body of this message was made."""
    once: bool = False
    """Trigger.Once: Spark passes no limit."""
    is_at_work: bool = False
    """It is in the middle of something, perhaps in a pause."""

    def start(self) -> None:
        """Start the query's process, as a restart does: it plans what is not committed."""
        self.start_only_the_process()
        at = self.checkpoint
        if self.bare and at.offsets:
            assert self.planned(len(at.offsets) - 1, probe=True) == []
        while len(at.offsets) > at.commits:
            batch = at.commits
            self.run_batch(batch)
            if at.commits != batch:
                self._kill()
                raise FencedError
            at.commits += 1

    def run_replay(self, meanwhile: Callable[[], None]) -> None:
        """Start the process; this happens while the batch runs that is not committed."""
        self.start_only_the_process()
        self.run_batch(self.checkpoint.commits, meanwhile)
        self.checkpoint.commits += 1

    def replays(self) -> list[list[Row]]:
        """Plan the batch that is not committed."""
        return self.planned(self.checkpoint.commits)

    def start_only_the_process(self) -> None:
        """Start the query's process, and call nothing."""
        config = self.config()
        self._queues = Simulated(config.account, self.service)
        place = LogPlace(container=None, folder="/memory")
        settings = LogConfig(place, None, **{"retention": 10, **self.settings})
        self.consumer = LogConsumer(  # type: ignore[assignment]
            config,
            self.columns(),
            settings,
            store=self.store,
            removals=self._removals(),
            runtime=self.runtime(),
        )
        self.runs += 1
        self.given_in_run.clear()
        if self.available_now:
            assert self.consumer
            self.consumer.freeze_cutoff()

    def columns(self) -> Columns:
        config = self.config()
        permissive = config.on_undecodable is OnUndecodable.PERMISSIVE
        return carried(source_columns(config.body_type, permissive=permissive), config)

    def _removals(self) -> Removals | None:
        return Removals(self.blobs, AtOnce(1, "blobs")) if self.blobs else None  # type: ignore[arg-type]

    def _before(self, batch: int) -> dict[str, Any]:
        assert self.consumer
        return self.checkpoint.offsets[batch - 1] if batch else self.consumer.initial

    def planned(self, batch: int, *, probe: bool = False) -> list[list[Row]]:
        """The rows of a batch, by partition."""
        assert self.consumer
        end = self.checkpoint.offsets[batch]
        start = end if probe else self._before(batch)
        return [
            [a_row(row) for each in record_batches(partition) for row in each.to_pylist()]
            for partition in self.consumer.plan(start, end)
        ]

    def run_batch(self, batch: int, meanwhile: Callable[[], None] | None = None) -> None:
        """The batch's rows are planned, and written if the sink does not have this batch."""
        parts = self.planned(batch)
        assert parts == self.planned(batch), "the same rows, however often it is planned"
        self._compare(batch, parts)
        if meanwhile:
            meanwhile()
        rows = [(key, self.as_sent(key, body)) for part in parts for key, body in part]
        if any(self.is_poison(text) for _, text in rows):
            self.stop()
            raise BatchFailedError
        if batch not in self.sink.batches:
            self.sink.batches[batch] = rows

    def _compare(self, batch: int, parts: list[list[Row]]) -> None:
        """Whoever plans it, it has the same rows, but for those of segments that were given up."""
        parts = [without_texts(part) for part in parts]
        before = self.history.setdefault(batch, parts)
        if parts == before or _as_texts(parts) == _as_texts(before):
            return
        at = self.checkpoint.offsets
        first = int(at[batch - 1]["batch"]) + 1 if batch else 1
        given_up = self.given_up()
        assert any(first <= number <= int(at[batch]["batch"]) for number in given_up), (
            "the same rows, whoever plans it"
        )
        longer, shorter = sorted((before, parts), key=len, reverse=True)
        assert all(part in longer for part in shorter)
        self.history[batch] = longer

    def given_up(self) -> set[int]:
        """Numbers of the segments that were given up, as long as the log keeps that."""
        return {
            int(name.removeprefix("outcomes/"))
            for name, data in self.store.objects.items()
            if name.startswith("outcomes/") and b'"committed"' not in data
        }

    def trigger(
        self,
        *,
        dies: str = "",
        fails_on: Callable[[str], bool] | None = None,
        meanwhile: Callable[[], None] | None = None,
    ) -> bool:
        """One round of Spark's loop. Returns False if there was nothing new. dies: see `Spark`."""
        try:
            with self._at_work():
                return self._trigger(dies, meanwhile)
        except (BatchFailedError, Killed):
            return True

    def _trigger(self, dies: str, meanwhile: Callable[[], None] | None) -> bool:
        if self.consumer is None:
            self.start()
        consumer, at = self.consumer, self.checkpoint
        assert consumer
        batch = at.commits
        start = self._before(batch)
        most = None if self.bare or self.once else self.config().max_messages
        end = consumer.latest(None if self.bare else start, most)
        another = self._another_has_data()
        if end == start and at.offsets and not another:
            return False
        if dies == "before_log":
            return self._kill()
        if len(at.offsets) > batch:
            self._kill()
            raise FencedError
        at.offsets.append(end)
        if batch:
            consumer.committed(start)
        if dies == "after_log":
            return self._kill()
        if end == start and batch:  # another load has data: nothing is planned of this one
            self.sink.batches.setdefault(batch, [])
            at.commits += 1
            return False
        if dies == "planned":
            self.planned(batch)
            return self._kill()
        if dies == "batch":
            self.planned(batch)
            consumer.close()
            return self._kill()
        self.run_batch(batch, meanwhile)
        if dies == "after_sink":
            return self._kill()
        if at.commits != batch:
            self._kill()
            raise FencedError
        at.commits += 1
        return bool(end != start)

    def stop(self) -> None:
        """query.stop(): perhaps it is killed meanwhile."""
        with contextlib.suppress(Killed), self._at_work():
            super().stop()

    @contextlib.contextmanager
    def _at_work(self) -> Iterator[None]:
        self.is_at_work, before = True, self.is_at_work
        try:
            yield
        finally:
            self.is_at_work = before

    def dies_at(self, calls: int, *, after_a_put: bool = False) -> None:
        """It is killed at the store's call after so many more, or after the put that follows."""

        def dies() -> None:
            self.kill()  # from now on it sends nothing, whatever it still tries
            raise Killed

        if after_a_put:
            self.store.after_put(calls, dies)
        else:
            self.store.pause(calls, dies)

    def logged_rows(self) -> set[Row]:
        """What stands in the log's segments, but for those that were given up."""
        given_up = {f"seg/{number:012d}" for number in self.given_up()}
        found = {name for name in self.store.objects if name.startswith("seg/")} - given_up
        segments = (self.store.objects[name] for name in found)
        return {
            (m.message_id, m.text) for data in segments for m, _ in decode_segment(data).received
        }

    def restart_with(self, **options: str) -> None:
        """The query stops, and its next process has these options as well."""
        self.stop()
        self.next_start_with(**options)

    def _ends(self) -> list[int]:
        """Behind which segment each batch of Spark begins, and the last one ends."""
        return [0, *(int(offset["batch"]) for offset in self.checkpoint.offsets)]

    def has_rows(self) -> bool:
        """True if the checkpoint knows the log: one of its batches had rows."""
        return self._ends()[-1] > 0

    def has_batches_without_rows(self) -> bool:
        """True if some batch has no rows of this load: of another one, or the queue was empty."""
        return any(before == end for before, end in pairwise(self._ends()))

    def roll_back(self, batches: int) -> None:
        """The user stops the query and removes its newest offsets and commits; the output stays.

        Back to a batch that has no rows of this load at most: it need not come again, and then the
        output's numbers would be those of other batches (`docs/exactly-once.md`). Nor back to a
        checkpoint without any rows: that counts as a lost one, which `writeAheadLogStart` allows.
        """
        self.kill()
        ends = self._ends()
        left = self.checkpoint.commits
        while batches and left and ends[left] > ends[left - 1]:
            if left > 1 and ends[left - 1] == 0 and self.settings.get("start"):
                break
            left, batches = left - 1, batches - 1
        del self.checkpoint.offsets[left:]
        self.checkpoint.commits = left
