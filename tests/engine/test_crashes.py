"""Real kills: of the JVM, of the source's process, of the workers, of the whole job."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from processes import PATIENCE_S, end_session, kill, of_session, wait_for

from spark_azqueue.testing import FakeQueueService

REPOSITORY = Path(__file__).resolve().parents[2]
RUNNER = "python_streaming_source_runner"
BODIES = [f"m{i}" for i in range(60)]


class Job:
    """`job.py` in a session of its own (Spark gives its workers a process group of their own)."""

    script = Path(__file__).with_name("job.py")
    patience_s = PATIENCE_S

    def __init__(self, folder: Path, fake: FakeQueueService, queue: str) -> None:
        self.folder = folder
        self.fake = fake
        self.queue = queue
        self.process: subprocess.Popen[bytes] | None = None
        self.visibility = "600"
        self.master = "local[2,4]"
        self.environment: dict[str, str] = {}
        self.paths: list[Path] = []
        """Folders in front of the package that is tested."""

    def start(self) -> None:
        environment = {
            **os.environ,
            **self.environment,
            "PYTHONPATH": os.pathsep.join(map(str, [*self.paths, REPOSITORY])),
            "CONNECTION_STRING": self.fake.connection_string,
            "VISIBILITY": self.visibility,
            "MASTER": self.master,
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        log = (self.folder / "log").open("ab")
        with log:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    str(self.script),
                    str(self.folder),
                    self.queue,
                ],
                env=environment,
                cwd=self.folder,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def mine(self, *words: str) -> list[int]:
        """Processes of this job whose command has all these words."""
        assert self.process
        return of_session(self.process.pid, *words)

    def kill(self, pids: list[int], number: int = signal.SIGKILL) -> None:
        assert pids
        kill(pids, number)

    def check_alive(self) -> None:
        """Fail at once, with the end of its output, if the job has ended by itself."""
        assert self.process
        assert self.process.poll() is None, (self.folder / "log").read_text()[-3000:]

    def wait_for(self, condition: Callable[[], object], what: str) -> None:
        """Wait for something that a job which has ended cannot bring about."""

        def found() -> object:
            self.check_alive()
            return condition()

        wait_for(found, what, self.patience_s)

    def hold(self) -> None:
        (self.folder / "hold").touch()

    def release(self) -> None:
        (self.folder / "hold").unlink()

    def wait_until_held(self) -> None:
        wait_for(lambda: list(self.folder.glob("holding-*")), "a batch to begin", self.patience_s)

    def rows(self) -> list[str]:
        path = self.folder / "rows.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [json.loads(line)["body"] for line in lines]

    def wait_until_settled(self) -> None:
        self.fake.wait_until(lambda: self.fake.count(self.queue) == 0, self.patience_s)

    def end(self) -> None:
        (self.folder / "stop").touch()
        assert self.process
        assert self.process.wait(self.patience_s) == 0, (self.folder / "log").read_text()[-3000:]

    def destroy(self) -> None:
        if self.process:
            end_session(self.process)


@pytest.fixture
def job(tmp_path: Path, fake: FakeQueueService, queue: str) -> Iterator[Job]:
    fake.create_queue(queue)
    fake.put_many(queue, BODIES)
    made = Job(tmp_path, fake, queue)
    yield made
    made.destroy()


def test_when_the_jvm_is_killed_its_source_process_and_renewals_end(
    job: Job, fake: FakeQueueService, queue: str
) -> None:
    job.visibility = "4"
    job.hold()
    job.start()
    job.wait_until_held()
    # The lease follows the work: renewed while the batch runs…
    fake.wait_until(lambda: fake.requests["update"] > 1 + len(BODIES), PATIENCE_S)
    assert job.mine(RUNNER)

    job.kill(job.mine("java", "spark"))
    # …and dropped when the driver is gone.
    wait_for(lambda: not job.mine(RUNNER), "the source's process to end", timeout=10)
    renewed = fake.requests["update"]
    fake.clock.advance(5)
    assert fake.requests["update"] == renewed
    assert fake.visible(queue) == len(BODIES)

    job.destroy()
    job.release()
    job.start()
    job.wait_until_settled()
    job.end()
    assert Counter(job.rows()) == Counter(BODIES)


@pytest.mark.core
def test_after_a_crash_the_unfinished_batch_is_available_at_once(
    job: Job, fake: FakeQueueService, queue: str
) -> None:
    job.hold()
    job.start()
    job.wait_until_held()
    job.destroy()  # kill -9 of everything: driver, JVM, source, workers
    assert fake.visible(queue) == 0, "all leased, for ten minutes"

    job.release()
    job.start()
    job.wait_until_settled()  # and nobody moved the clock
    job.end()
    assert Counter(job.rows()) == Counter(BODIES)


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(signal.SIGKILL, id="KILL"),
        pytest.param(signal.SIGTERM, id="TERM", marks=pytest.mark.long),
    ],
)
def test_when_the_sources_process_is_killed_nothing_is_lost(
    job: Job, fake: FakeQueueService, queue: str, number: int
) -> None:
    job.hold()
    job.start()
    job.wait_until_held()
    job.kill(job.mine(RUNNER), number)
    job.release()  # the batch itself can still end well; the next call of the source cannot
    assert job.process
    assert job.process.wait(PATIENCE_S) != 0
    assert Counter(job.rows()) == Counter(BODIES)
    job.destroy()

    job.start()
    job.wait_until_settled()
    job.end()
    # Spark had committed the batch: its messages were settled from the checkpoint, no row twice.
    assert Counter(job.rows()) == Counter(BODIES)


def test_when_the_workers_are_killed_spark_runs_the_tasks_again(
    job: Job, fake: FakeQueueService, queue: str
) -> None:
    job.hold()
    job.start()
    job.wait_until_held()
    job.kill(job.mine("pyspark.daemon"))
    fake.put_many(queue, ["after"])
    job.release()
    job.wait_until_settled()
    job.end()
    assert Counter(job.rows()) == Counter([*BODIES, "after"])


def test_when_an_executor_is_killed_another_reads_the_same_rows(
    job: Job, fake: FakeQueueService, queue: str
) -> None:
    job.master = "local-cluster[2,1,1024]"
    job.hold()
    job.start()
    job.wait_until_held()
    job.kill(job.mine("java", "CoarseGrainedExecutorBackend")[:1])
    job.release()
    job.wait_until_settled()
    job.end()
    assert Counter(job.rows()) == Counter(BODIES)
    assert fake.requests["delete"] == len(BODIES)


def test_an_orderly_stop_leaves_no_process_and_a_restart_repeats_nothing(
    job: Job, fake: FakeQueueService, queue: str
) -> None:
    job.start()
    job.wait_until_settled()
    job.end()
    wait_for(lambda: not job.mine(), "every process to end", timeout=15)

    (job.folder / "stop").unlink()
    fake.put_many(queue, ["later"])
    job.start()
    job.wait_until_settled()
    job.end()
    assert Counter(job.rows()) == Counter([*BODIES, "later"])
