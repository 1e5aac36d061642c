"""leaseOn=executors on a real cluster: what happens to stages, stores and folders.

Each message gives one row, and the queues end empty; or an error says what is wrong.
"""

from __future__ import annotations

import signal
from base64 import b64encode
from pathlib import Path

from leasing import OFTEN, QUEUES, SENT, Leasing
from processes import PATIENCE_S, kill, of_session, wait_for

from spark_azqueue.testing.blobs import FakeBlobService
from spark_azqueue.testing.faults import Fault

RUNNER = "python_streaming_source_runner"
HOLDING = Path(__file__).with_name("holding")
BAD = 10
"""Undecodable bodies in each queue."""


def test_a_stage_that_is_retried_gives_the_same_rows(leasing: Leasing) -> None:
    """An executor is lost, and what its tasks leased and gave to the next stage with it."""
    hold = leasing.folder / "hold"
    hold.touch()
    program = leasing.start({}, "shuffle")
    leasing.wait_until_left(program, SENT - 400)  # the first batch is stored and deleted
    wait_for(lambda: list(leasing.folder.glob("holding-*")), "the second stage")
    kill(leasing.cluster.executors(leasing.cluster.workers[0]))
    hold.unlink()

    leasing.each_row_once(program)
    (events,) = (leasing.folder / "events").iterdir()
    assert '"Stage Attempt ID":1' in events.read_text(), "no stage was retried"


def test_the_process_of_the_source_is_killed_alone(leasing: Leasing) -> None:
    leasing.fake.faults.add(Fault("delete", "slow", every=60, seconds=1.0))
    program = leasing.start({})
    leasing.wait_until_left(program, 700)
    killed = of_session(program.process.pid, RUNNER)
    assert killed
    kill(killed)
    assert program.process.wait(PATIENCE_S) != 0, "the query is to fail"

    leasing.fake.faults.clear()
    leasing.each_row_once(leasing.start({}))


def test_a_frozen_worker_that_goes_on_when_its_plan_was_cleaned_deletes_nothing(
    leasing: Leasing,
) -> None:
    """It holds messages whose leases go on for long: it could delete them."""
    folder, fake = leasing.folder, leasing.fake
    hold = folder / "hold-puts"
    hold.touch()
    program = leasing.start(
        OFTEN
        | {
            "spark.speculation.minTaskRuntime": "3s",
            "spark.python.task.killTimeout": "600s",
            "spark.executorEnv.HOLD": str(folder),
            "spark.executorEnv.PYTHONPATH": str(HOLDING),
        },
        visibilityTimeout="600 seconds",
        writeAheadLogRetention="10",
        maxMessagesPerTrigger="50",
        executorSlots="2",
    )
    waiting = wait_for(lambda: list(folder.glob("puts-*")), "a task that has leased")
    frozen = int(waiting[0].name.partition("-")[2])
    kill([frozen], signal.SIGSTOP)
    hold.unlink()

    def is_cleaned() -> bool:
        assert program.process.poll() is None, program.said()[-5000:]
        return any((folder / "log" / "floors").glob("[0-9]*"))

    wait_for(is_cleaned, "the plan to be cleaned")
    before = leasing.left()
    assert before > 0, "what the frozen one has leased"
    kill([frozen], signal.SIGCONT)
    ended = folder / f"ended-{frozen}"
    wait_for(lambda: ended.exists() and ended.read_text(), "the frozen one to end")
    assert "was removed while this task was at work" in ended.read_text()

    fake.clock.advance(601)  # its leases end
    leasing.each_row_once(program)


def test_an_executor_that_is_killed_between_its_copies_and_its_put_copies_nothing_again(
    leasing: Leasing,
) -> None:
    """What does not decode is dead-lettered, original and all, before anything is stored."""
    folder, fake, bad = leasing.folder, leasing.fake, set[str]()
    for place, name in enumerate(leasing.names):
        fake.delete_queue(name)
        fake.create_queue(name)
        fake.create_queue(f"{name}-poison")
        undecodable = [f"!!{place}-{number}" for number in range(BAD)]
        good = [b64encode(f"m{number}".encode()).decode() for number in range(place, SENT, QUEUES)]
        fake.put_many(name, undecodable + good)
        bad |= set(undecodable)
    hold = folder / "hold-puts"
    hold.touch()
    program = leasing.start(
        {"spark.executorEnv.HOLD": str(folder), "spark.executorEnv.PYTHONPATH": str(HOLDING)},
        messageEncoding="base64",
        onUndecodable="poison",
        poisonFormat="copy",
    )
    waiting = wait_for(lambda: list(folder.glob("puts-*")), "a task that has copied")

    def copies() -> list[str]:
        queues = (f"{name}-poison" for name in leasing.names)
        return [each.text for queue in queues for each in fake.messages(queue)]

    assert copies()
    assert not list((folder / "log" / "slots").glob("*-s0*")), "nothing is stored yet"
    kill([int(each.name.partition("-")[2]) for each in waiting])
    hold.unlink()

    leasing.each_row_once(program)
    assert sorted(copies()) == sorted(bad)


def test_a_log_in_blobs_that_are_late_refused_or_lost(leasing: Leasing) -> None:
    """What is put again after a lost answer gets 409."""
    with FakeBlobService() as blobs:
        text = f"AccountName=fakeaccount;AccountKey=a2V5;BlobEndpoint={blobs.url}"
        blobs.faults.add(Fault("put_blob", "late", every=5, seconds=0.2))
        blobs.faults.add(Fault("put_blob", "reply_lost", every=3))
        blobs.faults.add(Fault("put_blob", "busy_503", every=7, seconds=0.0))
        blobs.faults.add(Fault("get_blob", "error_500", every=9))
        blobs.faults.add(Fault("list_blobs", "error_500", every=4))
        program = leasing.start(
            {}, writeAheadLog="blob:logs/orders", **{"secret.blobConnectionString": text}
        )
        leasing.each_row_once(program)
        assert {"late", "reply_lost", "busy_503", "error_500"} <= set(blobs.faults.injected)
    assert not (leasing.folder / "log").exists()


def test_executors_that_do_not_have_the_folder_are_told(leasing: Leasing) -> None:
    """The path means another folder in each process, as if the disk were not mounted there."""
    program = leasing.start(
        {"spark.task.maxFailures": "1"}, writeAheadLog="file:/proc/self/cwd/log"
    )
    assert program.process.wait(PATIENCE_S) != 0
    assert (
        "Is the disk mounted, at this path, on the driver and on every executor?" in program.said()
    )
    assert (leasing.folder / "log").is_dir(), "the driver has it"
    assert leasing.left() == SENT
    assert leasing.fake.requests["dequeue"] == 0
