"""A query with a write-ahead log in the simulation: its processes, and a sink.

The sink skips the batch numbers that it has, as Spark's file sinks and Delta's txnVersion do. Every
batch that is asked for again must give the same rows. Several drivers may share one checkpoint.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from doubles import AtOnce
from log_stores import MemoryLogStore

from spark_azqueue.errors import (
    AzQueueError,
    CheckpointMismatch,
    LogConflict,
    LogDamaged,
    ServiceError,
)
from spark_azqueue.options.choices import OnUndecodable
from spark_azqueue.options.log import LogConfig, LogPlace
from spark_azqueue.options.parsers import Retention
from spark_azqueue.service.blobs.store import Removals
from spark_azqueue.source.columns import Columns, source_columns
from spark_azqueue.source.large_bodies import carried
from spark_azqueue.source.log.consumer import LogConsumer
from spark_azqueue.source.log.segment import decode_segment

from .spark import NO_BODY, FencedError, Row, Spark
from .turns import Killed

STOPS = (ServiceError, LogConflict, LogDamaged, CheckpointMismatch, FencedError)
"""How a driver may end that finds another one at work."""


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


def without_texts(rows: Iterable[Row]) -> list[Row]:
    """These rows, without the texts of those that have no body: no column may have had them."""
    return [(key, NO_BODY if body.startswith(NO_BODY) else body) for key, body in rows]


def _as_texts(parts: list[list[Row]]) -> list[list[Row]]:
    """The same for a column of texts, which holds no bytes: with permissive that is a null body."""
    return [[(key, body if body.isascii() else NO_BODY) for key, body in part] for part in parts]


@dataclass
class LoggedSpark(Spark):
    """A driver of the query. Several may share checkpoint, sink and store: restarts, zombies."""

    store: MemoryLogStore = field(default_factory=MemoryLogStore)
    sink: Sink = field(default_factory=Sink)
    history: dict[int, list[list[Row]]] = field(default_factory=dict)
    """The partitions of each batch as they were first given out."""
    settings: dict[str, Any] = field(default_factory=dict)
    blobs: Blobs | None = None
    """With largeBody=blob, where the bodies are."""

    def run_replay(self, meanwhile: Callable[[], None]) -> None:
        """Start the process; this happens while the batch runs that is not committed."""
        self.start_only_the_process()
        self.run_batch(self.checkpoint.commits, meanwhile, is_repeated=True)

    def replays(self) -> list[list[Row]]:
        """Plan the batch that is not committed."""
        return self.planned(self.checkpoint.commits)

    def made_consumer(self) -> LogConsumer:
        place = LogPlace(container=None, folder="/memory")
        return LogConsumer(
            self.config(),
            self.columns(),
            LogConfig(place, None, **{"retention": Retention(10), **self.settings}),
            store=self.store,
            removals=self._removals(),
            runtime=self.runtime(),
        )

    def columns(self) -> Columns:
        config = self.config()
        permissive = config.on_undecodable is OnUndecodable.PERMISSIVE
        return carried(source_columns(config.body_type, permissive=permissive), config)

    def _removals(self) -> Removals | None:
        return Removals(self.blobs, AtOnce(1, "blobs")) if self.blobs else None  # type: ignore[arg-type]

    def gave(self, batch: int, parts: list[list[Row]], *, is_repeated: bool) -> None:
        self._compare(batch, parts)

    def writes(self, batch: int, rows: list[Row]) -> None:
        self.sink.batches.setdefault(batch, rows)

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

    def loses(self, name: str, flips: int | None = None) -> None:
        """The folder loses an object, or a byte of it is flipped, while no process runs.

        The query goes on without it, or stops and says so: then the object is put back.
        """
        store = self.store
        store.forget_pauses()
        store.land()  # by hand, and so after anything that was under way
        before, is_removed = store.objects[name], flips is None
        if is_removed and name.startswith("seg/") and int(name[4:]) > self._ends()[-1]:
            return  # no offset names it, so nothing can tell that it is missing
        outcomes = {
            each: data for each, data in store.objects.items() if each.startswith("outcomes/")
        }
        self.kill()
        if flips is None:
            store.remove(name)
        else:
            store.damage(name, flips % len(before))
        with contextlib.suppress(AzQueueError, FencedError):
            self.trigger()
        self.kill()
        is_back = name not in store.objects if is_removed else name in store.objects
        if name.startswith(("seg/", "pending/")) and (is_removed or is_back):
            store.objects[name] = before  # from a backup; if the query has removed it, it is gone
        elif name == "log.json" and is_back:
            store.objects[name] = before  # if it has not made a new one, as for an empty folder
        for each, outcome in outcomes.items():
            if each.replace("outcomes/", "seg/") in store.objects:
                store.objects[each] = outcome

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
        if any(before == end for before, end in pairwise(ends[left:])):
            return  # an engine that plans ahead may have run it, and has not committed it
        while batches and left and ends[left] > ends[left - 1]:
            if left > 1 and ends[left - 1] == 0 and self.settings.get("start"):
                break
            left, batches = left - 1, batches - 1
        del self.checkpoint.offsets[left:]
        self.checkpoint.commits = left
