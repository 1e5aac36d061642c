"""A query over some loads in a process of its own (`loads_job.py`), for tests that kill it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from .test_crashes import Job


@dataclass(frozen=True)
class Load:
    """account: the variable of the environment that has its connection string, if it takes one."""

    options: Mapping[str, str]
    account: str | None = "CONNECTION_STRING"
    name: str | None = None


class LoadsJob(Job):
    script = Path(__file__).with_name("loads_job.py")
    patience_s = 600  # several processes at once, on a busy machine

    def ask(
        self,
        *loads: Load,
        columns: Iterable[str] = ("queue", "message_id", "body"),
        format: str = "parquet",
        **writer: str,
    ) -> None:
        """What the next start runs. writer: more options of the sink."""
        query = {
            "loads": [{**asdict(load), "options": dict(load.options)} for load in loads],
            "columns": [*columns],
            "format": format,
            "writer": writer,
        }
        self.environment["QUERY"] = json.dumps(query)

    def hold(self) -> None:
        for path in self.folder.glob("holding-*"):
            path.unlink()
        super().hold()

    def wait_until_held(self) -> None:
        self.wait_for(lambda: [*self.folder.glob("holding-*")], "a batch to be held")

    def entries(self, log: str) -> set[int]:
        """The numbers in one of Spark's logs, "offsets" or "commits"."""
        found = (self.folder / "checkpoint" / log).glob("[0-9]*")
        return {int(path.name) for path in found}

    @property
    def is_within_a_batch(self) -> bool:
        return self.entries("commits") < self.entries("offsets")

    def die(self) -> None:
        """Kill all of it, which is alive, with SIGKILL."""
        self.check_alive()
        self.destroy()

    def passed(self) -> list[str]:
        """The bodies that went to the sink, as often as they did. A kill may leave half a line."""
        lines = [
            line
            for path in self.folder.glob("passed-*")
            for line in path.read_text().splitlines(keepends=True)
        ]
        return [json.loads(line) for line in lines if line.endswith("\n")]
