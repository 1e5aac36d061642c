"""`leasing_job.py` on a cluster of three workers, and what must be so in the end."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

from processes import of_session, processes, wait_for
from programs import Program, Programs, event_log
from searching import holders
from standalone import Cluster

from spark_azqueue.testing import FakeQueueService

JOB = Path(__file__).with_name("leasing_job.py")
SENT = int(os.environ.get("AZQUEUE_TEST_LEASED", "1200"))
"""For `test_leasing_bare.py`; the other tests count with 1,200."""
QUEUES = 4
WORKER = "pyspark.daemon"

PATIENT = {"spark.task.maxFailures": "20", "spark.deploy.maxExecutorRetries": "-1"}
OFTEN = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.3",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.minTaskRuntime": "100ms",
    "spark.speculation.efficiency.enabled": "false",
}


@dataclass
class Leasing:
    """The job on four queues, some hundred messages a batch."""

    cluster: Cluster
    python: Path
    programs: Programs
    fake: FakeQueueService
    queue: str
    folder: Path
    commands: set[str] = field(default_factory=set)
    """Command lines of the cluster's processes and of drivers, while tasks ran."""

    def __post_init__(self) -> None:
        self.names = [f"{self.queue}-{number}" for number in range(QUEUES)]
        for place, name in enumerate(self.names):
            self.fake.create_queue(name)
            self.fake.put_many(name, [f"m{n}" for n in range(place, SENT, QUEUES)])
        self.logged = event_log(self.folder / "events")
        self.planted = f"planted-{self.queue}"

    def start(self, settings: dict[str, str], shape: str = "", **options: str) -> Program:
        """shape: of the query, as in `leasing_job.py`. options: of the source."""
        return self.programs.start(
            self.cluster,
            self.python,
            *(JOB, self.folder, ",".join(self.names), shape),
            conf=PATIENT | self.logged | settings,
            TEXT=self.fake.connection_string,
            PLANTED=self.planted,
            OPTIONS=json.dumps({"maxMessagesPerTrigger": "400"} | options),
        )

    def left(self) -> int:
        return sum(self.fake.count(name) for name in self.names)

    def wait_until_left(self, program: Program, most: int) -> None:
        def reached() -> bool:
            assert program.process.poll() is None, program.said()[-5000:]
            return self.left() <= most

        wait_for(reached, f"{most} messages left")
        leaders = {program.process.pid, *(worker.pid for worker in self.cluster.workers)}
        running = processes().values()
        self.commands |= {command for _, session, command in running if session in leaders}

    def each_row_once(self, program: Program) -> None:
        """The job ended well, and all of it; nothing is left in the queues."""
        wait_for(lambda: program.process.poll() is not None or not self.left(), "empty queues")
        (self.folder / "end").touch()
        assert program.result() == {"rows": SENT, "bodies": SENT, "twice": []}
        assert self.left() == 0
        assert (self.folder / "checkpoint" / "commits").is_dir()
        wait_for(self.have_executors_ended, "the executors and their Python to end")
        self.shows_no_key()

    def have_executors_ended(self) -> bool:
        workers = self.cluster.workers
        return not any(
            of_session(each.pid, WORKER) or self.cluster.executors(each) for each in workers
        )

    def shows_no_key(self) -> None:
        """No log, event, file or command line does. The search finds what was planted there."""
        logs = holders(self.folder, self.planted)
        assert "err" in logs
        assert [name for name in logs if name.startswith("events")]
        workers = holders(self.cluster.folder, self.planted)
        assert [name for name in workers if name.endswith("stderr")]
        assert holders(self.folder, self.fake.key) == []
        assert holders(self.cluster.folder, self.fake.key) == []
        assert not self.commands or any(WORKER in command for command in self.commands)
        assert not [command for command in self.commands if self.fake.key in command]
