"""Each file once, in a model of queue, container, query and output that dies at any step.

The queue gives events at least once, in any order. The query takes some, has their list put into
the log, writes the output of the batch, and commits, which deletes the events. It may die before
and after each of these; a batch that was begun and not committed comes again, with its events or
without them. A second run of the same query may put a list of the same batch or of the next one at
any time: then the first one stops, and a third goes on with what the log has.

Between any two batches, also between a batch and its repetition, files are written, emptied,
filled, broken, deleted, uploaded again, locked and unlocked; a folder's marker is announced like a
file; somebody forges events of a path that no blob can have; and the text
of a broken file forges a cause. Nobody can look for a moment, and the file can be read in the next.
Hadoop in the driver may have no credential, so that only Spark's readers can look.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from budget import EXAMPLES, more
from fake_storage import Container, Reading, Thing
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.errors import PySparkException

from spark_azqueue.errors import LogConflict
from spark_azqueue.files.batches import Arrivals
from spark_azqueue.files.decide import Announced, without
from spark_azqueue.files.log import FileLog, Means, list_of
from spark_azqueue.files.memory import Bounds
from spark_azqueue.files.reading import Files
from spark_azqueue.files.rules import Rules, roots_of
from spark_azqueue.options.log import log_place

HERE = "shopdata/landing"
NEVER = "never"
FOLDER = "d"
PATHS = ["a", "b", f"{FOLDER}/a"]
LONG = "日" * 5_000


class DiedError(Exception):
    """The process ended."""


class Query(Arrivals):
    """One run of the query, whose batches are events."""

    model: Model

    @property
    def log(self) -> FileLog:
        return self._opened()

    def _put_back(self, spark: Any, events: Any) -> None:
        self.model.queue += events

    def _etags(self, asked: Any) -> dict[tuple[str, str], str] | None:
        return self.model.etags(asked)

    def _events(self, batch: Any, spark: Any) -> list[Announced]:
        return batch.events


class Model:
    """One query, its queue, its container and its output."""

    def __init__(
        self, folder: Path, *, overwrites: bool, replays_events: bool, only_spark: bool
    ) -> None:
        self.folder, self.overwrites, self.replays_events = folder, overwrites, replays_events
        self.rules = Rules(roots_of(HERE), None, overwrites)
        (root,) = self.rules.roots.values()
        self.container = Container(root, {FOLDER: Thing("folder")}, only_spark=only_spark)
        self.container.sparkContext = SimpleNamespace(getLocalProperty=lambda name: None)
        self.queue: list[Announced] = []
        self.output: dict[int, list[tuple[str, str]]] = {}
        self.written_at: dict[int, int] = {}
        self.locked: dict[str, Thing] = {}
        self.announced: set[tuple[str, str]] = set()
        self.batch, self.under_way, self.leased = 0, False, []
        self.said = self.changes = 0
        self.dies = NEVER
        self.query = self.started()

    def started(self) -> Query:
        """A run, as after a restart."""
        query = Query(
            options={},
            queue="arrived",
            trusted=[HERE],
            rules=self.rules,
            files=Files(
                self.rules.roots,
                "json",
                "id INT",
                {},
                self.container.is_there,
                self.container.looks,
            ),
            each=self.each,
            place=log_place(f"file:{self.folder}/log"),
            account=SimpleNamespace(name="shopdata"),  # type: ignore[arg-type]
            blobs=None,
            bounds=Bounds(),
            most=2,
            clock=lambda: 100.0,
        )
        query.model = self
        return query

    @property
    def log(self) -> FileLog:
        return self.query.log

    def write(self, path: str, kind: str, copies: int) -> None:
        """Write a file; its event comes so often."""
        self.say(path, "created", copies)
        version = f"0x{self.said}"
        self.locked.pop(path, None)
        self.container.things[path] = Thing(kind, version)
        if copies:
            self.announced.add((path, version))

    def delete(self, path: str, kind: str, copies: int) -> None:
        self.say(path, "deleted", copies)
        self.locked.pop(path, None)
        self.container.things.pop(path, None)

    def lock(self, path: str, kind: str, copies: int) -> None:
        """Nobody may open the file, until it is unlocked."""
        self.changes += 1
        if path in self.locked:
            self.container.things[path] = self.locked.pop(path)
        elif path in self.container.things:
            self.locked[path] = self.container.things[path]
            self.container.things[path] = Thing("locked", self.locked[path].version)

    def mark(self, path: str, kind: str, copies: int) -> None:
        """Announce the folder as if it were a file."""
        self.say(FOLDER, "created", copies)

    def forge(self, path: str, kind: str, copies: int) -> None:
        """Announce a path that no blob has: its list could not be read, nor its event put back."""
        self.say(LONG, "created", copies)

    def say(self, path: str, change: str, copies: int) -> None:
        self.said += 1
        self.changes += 1
        event = Announced(HERE, path, change, f"0x{self.said}", "", f"{self.said:09}", 5.0)
        self.queue += [event] * copies

    def etags(self, asked: list[Any]) -> dict[tuple[str, str], str] | None:
        things = self.container.things.items()
        return {(HERE, path): thing.version for path, thing in things} if self.overwrites else None

    def each(self, frame: Reading, number: int) -> None:
        if self.dies == "output":
            raise DiedError
        rows = frame.rows()
        if self.written_at.setdefault(number, self.changes) == self.changes:
            assert self.output.get(number, rows) == rows, "the same files again"
        self.output[number] = rows
        if self.dies == "commit":
            raise DiedError

    def run(self, taken: list[Announced], dies: str) -> None:
        """One batch, which dies before one of the steps, or after the last of them."""
        again, self.under_way, self.dies = self.under_way, True, dies
        if not again:
            self.leased = taken
        self.container.hiccup = dies == "hiccup"
        events = self.leased if not again or self.replays_events else []
        try:
            if dies == "beside":
                self.race(events)
            if dies in ("put", "beside"):
                raise DiedError
            self.query(SimpleNamespace(events=events, sparkSession=self.container), self.batch)  # type: ignore[arg-type]
            self.check_output()
            if events or not self.leased or self.replays_events:
                for event in self.leased:
                    self.queue.remove(event)
            self.leased, self.under_way, self.batch = [], False, self.batch + 1
            if dies != NEVER:
                raise DiedError
        except (PySparkException, OSError):
            assert self.locked or self.container.hiccup, "only a storage stops the query"
            self.query = self.started()
        except DiedError:
            self.query = self.started()
        finally:
            self.container.hiccup = False

    def check_output(self) -> None:
        """A batch that is done has rows of the files of its list alone, without those set aside."""
        record = self.log.record(self.batch)
        listed = without(record.files, self.log.bad(self.batch)) if record else []
        rows = {path for path, _ in self.output.get(self.batch, [])}
        assert rows <= {file.path for file in listed}, "rows of a file that was set aside"

    def race(self, events: list[Announced]) -> None:
        """Another run of the same batch puts its list first."""
        if not events or self.batch <= self.log.newest:
            return

        def put(query: Query) -> None:
            look = query.files.look
            means = Means(
                self.etags,  # type: ignore[arg-type]
                lambda files: look(self.container, files),  # type: ignore[arg-type]
                query.most,
                self.queue.extend,
            )
            list_of(query.log, self.rules, self.batch, events, means, 101.0)

        assert self.log.newest < self.batch
        twin = self.started()
        put(twin)
        if twin.log.newest == self.batch:
            with pytest.raises(LogConflict, match="another query wrote the list"):
                put(self.query)

    def end(self) -> Counter[tuple[str, str]]:
        """Unlock everything, read the queue to its end, and say how often each version is read."""
        for path in [*self.locked]:
            self.lock(path, "", 0)
        while self.queue or self.under_way:
            self.run(self.queue[:3], NEVER)
        return Counter(row for rows in self.output.values() for row in rows)


KINDS = st.sampled_from(["good", "good", "empty", "empty", "broken", "forged"])
CHANGES = st.sampled_from(["write", "write", "write", "delete", "lock", "mark", "forge"])
ACTIONS = st.lists(
    st.one_of(
        st.tuples(CHANGES, st.sampled_from(PATHS), KINDS, st.integers(0, 3)),
        st.tuples(
            st.just("run"),
            st.randoms(use_true_random=False),
            st.sampled_from(["put", "output", "commit", "beside", "hiccup", NEVER]),
        ),
    ),
    max_size=40,
)


@pytest.mark.parametrize(
    ("overwrites", "replays_events"),
    [(False, True), (True, False), *more((False, False), (True, True))],
)
@given(actions=ACTIONS, only_spark=st.booleans())
@settings(max_examples=7 * EXAMPLES)
def test_each_file_is_read_once(
    overwrites: bool, replays_events: bool, only_spark: bool, actions: list[tuple[Any, ...]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        model = Model(
            Path(folder),
            overwrites=overwrites,
            replays_events=replays_events,
            only_spark=only_spark,
        )
        for kind, *given in actions:
            if kind == "run":
                chance, dies = given
                model.run(chance.sample(model.queue, min(len(model.queue), 3)), dies)
            else:
                getattr(model, kind)(*given)

        read = model.end()

        assert max(read.values(), default=0) <= 1, "a version twice"
        paths = Counter(path for path, _ in read)
        for path, thing in model.container.things.items():
            if thing.kind == "good" and (path, thing.version) in model.announced:
                assert read[path, thing.version] if overwrites else paths[path], "not read"
        if not overwrites:
            assert max(paths.values(), default=0) <= 1, "a path twice"
        assert paths.keys() <= {path for path, _ in model.announced}
