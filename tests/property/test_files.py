"""Each file once, in a model of queue, query and output that dies at any step.

The queue gives events at least once, in any order. The query takes some, has their list put into
the log, writes the output of the batch, and commits, which deletes the events. It may die before
and after each of these; a batch that was begun and not committed comes again, with its events or
without them. A second run of the same query may put a list of the same batch or of the next one at
any time: then the first one stops, and a third goes on with what the log has.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from budget import EXAMPLES
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spark_azqueue.arrivals.decide import Announced, Aside, without
from spark_azqueue.arrivals.lists import list_of
from spark_azqueue.arrivals.log import FileLog
from spark_azqueue.arrivals.memory import Bounds, File, Memory
from spark_azqueue.arrivals.rules import Rules, roots_of
from spark_azqueue.errors import LogConflict
from spark_azqueue.service.names import FILES
from spark_azqueue.store.files import FileStore

HERE = "shopdata/landing"
STEPS = ("events", "put", "output", "commit")
NEVER = "never"


class Model:
    """One query, its queue, its container and its output."""

    def __init__(self, folder: Path, *, overwrites: bool, replays_events: bool) -> None:
        self.folder, self.overwrites, self.replays_events = folder, overwrites, replays_events
        self.rules = Rules(roots_of(HERE), None, overwrites)
        self.versions: dict[str, str] = {}
        self.queue: list[Announced] = []
        self.output: dict[int, list[File]] = {}
        self.batch, self.under_way, self.leased = 0, False, []
        self.bad: set[str] = set()
        self.said = 0
        self.log = self.opened()

    def opened(self) -> FileLog:
        memory = Memory(Bounds(), allow_overwrites=self.overwrites)
        log = FileLog(FileStore(str(self.folder / "log"), FILES), "shopdata", memory)
        log.open()
        return log

    def write(self, path: str, copies: int) -> None:
        self.said += 1
        self.versions[path] = f"0x{self.said}"
        event = Announced(HERE, path, "created", f"0x{self.said}", "", f"{self.said:09}", 5.0)
        self.queue += [event] * copies

    def etags(self, asked: list[File]) -> dict[tuple[str, str], str] | None:
        return (
            {(HERE, path): etag for path, etag in self.versions.items()}
            if self.overwrites
            else None
        )

    def run(self, taken: list[Announced], dies: str) -> None:
        """One batch, which dies before one of the steps, or after the last of them."""
        again, self.under_way = self.under_way, True
        if not again:
            self.leased = taken
        events = self.leased if not again or self.replays_events else []
        if dies != "put":
            self.finish(events, dies)
        if dies != NEVER:
            self.log = self.opened()

    def finish(self, events: list[Announced], dies: str) -> None:
        if dies == "beside" and events and self.batch > self.log.newest:
            twin = self.opened()
            list_of(twin, self.rules, self.batch, events, self.etags, 101.0)
            if twin.newest == self.batch:
                with pytest.raises(LogConflict, match="another query wrote the list"):
                    list_of(self.log, self.rules, self.batch, events, self.etags, 100.0)
            return
        record = list_of(self.log, self.rules, self.batch, events, self.etags, 100.0)
        if dies == "output":
            return
        if record:
            rest = without(record.files, self.log.bad(self.batch))
            broken = [Aside(file, "broken") for file in rest if file.path in self.bad]
            if broken:
                self.log.put_bad(self.batch, broken)
            written = without(rest, broken)
            assert self.output.setdefault(self.batch, written) == written, "the same files again"
        if dies == "commit":
            return
        if events or not self.leased or self.replays_events:
            for event in self.leased:
                self.queue.remove(event)
        self.leased, self.under_way, self.batch = [], False, self.batch + 1

    def read(self) -> list[tuple[str, str]]:
        return sorted((file.path, file.etag) for files in self.output.values() for file in files)


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.sampled_from("abcdefgh"), st.integers(0, 3)),
        st.tuples(
            st.just("run"),
            st.randoms(use_true_random=False),
            st.sampled_from([*STEPS[1:], "beside", NEVER]),
        ),
    ),
    max_size=40,
)


@pytest.mark.parametrize("overwrites", [False, True])
@pytest.mark.parametrize("replays_events", [False, True])
@given(actions=ACTIONS, bad=st.sets(st.sampled_from("abcdefgh"), max_size=2))
@settings(deadline=None, max_examples=7 * EXAMPLES, suppress_health_check=[HealthCheck.too_slow])
def test_each_file_is_read_once(
    overwrites: bool, replays_events: bool, actions: list[tuple], bad: set[str]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        model = Model(Path(folder), overwrites=overwrites, replays_events=replays_events)
        model.bad = bad
        announced: set[str] = set()
        for kind, first, second in actions:
            if kind == "write":
                model.write(first, second)
                announced |= {first} if second else set()
            else:
                taken = first.sample(model.queue, min(len(model.queue), 3))
                model.run(taken, second)
        while model.queue or model.under_way:
            model.run(model.queue[:3], NEVER)

        read = model.read()

        assert len(read) == len(set(read)), "a version twice"
        assert {path for path, _ in read} == announced - bad
        if not overwrites:
            assert len({path for path, _ in read}) == len(read), "a path twice"
